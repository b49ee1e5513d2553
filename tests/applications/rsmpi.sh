# source cargo mpi 0.8.2
# needs gcc libclang-dev
# uses MPI_Fint, threads, attributes, user operations by closures, buffered and ready sends, all nonblocking
#   collectives, intercommunicators, topologies
# proves the crate's own examples, which its authors run as tests
build() { RUSTFLAGS="-C link-arg=-Wl,-rpath,$prefix/lib" cargo build -q --examples --features derive,complex; }
verify() {
    for source in examples/*.rs; do
        example=${source##*/}
        example=${example%.rs}
        case $example in
            spawn | spawn_multiple) skip "$example" "dynamic processes are not implemented" ; continue ;;
            cartesian_map) skip "$example" "it asks for a grid with 0 processes in one direction, which is MPI_ERR_DIMS here" ; continue ;;
            # It asks for MPI_Finalize before a panic, and its authors run it by itself.
            derive_*panic) skip "$example" "it ends by a panic on purpose" ; continue ;;
        esac
        for ranks in 2 3; do
            check "$example, $ranks ranks" 30 mpiexec -n $ranks "target/debug/examples/$example"
        done
    done
}
