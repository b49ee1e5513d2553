//! What `mpiexec --help` says.

/// The text.
pub(crate) const TEXT: &str = "\
mpiexec starts the ranks of an MPI job, on this host or on several.

  mpiexec -n 4 ./program ARGUMENT…
  mpiexec --hosts h0,h1 -n 8 ./program
  mpiexec -n 1 ./first : -n 3 ./second          several programs, one MPI_COMM_WORLD

How many, and where
  -n, -np COUNT            ranks of the program that follows (default 1)
  --hosts H0,H1:2          hosts, each with its number of slots if it matters
  -f, --hostfile FILE      the same, a line each: `h0`, `h0:2` or `h0 slots=2`
  --host H0,H1             hosts for the program that follows only
  -ppn, -N COUNT           ranks per host
  --map-by slot|node       fill a host before the next (default), or deal in turn; also ppr:N:node
  --oversubscribe          more ranks than slots are allowed; so they are without it
  --no-oversubscribe       … are refused
                           Without slots, ranks are spread over the hosts evenly, in blocks.

Which processors
  --bind-to WHAT           none (default), hwthread, core, socket or numa: a rank runs on one of those only
  --map-by core|socket|numa
                           deal the ranks of a host to cores in order, or to sockets or memory nodes in turn;
                           :PE=2 behind any --map-by gives each rank two cores. Both bind to cores unless said otherwise.
  --print-rank-map         say which ranks are on which host, as (host:rank,rank)
  --report-bindings        say for each rank which processors it has, or why it is not bound
                           A core is never given to two ranks, of whatever job; if there are too few, none is bound.

How hosts are reached
  --agent TEMPLATE         command that runs something on a host (default `ssh -o BatchMode=yes {host}`, or the
                           variable WEFT_AGENT), for example 'ip netns exec {host}'. One agent runs on each host;
                           everything goes through its standard input and output.
  --agent-program PATH     where mpiexec is found on the hosts (default: where it is here)
  --agent-timeout SECONDS  how long an agent may take to answer (default 20)
  --host-timeout SECONDS   how long a host may be silent before the job ends (default 30; 0: for ever)

What ranks see
  -genv, -env NAME VALUE   set a variable for all programs, or for the one that follows
  -x NAME[=VALUE]          the same for all, with the value from here if none is given
  -genvlist, -envlist A,B  pass only these variables; -genvnone, -envnone: pass none; -genvall, -envall: all (default)
                           Other hosts get all but those that describe this host or login (HOME, DISPLAY, SSH_*…).
                           Settings of Weft (WEFT_*) always pass.
  -wdir DIRECTORY          where the program that follows starts
  --stdin RANK|all|none    who reads standard input (default 0)

What you see
  -l, --tag-output         every line begins with [rank], or [rank on host]
  --merge-stderr-to-stdout
  --timeout SECONDS        end the job then, say where every rank was, and exit with 124
  --stats, --stats=json    at the end, on standard error: pairs of ranks, their link, messages, bytes and resends;
                           and packets that were dropped, by cause
  -v, --verbose            say what is done and which options have no effect
  -q, --quiet              say nothing but why a job failed
  -h, --help; -V, --version

Lines of different ranks never mix; a line of more than 64 KiB is passed in pieces.
The exit status is that of the first rank that failed, 128 + the signal if it was killed; all others are ended.
Accepted without effect: --mca KEY VALUE, --rank-by WORD, --allow-run-as-root.
";
