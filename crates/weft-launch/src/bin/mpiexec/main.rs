//! `mpiexec`: starts the ranks of an MPI job, here and on other hosts.

mod mpir;

fn main() {
    std::process::exit(weft_launch::mpiexec::run(std::env::args_os().skip(1).collect(), &mpir::Mpir));
}
