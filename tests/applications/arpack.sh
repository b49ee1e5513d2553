# source cargo arpack-ng-sys 0.2.1
# needs gcc g++ gfortran make cmake liblapack-dev libblas-dev
# uses mpif.h as CMake finds it: MPI_Allreduce, MPI_Bcast and point-to-point messages in all four arithmetics,
#   MPI_Comm_split
# proves ARPACK's parallel examples: the eigenvalues that 1, 2 and 4 ranks find have small residuals, and as
#   many are found as are asked for; also where one half of the ranks computes alone first
build() {
    cmake -S source -B built -DMPI=ON -DEXAMPLES=ON -DCMAKE_Fortran_FLAGS='-O1 -std=legacy -fallow-argument-mismatch'
    make -s -C built -j"$jobs"
}
# finds EXAMPLE RANKS VALUES: the example prints at least so many eigenvalues, each in a line that ends in its
# residual.
finds() {
    # shellcheck disable=SC2016 # for the inner shell
    says "$1, $2 ranks" 60 '^small residuals$' sh -c \
        'mpiexec -n "$2" "./$1" >"$1.said" && cat "$1.said" && tr D E <"$1.said" | awk -v wanted="$3" "
            / Row +[0-9]+:/ {rows++; if (\$NF < 0.001 && \$NF >= 0) {small++}}
            END {
                if (rows >= wanted && small == rows) {print \"small residuals\"}
                else {print rows \" eigenvalues, \" small + 0 \" of them right\"}
            }"' \
        sh "$1" "$2" "$3"
}
verify() {
    cd built/PARPACK/EXAMPLES/MPI
    for ranks in 1 2 4; do
        for example in pssdrv1 pdsdrv1 psndrv1 pdndrv1 psndrv3 pdndrv3 pcndrv1 pzndrv1; do
            finds $example $ranks 4
        done
    done
    cd ../../TESTS/MPI
    finds issue46 4 4
}
