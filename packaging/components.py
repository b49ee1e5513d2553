#!/usr/bin/env python3
"""packaging/components.py DIRECTORY: writes what the programs of a package are made of.

sbom.cdx.json   a bill of materials: every crate that is linked in, with its checksum (CycloneDX 1.5)
LICENSES.txt    the licences of these crates, each text once, with the crates that it covers

The crates are those that cargo links into the packaged programs on this platform, from Cargo.lock. Crates that
only run while others are compiled are left out.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tomllib

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ("weft-library", "weft-launch", "weft-cli", "weft-netd")
# Words by which a crate offers its code under one of Weft's own licences.
OWN = ("MIT", "Apache-2.0")
# The licences of parts that are under none of them: they join Weft's own in the licence of a package. The
# fonts of `weft report` are the crate dejavu's.
FURTHER = {"BSD-2-Clause", "BSD-3-Clause", "Bitstream-Vera"}
FONTS = {"dejavu": "Bitstream-Vera"}


def run(*words):
    return subprocess.run(words, cwd=TOP, check=True, capture_output=True, text=True).stdout


def host():
    return re.search(r"^host: (.*)$", run("rustc", "-vV"), re.M).group(1)


def crates():
    """The packages of `cargo metadata` that are linked in, by name and version.

    `cargo tree` knows which optional dependencies these programs alone have, `cargo metadata` does not.
    """
    words = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--target", host()]
    for program in PROGRAMS:
        words += ["--package", program]
    lines = run(*words, "--prefix", "none", "--format", "{p}").splitlines()
    linked = {tuple(line.split()[:2]) for line in lines if line}
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1"))
    found = [one for one in metadata["packages"] if (one["name"], "v" + one["version"]) in linked]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def expression(package):
    """The licence of a crate as an SPDX expression. Older crates write `/` for OR."""
    licence = (package["license"] or "").replace("/", " OR ")
    if not licence:
        sys.exit(f"{package['name']} {package['version']} names no licence")
    return licence


def further(packages):
    """The licences that a package needs beside Weft's own."""
    found = {FONTS[package["name"]] for package in packages if package["name"] in FONTS}
    for package in packages:
        if not any(own in re.split(r"[ ()]+", expression(package)) for own in OWN):
            found.add(expression(package))
    return found


def bill(packages, version):
    with open(os.path.join(TOP, "Cargo.lock"), "rb") as file:
        checksums = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.load(file)["package"]}
    components = []
    for package in packages:
        name, number = package["name"], package["version"]
        component = {
            "type": "library",
            "name": name,
            "version": number,
            "bom-ref": f"{name}@{number}",
            "licenses": [{"expression": expression(package)}],
        }
        if checksum := checksums.get((name, number)):
            component["purl"] = f"pkg:cargo/{name}@{number}"
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    rust = run("rustc", "--version").split()[1]
    components.append({
        "type": "library",
        "name": "rust-std",
        "version": rust,
        "bom-ref": f"rust-std@{rust}",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    })
    main = {
        "type": "application",
        "name": "weft",
        "version": version,
        "bom-ref": f"weft@{version}",
        "licenses": [{"expression": "Apache-2.0 OR MIT"}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main},
        "components": components,
    }


def texts(package):
    """The texts of the licences of a crate: those that suffice, MIT's where the crate offers it."""
    directory = os.path.dirname(package["manifest_path"])
    names = sorted(name for name in os.listdir(directory) if re.match(r"(?i)(licen|copying|unlicense)", name))
    short = [name for name in names if "mit" in name.lower()]
    for name in short or names:
        yield read(os.path.join(directory, name))
    if package["name"] in FONTS:
        (fonts,) = glob.glob(os.path.join(directory, "assets", "*", "LICENSE"))
        yield read(fonts)


def read(path):
    with open(path, encoding="utf-8") as file:
        return "\n".join(line.rstrip() for line in file.read().strip().splitlines())


def licences(packages):
    covered = {}
    for package in packages:
        if package["name"].startswith("weft-"):
            continue
        for text in texts(package):
            covered.setdefault(text, []).append(f"{package['name']} {package['version']} ({expression(package)})")
    out = [
        "Weft is licensed under the Apache License 2.0 or the MIT licence, at your option. Its programs contain\n"
        "Rust's standard library (MIT or Apache-2.0, the Rust project) and the crates below, under these licences."
    ]
    for text, names in sorted(covered.items(), key=lambda item: item[1]):
        out.append("\n".join(names) + "\n\n" + text)
    return ("\n\n" + "-" * 80 + "\n\n").join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: packaging/components.py DIRECTORY")
    into = sys.argv[1]
    packages = crates()
    if further(packages) != FURTHER:
        sys.exit(f"packaging/components.py: the licences of packages are {sorted(further(packages))} beside Weft's "
                 f"own, and FURTHER lists {sorted(FURTHER)}: look at the new ones, then change the list")
    version = next(package["version"] for package in packages if package["name"] == "weft-cli")
    with open(os.path.join(into, "sbom.cdx.json"), "w", encoding="utf-8") as file:
        json.dump(bill(packages, version), file, indent=1)
        file.write("\n")
    with open(os.path.join(into, "LICENSES.txt"), "w", encoding="utf-8") as file:
        file.write(licences(packages))


if __name__ == "__main__":
    main()
