# source apt hypre
# needs gcc gfortran make bash
# uses MPI_Comm_f2c, persistent requests, MPI_Testall, MPI_Allgatherv, MPI_Scan, MPI_Iprobe and MPI_Probe;
#   mpif.h
# proves three of its regression suites, of structured and unstructured solvers: results with several ranks
#   are compared with those of one; two of its examples in Fortran, whose solvers converge
build() {
    cd src
    ./configure --without-fei CC=mpicc CXX=mpicxx F77=mpif77 CFLAGS=-O1 CXXFLAGS=-O1 FFLAGS=-O1
    make -s -j"$jobs"
    make -s -C test -j"$jobs" all
    for example in ex5f ex12f; do
        mpif77 -O1 -Ihypre/include "examples/$example.f" -o "examples/$example" -Lhypre/lib -lHYPRE -lm -lstdc++
    done
}
verify() {
    cd src/test
    for suite in struct/cgpfmg3d struct/migrate ij/default; do
        [ -e "TEST_${suite%/*}/${suite#*/}.sh" ] || continue
        check "$suite" 400 sh -c "rm -f TEST_${suite%/*}/${suite#*/}.err; bash ./runtest.sh -t TEST_${suite%/*}/${suite#*/}.sh && ! test -s TEST_${suite%/*}/${suite#*/}.err"
    done
    says "ex5f in Fortran, 4 ranks" 60 'Final Relative Residual Norm = .*E-0[7-9]' mpirun -n 4 ../examples/ex5f
    check "ex12f in Fortran, 2 ranks" 60 mpirun -n 2 ../examples/ex12f
}
