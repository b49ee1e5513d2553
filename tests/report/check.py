#!/usr/bin/env python3
"""check.py WEFT CHROMIUM: the page that `WEFT report` makes of run.jsonl, in a browser without a window.

A copy of the page gets a script that measures it and writes what it found into the page; the browser prints that page.
Checked in a wide and a narrow window: no error on the console, nothing wider than the window, every chart there and of
some size, no two labels of a chart over each other, no label outside of its chart.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_SECONDS = 90
# The sizes of the window.
WINDOWS = [(1400, 900), (600, 900)]
SCRIPT = """
const found = {errors: window.failures, charts: 0, labels: 0, overlaps: [], outside: [], empty: [], tables: document.querySelectorAll('tbody tr').length};
const root = document.documentElement;
found.overflow = root.scrollWidth - root.clientWidth;
for (const figure of document.querySelectorAll('figure')) {
  const name = figure.dataset.chart, svg = figure.querySelector('svg'), frame = svg && svg.getBoundingClientRect();
  found.charts += 1;
  if (!frame || frame.width < 100 || frame.height < 40) { found.empty.push(name); continue; }
  const scale = frame.width / svg.viewBox.baseVal.width;
  const boxes = [...svg.querySelectorAll('text')].map(text => ({text: text.textContent, box: text.getBoundingClientRect()}));
  found.labels += boxes.length;
  boxes.forEach(({text, box: a}, i) => {
    if (a.width <= 0 || a.height <= 0) found.empty.push(name + ': ' + text);
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) found.outside.push(name + ': ' + text);
    for (const {text: other, box: b} of boxes.slice(i + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      // A line's box is higher than its letters.
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) - 4 * scale;
      if (across > 1 && down > 0) found.overlaps.push(name + ': ' + text + ' / ' + other);
    }
  });
}
const result = document.createElement('pre');
result.id = 'found';
result.textContent = JSON.stringify(found);
document.body.appendChild(result);
"""


def render(chromium, page, size, profile):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--v=0"]
    command = [chromium, *flags, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "--dump-dom", "file://" + page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    if done.returncode != 0:
        sys.exit(f"{chromium} ended with {done.returncode}: {done.stderr[-1000:]}")
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    if not match:
        sys.exit("the page did not measure itself: " + done.stderr[-1000:])
    return json.loads(html.unescape(match.group(1))), console


def main():
    weft, chromium = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="weft-report-") as work:
        page = os.path.join(work, "report.html")
        subprocess.run([weft, "report", os.path.join(HERE, "run.jsonl"), "-o", page], check=True, timeout=LIMIT_SECONDS)
        text = open(page, encoding="utf-8").read()
        charts = text.count("<figure")
        # The page allows no script, which is right for a report; the copy that is measured does.
        measured = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
        errors = "<script>window.failures = []; window.onerror = (why) => { window.failures.push(String(why)); };</script>"
        measured = measured.replace("<head>", "<head>" + errors, 1).replace("</body>", f"<script>{SCRIPT}</script></body>")
        copy = os.path.join(work, "measured.html")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(measured)
        wrong = []
        for size in WINDOWS:
            found, console = render(chromium, copy, size, os.path.join(work, f"profile-{size[0]}"))
            wrong += [f"{size[0]} pixels wide: {what}: {found[what]}" for what in ("errors", "overlaps", "outside", "empty") if found[what]]
            wrong += [f"{size[0]} pixels wide: the console says {line}" for line in console]
            if found["overflow"] > 0:
                wrong.append(f"{size[0]} pixels wide: the page is {found['overflow']} pixels wider than the window")
            if found["charts"] != charts or charts < 15 or found["labels"] < 10 * charts or found["tables"] < 50:
                wrong.append(f"{size[0]} pixels wide: {found['charts']} of {charts} charts, {found['labels']} labels, {found['tables']} rows")
        if wrong:
            sys.exit("\n".join(wrong))
        print(f"the report is well: {charts} charts, {found['labels']} labels, {found['tables']} rows")


if __name__ == "__main__":
    main()
