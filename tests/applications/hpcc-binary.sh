# source deb hpcc libblas3 libgfortran5
# needs dpkg
# uses Open MPI's ABI (libmpi.so.40): derived datatypes, MPI_Iprobe, MPI_Testany, user operations, split
#   communicators, cancel, MPI-1's removed functions
# proves the program as Debian compiled it runs over Weft: LINPACK, matrix transposition, random updates and
#   distributed Fourier transforms verify their own results
build() { test -x usr/bin/hpcc; }
verify() {
    libraries=$(find "$PWD/usr/lib" -name 'lib*.so.*' -exec dirname {} ';' | sort -u | paste -sd:)
    says "weft info: its ABI is Open MPI's, and it loads Weft's library" 20 "weft/faces/libmpi.so.40, Weft's" \
        env LD_LIBRARY_PATH="$libraries" weft info "$PWD/usr/bin/hpcc"
    for grid in '1 2' '2 2'; do
        # shellcheck disable=SC2086 # two numbers
        set -- $grid
        ranks=$(($1 * $2))
        rm -rf "run-$ranks"
        mkdir "run-$ranks"
        sed -e "s/^1000  *Ns/200 Ns/" -e "s/^2  *Ps/$1 Ps/" -e "s/^2  *Qs/$2 Qs/" \
            usr/share/doc/hpcc/examples/_hpccinf.txt >"run-$ranks/hpccinf.txt"
        out=$PWD/run-$ranks/hpccoutf.txt
        check "it runs, $ranks ranks" 400 env LD_LIBRARY_PATH="$libraries" \
            sh -c "cd 'run-$ranks' && mpiexec -n $ranks ../usr/bin/hpcc"
        says "it says that it succeeded, $ranks ranks" 5 '^Success=1' cat "$out"
        says "LINPACK: residual is small, $ranks ranks" 5 ' PASSED' sed -n '/HPLinpack/,$p' "$out"
        check "LINPACK: nothing failed, $ranks ranks" 5 sh -c "! grep 'FAILED' '$out'"
        says "transposition: residual is 0, $ranks ranks" 5 '^PTRANS_residual=0$' cat "$out"
        says "Fourier transform: error is small, $ranks ranks" 5 '^MPIFFT_maxErr=[0-9.]*e-1[0-9]$' cat "$out"
    done
}
