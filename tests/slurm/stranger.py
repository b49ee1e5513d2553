"""Asks the first task of a step of Slurm, which runs on this host, for its credential, as anybody can. Expects
that only the user of the step can read it.

usage: stranger.py JOB.STEP SOCKET     (the step, and the socket of MUNGE's daemon)
"""

import socket
import subprocess
import sys

NOBODY = "65534"


def credential(step):
    """The credential of the one program on this host that knows the step."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            rows = [line.split() for line in lines]
        ports |= {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), 5) as stream:
            stream.settimeout(5)
            stream.sendall(f"weft-step/1 {step} 1 {'07' * 16}\n".encode())
            try:
                words = stream.makefile().readline().split()
            except (OSError, UnicodeDecodeError):
                continue
        if len(words) == 2 and words[1].startswith("MUNGE:"):
            return words[1]
    sys.exit(f"no port of {sorted(ports)} is that of step {step}")


def decode(text, socket_path, *before):
    command = [*before, "unmunge", "--socket", socket_path]
    return subprocess.run(command, input=text, capture_output=True, text=True)


step, socket_path = sys.argv[1:]
found = credential(step)
stranger = decode(found, socket_path, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
if stranger.returncode == 0 or "nauthorized" not in stranger.stderr:
    sys.exit(f"another user can read the credential: {stranger}")
if f"weft-step/1 {step}" in stranger.stdout:
    sys.exit(f"another user is shown the content: {stranger}")
own = decode(found, socket_path)
if own.returncode != 0 or f"weft-step/1 {step}" not in own.stdout:
    sys.exit(f"the user of the step cannot read the credential: {own}")
