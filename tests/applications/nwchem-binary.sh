# source deb nwchem-mpich nwchem-openmpi nwchem-data libscalapack-mpich2.2 libscalapack-openmpi2.2
#   libblas3 liblapack3 libgfortran5
# needs dpkg
# uses MPICH's ABI in Fortran (libmpichfort.so.12) and Open MPI's (libmpi_mpifh.so.40): Global Arrays over
#   point-to-point, MPI_Probe, groups and communicators, reductions
# proves NWChem as Debian compiled it for each library finds the energies of water that it finds over that
#   library: a self-consistent field, a density functional, and perturbation theory of second order
build() { test -x usr/bin/nwchem.mpich && test -x usr/bin/nwchem.openmpi; }
verify() {
    LD_LIBRARY_PATH=$(libraries)
    NWCHEM_BASIS_LIBRARY=$PWD/usr/share/nwchem/libraries/
    export LD_LIBRARY_PATH NWCHEM_BASIS_LIBRARY OPENBLAS_NUM_THREADS=1
    bin=$PWD/usr/bin
    geometry='geometry; O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587; end; basis; * library 6-31g; end'
    for task in scf dft mp2; do
        printf 'start water\n%s\nscf; thresh 1e-8; end\ntask %s energy\n' "$geometry" $task | tr ';' '\n' >"$home/$task.nw"
        for abi in mpich openmpi; do
            for ranks in 2 4; do
                same "$task for $abi, $ranks ranks" 120 $abi $ranks 'Total [A-Z0-9]* energy' \
                    "$bin/nwchem.$abi" "$home/$task.nw"
            done
        done
    done
}
