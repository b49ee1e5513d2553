# source deb mumps-test libmumps-5.5 libscalapack-openmpi2.2 libscotch-7.0 libptscotch-7.0 libblas3
#   liblapack3 libgfortran5
# needs dpkg
# uses Open MPI's ABI in Fortran (libmpi_mpifh.so.40) and C: MPI_Pack and MPI_Unpack, MPI_Iprobe,
#   MPI_Waitany, user operations, MPI_Comm_f2c
# proves the examples as Debian compiled them: a direct solver gives the known solutions in all four
#   arithmetics, those that it gives over Open MPI
build() { test -x usr/lib/mumps/dsimpletest; }
verify() {
    LD_LIBRARY_PATH=$(libraries)
    export LD_LIBRARY_PATH
    cd usr/lib/mumps
    for arithmetic in s d c z; do
        case $arithmetic in s | d) input=input_simpletest_real ;; *) input=input_simpletest_cmplx ;; esac
        for ranks in 1 2 4; do
            same "${arithmetic}simpletest, $ranks ranks" 60 openmpi $ranks 'Solution is' \
                sh -c "./${arithmetic}simpletest <$input"
        done
    done
}
