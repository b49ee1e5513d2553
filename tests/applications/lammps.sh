# source apt lammps
# needs g++ make
# uses MPI_Cart_create, _get, _shift and _rank, MPI_Sendrecv and MPI_Irecv between neighbours, reductions and
#   scans of doubles and 64-bit integers, split communicators, 3D transforms over MPI_Alltoallv and
#   point-to-point, MPI_Rsend
# proves its benchmarks of a melt, a metal and a solvated protein end in the same energies with 1, 2 and 4
#   ranks; forces on each atom are those its authors recorded, of short-ranged and of long-ranged pairs
packages='MOLECULE KSPACE MANYBODY RIGID'
build() {
    cd src
    for package in $packages; do
        make "yes-$package"
    done
    make -j"$jobs" mpi CCFLAGS='-O1 -std=c++11' LINKFLAGS=-O1 LMP_INC=-DLAMMPS_MEMALIGN=64
}

# part FILE NAME: the lines of a text of that name in one of its recorded tests.
part() { awk -v name="$2" '/^[a-z_]*:/ { inside = $1 == name ":" && /\|/; next } inside && NF' "$1"; }

# recorded TEST: the input of one step with the potential of the test, and the forces that were recorded.
recorded() {
    yaml=$tests/$1.yaml
    {
        printf 'variable input_dir index %s\n' "$tests"
        part "$yaml" pre_commands
        sed -n "s|^input_file: |include $tests/|p" "$yaml"
        sed -n 's/^pair_style: /pair_style /p' "$yaml"
        part "$yaml" pair_coeff | sed 's/^/pair_coeff /'
        part "$yaml" post_commands
        echo 'fix 1 all nve'
        echo "dump 1 all custom 1 $home/forces id fx fy fz"
        echo 'dump_modify 1 sort id format float %.16e'
        echo 'run 0 post no'
    } >"$home/in.$1"
    part "$yaml" init_forces >"$home/recorded.$1"
}

verify() {
    tests=$PWD/unittest/force-styles/tests
    # The numbers between a line of names and the end of a run, without the times, which differ. Several ranks
    # add in another order than one.
    cat >"$home/energies.awk" <<'END'
/^Step/ || /- Step / { inside = 1 }
/^Loop time/ { inside = 0 }
inside && !/CPU/ {
    for (i = 1; i <= NF; i++)
        if ($i ~ /^-?[0-9.]+(e[-+][0-9]+)?$/) {
            if (FNR == NR) { was[++numbers] = $i; continue }
            gap = $i - was[++seen]
            if (gap * gap > 1e-8 * (1 + was[seen] * was[seen])) { print was[seen] " and " $i; wrong++ }
        }
}
END { print seen " numbers of " numbers; exit wrong > 0 || seen != numbers || numbers < 10 }
END
    # Each force on each atom is as far off as sums in another order may be.
    cat >"$home/forces.awk" <<'END'
NR == FNR { for (i = 2; i <= 4; i++) { was[$1, i] = $i; if ($i * $i > size) size = $i * $i } atoms++; next }
NF == 4 && /^[0-9]+ [-0-9.]+e/ { seen++; for (i = 2; i <= 4; i++) { gap = $i - was[$1, i]; if (gap * gap > worst) worst = gap * gap } }
END { print seen " atoms, forces at most " sqrt(worst) " of " sqrt(size) " off"; exit !(seen == atoms && atoms > 20 && worst <= 1e-20 * size) }
END
    # Each rank draws random numbers of its own for the chains, and the number of ranks decides which.
    for input in lj eam rhodo; do
        for ranks in 1 2 4; do
            check "in.$input, $ranks ranks" 400 sh -c "cd bench && mpiexec -n $ranks ../src/lmp_mpi -in in.$input -log none >'$home/$input-$ranks' && \
                awk -f '$home/energies.awk' '$home/$input-1' '$home/$input-$ranks'"
        done
    done
    for test in mol-pair-lj_cut mol-pair-lj_cut_coul_long mol-pair-buck_coul_long kspace-ewald kspace-pppm kspace-msm; do
        recorded $test
        for ranks in 1 2 4; do
            check "forces of $test, $ranks ranks" 60 sh -c "rm -f '$home/forces' && mpiexec -n $ranks src/lmp_mpi -in '$home/in.$test' -log none && \
                awk -f '$home/forces.awk' '$home/recorded.$test' '$home/forces'"
        done
    done
}
