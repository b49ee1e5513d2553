"""What a debugger does with the MPIR process acquisition interface of mpiexec: stops where it says so, and reads the table of ranks.

gdb -q -nx -batch -x tests/tools/mpir.py --args mpiexec -n 3 PROGRAM
"""

import os
import struct

import gdb

SPAWNED, ABORTING = 1, 2


def number(name, size):
    """An integer variable of mpiexec: its symbol has no type that gdb knows."""
    address = int(gdb.parse_and_eval("(unsigned long)&%s" % name))
    memory = gdb.selected_inferior().read_memory(address, size)
    return int.from_bytes(bytes(memory), "little")


def text(address):
    memory, byte = b"", b""
    while byte != b"\0":
        memory += byte
        byte = bytes(gdb.selected_inferior().read_memory(address + len(memory), 1))
    return memory.decode()


def show_table():
    table, size = number("MPIR_proctable", 8), number("MPIR_proctable_size", 4)
    print("MPIR: %d ranks" % size)
    for rank in range(size):
        entry = bytes(gdb.selected_inferior().read_memory(table + 24 * rank, 24))
        host, program, pid = struct.unpack("QQi4x", entry)
        try:
            runs = os.path.basename(os.readlink("/proc/%d/exe" % pid))
        except OSError:
            runs = "no more"
        print("MPIR: rank %d on %s is %s, and that runs %s" % (rank, text(host), os.path.basename(text(program)), runs))


gdb.execute("set language c")
gdb.execute("set breakpoint pending on")
gdb.execute("handle SIGCHLD SIGTERM SIGPIPE nostop noprint pass")
gdb.execute("break MPIR_Breakpoint")
gdb.execute("run")
while gdb.selected_inferior().pid:
    state = number("MPIR_debug_state", 4)
    if state == SPAWNED:
        show_table()
    elif state == ABORTING:
        print("MPIR: aborting: %s" % text(number("MPIR_debug_abort_string", 8)))
    gdb.execute("continue")
print("MPIR: exit status %s" % gdb.convenience_variable("_exitcode"))
