"""Start-up and small-message latency of Weft beside MPICH (PyPI), taken in turn in one run.

usage: bench/skeleton.py [ROUNDS]

The programs are compiled once, against the standard ABI; each library carries the same binary. This machine's noise is
in both columns: only the ratio means something. Medians over rounds.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = ROOT / "build/prefix"
MPICH = ROOT / "build/venv"
LIMIT_SECONDS = 60


def run(command, environment):
    """Its standard output and how long it took, in seconds."""
    began = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, **environment}, timeout=LIMIT_SECONDS, check=True, capture_output=True, text=True
    )
    return done.stdout, time.perf_counter() - began


class Peer:
    def __init__(self, name, mpiexec, environment):
        self.name, self.mpiexec, self.environment = name, mpiexec, environment

    def local(self, program):
        return run([self.mpiexec, "-n", "2", program], self.environment)


class Weft(Peer):
    def remote(self, program, hosts, _work):
        options = ["-ppn", "1", "--hosts", ",".join(hosts), "--agent", "ip netns exec {host}"]
        return run([self.mpiexec, "-n", "2", *options, program], self.environment)


class Mpich(Peer):
    def remote(self, program, hosts, work):
        # Hydra itself knows no namespaces: each rank is started in one by a wrapper.
        wrapper = work / "enter"
        wrapper.write_text(f'#!/bin/sh\nset -- {" ".join(hosts)} -- "$@"\nshift "$PMI_RANK"; host=$1\n'
                           'while [ "$1" != -- ]; do shift; done; shift\nexec ip netns exec "$host" "$@"\n')
        wrapper.chmod(0o755)
        over_tcp = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
        return run([self.mpiexec, "-n", "2", wrapper, program], {**self.environment, **over_tcp})


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    hosts = os.environ.get("WEFT_HOSTS", "").split(",") if os.environ.get("WEFT_HOSTS") else None
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        for source in ("bench/pingpong.c", "bench/hello.c"):
            program = work / pathlib.Path(source).stem
            subprocess.run([MPICH / "bin/mpicc_abi", "-O2", "-o", program, ROOT / source], check=True)
        weft = Weft("Weft", WEFT / "bin/mpiexec", {"LD_LIBRARY_PATH": str(WEFT / "lib")})
        mpich = Mpich("MPICH", MPICH / "bin/mpiexec", {})
        peers = (weft, mpich)
        measures = {
            "mpiexec -n 2 hello, ms": lambda peer: peer.local(work / "hello")[1] * 1e3,
            "8 B half round trip, one node, µs": lambda peer: float(peer.local(work / "pingpong")[0]),
        }
        if hosts:
            measures["8 B half round trip, two hosts, µs"] = lambda peer: float(peer.remote(work / "pingpong", hosts, work)[0])
        print(f"{'':38}{weft.name:>10}{mpich.name:>10}{'ratio':>8}   (medians of {rounds} rounds in turn)")
        for name, measure in measures.items():
            found = {peer.name: [] for peer in peers}
            for peer in peers:  # what is read from disk for the first time
                measure(peer)
            for number in range(rounds):
                for peer in peers if number % 2 == 0 else reversed(peers):
                    found[peer.name].append(measure(peer))
            ours, theirs = (statistics.median(found[peer.name]) for peer in peers)
            print(f"{name:38}{ours:10.2f}{theirs:10.2f}{ours / theirs:8.2f}", flush=True)
        if not hosts:
            print("(two hosts are left out: only root can make them)")


if __name__ == "__main__":
    main()
