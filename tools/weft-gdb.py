"""Weft in gdb: which ranks there are, all of them in one session, and what their message queues hold.

    (gdb) source SHARE/weft/weft-gdb.py
    (gdb) weft attach 4711     every rank below the process 4711, such as mpiexec; without a number: all ranks of yours on this host
    (gdb) weft queues          of each rank: the call it is in, what it waits for, its posted receives and unexpected messages
    (gdb) weft rank 3          goes to the thread of rank 3 that has called MPI_Init
    (gdb) thread apply all bt

Nothing is called in the program that is looked at: each rank has written down how it stands before it went to sleep, and
`weft info --live` reads that. What a rank has done since is not shown.
"""

import json
import os
import shutil
import subprocess

import gdb

# Where this file is: gdb says so only while it reads it.
HERE = os.path.dirname(os.path.abspath(globals().get("__file__", ".")))
# Seconds that `weft info` may take.
LIMIT_SECONDS = 20
# The process that `weft attach` named; empty: all of this user's ranks.
BELOW = ""


def command():
    """The path of `weft`: beside this file's installation, else in PATH."""
    beside = os.path.join(HERE, "..", "..", "bin", "weft")
    found = beside if os.access(beside, os.X_OK) else shutil.which("weft")
    if not found:
        raise gdb.GdbError("there is no `weft` in PATH: install Weft's programs, or add their directory to PATH")
    return found


def ranks():
    """What the ranks at or below the process that `weft attach` named say of themselves, in the order of their numbers."""
    words = [command(), "info", "--live"] + ([BELOW] if BELOW else []) + ["--once", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode != 0:
        raise gdb.GdbError(done.stderr.strip() or "`weft info --live` has failed")
    said = json.loads(done.stdout)
    return [rank for rank in said["ranks"] if "rank" in rank], said.get("why", [])


def of_session():
    """The processes of this session, by number of the inferior."""
    return {inferior.pid: inferior.num for inferior in gdb.inferiors() if inferior.pid > 0}


def message(entry, rank, what=""):
    """One operation or message of a rank in words."""
    peer = "anybody" if entry["peer"] is None else "rank %d" % entry["peer"]
    if entry["peer"] is not None and entry["peer_job"] != rank["job"]:
        peer += " of another job"
    tag = "" if entry["tag"] is None else ", tag %d" % entry["tag"]
    return "%s %s%s, %d bytes on %s" % (what or entry["what"], peer, tag, entry["bytes"], entry["communicator"] or "a communicator")


def doing(rank):
    """What a rank does, in words."""
    call = rank["call"] or "no call"
    if rank["doing"] == "computes":
        return "outside of MPI; last seen in %s %.1f s before" % (call, rank["published_seconds_ago"])
    return "%s in %s for %.1f s" % (rank["doing"], call, rank["still_seconds"])


class Weft(gdb.Command):
    """weft attach [PID] | weft ranks | weft rank N | weft queues: the ranks of a job of Weft (see the head of weft-gdb.py)."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_USER, prefix=True)


class Attach(gdb.Command):
    """weft attach [PID]: attaches to every rank at or below the process PID, or to all of yours on this host, in this session."""

    def __init__(self):
        super().__init__("weft attach", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        # Ranks of other jobs of the same user would have nothing to do with what these wait for.
        global BELOW
        BELOW = argument.strip()
        found, _ = ranks()
        gdb.execute("set schedule-multiple on")
        for rank in found:
            known = of_session()
            if rank["pid"] in known:
                continue
            if gdb.selected_inferior().pid > 0:
                gdb.execute("add-inferior", to_string=True)
                gdb.execute("inferior %d" % max(inferior.num for inferior in gdb.inferiors()), to_string=True)
            gdb.execute("attach %d" % rank["pid"], to_string=True)
        show()


class Ranks(gdb.Command):
    """weft ranks: the ranks of this session, their processes and inferiors, and the call each is in."""

    def __init__(self):
        super().__init__("weft ranks", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        show()


def show():
    """A line for each rank of the session."""
    session = of_session()
    for rank in ranks()[0]:
        if rank["pid"] in session:
            print("rank %d of %d: inferior %d, process %d, %s"
                  % (rank["rank"], rank["size"], session[rank["pid"]], rank["pid"], doing(rank)))


class Rank(gdb.Command):
    """weft rank N: goes to the main thread of rank N."""

    def __init__(self):
        super().__init__("weft rank", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        session = of_session()
        for rank in ranks()[0]:
            if str(rank["rank"]) == argument.strip() and rank["pid"] in session:
                gdb.execute("thread %d.1" % session[rank["pid"]])
                return
        raise gdb.GdbError("no rank %s is in this session: see `weft ranks`" % (argument.strip() or "without a number"))


class Queues(gdb.Command):
    """weft queues: what each rank of this session waits for, and what its queues hold."""

    def __init__(self):
        super().__init__("weft queues", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        session = of_session()
        found, why = ranks()
        mine = [rank for rank in found if rank["pid"] in session]
        if not mine:
            raise gdb.GdbError("no process of this session is a rank of Weft that may be read")
        for rank in mine:
            print("rank %d of %d: %s" % (rank["rank"], rank["size"], doing(rank)))
            for wait in rank["waits"]:
                print("  %s%s" % ("waits for: " if wait["awaited"] else "has begun: ", message(wait, rank)))
            print("  %d receives posted, %d messages unexpected, %d requests" % (rank["receives_posted"], rank["messages_unexpected"], rank["requests"]))
            for arrived in rank["unexpected"]:
                print("  unexpected: %s" % message(arrived, rank, "from"))
        for sentence in why:
            print("why: %s" % sentence)


Weft()
Attach()
Ranks()
Rank()
Queues()
