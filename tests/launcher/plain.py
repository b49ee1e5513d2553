"""A launcher that does what PMI-1.1 asks for and nothing more: plain.py RANKS PROGRAM [ARGUMENT…].

Ranks that die are nobody's concern here. It ends when all ranks have, with the highest of their exit codes (128 + the signal of
one that was killed), or with that of MPI_Abort, which ends them all.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys


def fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


class Job:
    def __init__(self, ranks, command):
        self.ranks, self.values, self.waiting = ranks, {}, []
        self.selector = selectors.DefaultSelector()
        self.processes = []
        for rank in range(ranks):
            own, other = socket.socketpair()
            environment = dict(os.environ, PMI_FD=str(other.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(ranks))
            self.processes.append(subprocess.Popen(command, env=environment, pass_fds=[other.fileno()]))
            other.close()
            self.selector.register(own, selectors.EVENT_READ, bytearray())

    def abort(self, code):
        for process in self.processes:
            process.kill()
        sys.exit(code)

    def answer(self, connection, asked):
        command = asked.get("cmd")
        if command == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if command == "get_maxes":
            return "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024"
        if command == "get_appnum":
            return "cmd=appnum appnum=0"
        if command == "get_universe_size":
            return f"cmd=universe_size size={self.ranks}"
        if command == "get_my_kvsname":
            return "cmd=my_kvsname kvsname=plain"
        if command == "put":
            self.values[asked["key"]] = asked["value"]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            value = self.values.get(asked["key"])
            return "cmd=get_result rc=-1 msg=unknown" if value is None else f"cmd=get_result rc=0 msg=success value={value}"
        if command == "finalize":
            return "cmd=finalize_ack"
        if command == "abort":
            self.abort(int(asked.get("exitcode", 1)))
        if command == "barrier_in":
            self.waiting.append(connection)
            if len(self.waiting) == self.ranks:
                for one in self.waiting:
                    one.sendall(b"cmd=barrier_out\n")
                self.waiting.clear()
            return None
        return f"cmd={command}_result rc=-1 msg=unknown"

    def serve(self):
        while self.selector.get_map():
            for key, _ in self.selector.select():
                connection, seen = key.fileobj, key.data
                try:
                    got = connection.recv(65536)
                except ConnectionResetError:
                    got = b""
                if not got:
                    self.selector.unregister(connection)
                    continue
                seen += got
                while b"\n" in seen:
                    line, _, rest = bytes(seen).partition(b"\n")
                    seen[:] = rest
                    answer = self.answer(connection, fields(line.decode()))
                    if answer is not None:
                        connection.sendall(answer.encode() + b"\n")
        codes = [process.wait() for process in self.processes]
        return max(code if code >= 0 else 128 - code for code in codes)


# Whoever ends this process ends the ranks, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
job = Job(int(sys.argv[1]), sys.argv[2:])
try:
    code = job.serve()
except BaseException:
    for process in job.processes:
        process.kill()
    raise
sys.exit(code)
