# source deb bagel libscalapack-mpich2.2 libxc9 libboost-serialization1.74.0 libblas3 liblapack3
#   libgfortran5
# needs dpkg
# uses MPICH's ABI (libmpich.so.12): threads, split communicators, MPI_Win_create and passive one-sided
#   operations, nonblocking point-to-point with MPI_Test, reductions
# proves BAGEL as Debian compiled it finds the energies of its own examples that it finds over MPICH:
#   density fitting with and without relativity
build() { test -x usr/bin/BAGEL; }
verify() {
    LD_LIBRARY_PATH=$(libraries)
    export LD_LIBRARY_PATH BAGEL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    for example in hcl_svp_dfhf hf_mix_dfhf; do
        sed 's#"\(basis\|df_basis\)" *: *"\([a-z0-9-]*\)"#"\1" : "'"$PWD"'/usr/share/bagel/\2.json"#g' \
            usr/share/doc/bagel/examples/$example.json >"$home/$example.json"
        for ranks in 1 2 4; do
            # The columns are the cycle, the energy, the error and the time, which differs.
            same "$example, $ranks ranks" 120 mpich $ranks '^ *[0-9][0-9]* *-[0-9]*[.][0-9]' \
                sh -c "usr/bin/BAGEL '$home/$example.json' | sed 's/ [0-9.]*$//'"
        done
    done
}
