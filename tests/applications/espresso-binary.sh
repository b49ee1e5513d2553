# source deb quantum-espresso quantum-espresso-data libscalapack-openmpi2.2 libblas3 liblapack3
#   libfftw3-double3 libfftw3-mpi3 libgfortran5
# needs dpkg
# uses Open MPI's ABI in Fortran (libmpi_mpifh.so.40): communicators split several times, MPI_Alltoall and
#   MPI_Alltoallv of complex numbers, reductions in place, MPI_Type_create_subarray
# proves Quantum ESPRESSO's pw.x as Debian compiled it: 1, 2 and 4 ranks find the energy of diamond that
#   they find over Open MPI
build() {
    test -x usr/bin/pw.x
    gunzip -c usr/share/doc/quantum-espresso/examples/EPW/diamond/pp/C_3.98148.UPF.gz >C.UPF
    cat >diamond.in <<'END'
&control
  calculation = 'scf', prefix = 'diamond', pseudo_dir = './', outdir = './out'
/
&system
  ibrav = 2, celldm(1) = 6.64245, nat = 2, ntyp = 1, ecutwfc = 30
  occupations = 'smearing', smearing = 'mv', degauss = 0.02
/
&electrons
  conv_thr = 1d-9
/
ATOMIC_SPECIES
C 12.01 C.UPF
ATOMIC_POSITIONS crystal
C 0 0 0
C 0.25 0.25 0.25
K_POINTS automatic
2 2 2 0 0 0
END
}
# finds CHECK RANKS OPTION…: the energy is the same to 6 digits; sums of ranks are in another order.
finds() {
    checked=$1
    ranks=$2
    shift 2
    same "$checked" 120 openmpi "$ranks" '^!' \
        sh -c "usr/bin/pw.x $* -input diamond.in | sed 's/\\([.][0-9]\\{6\\}\\)[0-9]*/\\1/'"
}
verify() {
    LD_LIBRARY_PATH=$(libraries)
    export LD_LIBRARY_PATH OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    for ranks in 1 2 4; do
        finds "the energy of diamond, $ranks ranks" $ranks
    done
    finds "the energy of diamond, 2 ranks in 2 pools" 2 -nk 2
}
