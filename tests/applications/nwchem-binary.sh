# source deb nwchem-mpich nwchem-openmpi nwchem-data libscalapack-mpich2.2 libscalapack-openmpi2.2
#   libblas3 liblapack3 libgfortran5
# needs dpkg
# uses MPICH's ABI in Fortran (libmpichfort.so.12) and Open MPI's (libmpi_mpifh.so.40): Global Arrays over
#   point-to-point, MPI_Probe, groups and communicators, reductions
# proves NWChem as Debian compiled it for each library finds the energies of water that it finds over Open
#   MPI: a self-consistent field, a density functional, and perturbation theory of second order
build() { test -x usr/bin/nwchem.mpich && test -x usr/bin/nwchem.openmpi; }
# finds ABI TASK: a command for each rank. Energies are the same to 6 digits: the two programs were compiled
# apart.
finds() { echo "$PWD/usr/bin/nwchem.$1 $home/$2.nw | sed 's/\([.][0-9]\{6\}\)[0-9]*/\1/'"; }
verify() {
    LD_LIBRARY_PATH=$(libraries)
    NWCHEM_BASIS_LIBRARY=$PWD/usr/share/nwchem/libraries/
    export LD_LIBRARY_PATH NWCHEM_BASIS_LIBRARY OPENBLAS_NUM_THREADS=1
    energy='Total [A-Z0-9]* energy'
    geometry='geometry; O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587; end; basis; * library 6-31g; end'
    for task in scf dft mp2; do
        printf 'start water\n%s\nscf; thresh 1e-8; end\ntask %s energy\n' "$geometry" $task | tr ';' '\n' >"$home/$task.nw"
        same "$task for Open MPI" 120 openmpi 2 "$energy" sh -c "$(finds openmpi $task)"
        # Over MPICH two ranks on two busy processors take minutes for it.
        # shellcheck disable=SC2016 # for the inner shell
        check "$task for MPICH: what it finds over Open MPI" 120 sh -c 'test -s "$1"
            mpiexec -n 2 sh -c "$2" | grep -e "$3" | diff "$1" -' sh "$home/own" "$(finds mpich $task)" "$energy"
    done
}
