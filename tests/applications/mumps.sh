# source apt mumps
# needs gcc gfortran make liblapack-dev libblas-dev
# uses mpif.h, MPI_Comm_f2c, MPI_Pack and MPI_Unpack, MPI_Iprobe and MPI_Probe, MPI_Cancel, MPI_Waitany, user
#   operations, MPI_Reduce_scatter
# proves its own examples: a direct solver gives the known solutions in all four arithmetics
build() {
    cp Make.inc/Makefile.inc.generic Makefile.inc
    # Nothing here gets as far as ScaLAPACK, which it links only to factor large fronts at the root.
    set -- CC=mpicc FC=mpif90 FL=mpif90 OPTF='-O1 -fallow-argument-mismatch' OPTC='-O1 -I.' \
        OPTL='-O1 -no-pie -Wl,--unresolved-symbols=ignore-in-object-files' SCALAP= INCPAR= LIBPAR=-llapack
    make -s -j"$jobs" "$@" all
    make -s -j"$jobs" -C examples "$@" all
}
# solves NAME RANKS INPUT: the example finds 1, 2, 3, 4 and 5; complex numbers have no other part.
solves() {
    # shellcheck disable=SC2016 # for the inner shell
    says "$1, $2 ranks" 60 '^1.000 2.000 3.000 4.000 5.000 $' sh -c \
        'mpirun -n "$2" "./$1" <"$3" >"$1.said" && tr "(),\n" "    " <"$1.said" | sed "s/.*Solution is//" | awk "
            {for (i = 1; i <= NF && found < 5; i++) if (\$i > 0.001 || \$i < -0.001) {found++; printf \"%.3f \", \$i}}"' \
        sh "$1" "$2" "$3"
}
verify() {
    cd examples
    for ranks in 1 2 4; do
        for arithmetic in s d; do
            solves "${arithmetic}simpletest" "$ranks" input_simpletest_real
        done
        for arithmetic in c z; do
            solves "${arithmetic}simpletest" "$ranks" input_simpletest_cmplx
        done
    done
    solves dsimpletest_save_restore 2 input_simpletest_real
    check "multiple_arithmetics_example, 3 ranks" 60 mpirun -n 3 ./multiple_arithmetics_example
    says "c_example, 3 ranks" 60 'Solution is : ( *1.00 *2.00)' mpirun -n 3 ./c_example
}
