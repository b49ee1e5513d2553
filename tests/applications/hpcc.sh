# source apt hpcc
# needs gcc make libblas-dev
# uses derived datatypes, MPI_Iprobe, MPI_Testany, user operations, split communicators, cancel, long
#   nonblocking exchanges
# proves LINPACK, matrix transposition, random updates and distributed Fourier transforms verify their own
#   results; latency and bandwidth run through
build() {
    printf '%s\n' 'SHELL = /bin/sh' 'CD = cd' 'CP = cp' 'LN_S = ln -s' 'MKDIR = mkdir -p' 'RM = /bin/rm -f' 'TOUCH = touch' 'ARCH = weft' \
        'TOPdir = ../../..' 'INCdir = $(TOPdir)/include' 'BINdir = $(TOPdir)/bin/$(ARCH)' 'LIBdir = $(TOPdir)/lib/$(ARCH)' 'HPLlib = $(LIBdir)/libhpl.a' \
        'LAlib = -lblas' 'F2CDEFS = -DAdd_ -DF77_INTEGER=int -DStringSunStyle' 'HPL_INCLUDES = -I$(INCdir) -I$(INCdir)/$(ARCH)' \
        'HPL_LIBS = $(HPLlib) $(LAlib) -lm' 'HPL_OPTS =' 'HPL_DEFS = $(F2CDEFS) $(HPL_OPTS) $(HPL_INCLUDES)' 'CC = mpicc' 'CCNOOPT = $(HPL_DEFS)' \
        'CCFLAGS = $(HPL_DEFS) -O1 -fcommon -DWEFT_REMOVED_NAMES' 'LINKER = mpicc' 'LINKFLAGS = -O1' 'ARCHIVER = ar' 'ARFLAGS = rc' 'RANLIB = ranlib' \
        >hpl/Make.weft
    make arch=weft
}
verify() {
    for grid in '1 2' '2 2'; do
        # shellcheck disable=SC2086 # two numbers
        set -- $grid
        ranks=$(($1 * $2))
        rm -rf "run-$ranks"
        mkdir "run-$ranks"
        sed -e "s/^1000  *Ns/200 Ns/" -e "s/^2  *Ps/$1 Ps/" -e "s/^2  *Qs/$2 Qs/" _hpccinf.txt >"run-$ranks/hpccinf.txt"
        out=$PWD/run-$ranks/hpccoutf.txt
        check "it runs, $ranks ranks" 400 sh -c "cd 'run-$ranks' && mpiexec -n $ranks ../hpcc"
        says "it says that it succeeded, $ranks ranks" 5 '^Success=1' cat "$out"
        says "LINPACK: residual is small, $ranks ranks" 5 ' PASSED' sed -n '/HPLinpack/,$p' "$out"
        check "LINPACK: nothing failed, $ranks ranks" 5 sh -c "! grep 'FAILED' '$out'"
        for test in MPIRandomAccess_LCG MPIRandomAccess; do
            says "$test has few errors, $ranks ranks" 5 "^${test}_ErrorsFraction=0\$\|^${test}_ErrorsFraction=[0-9.]*e-" cat "$out"
        done
        says "transposition: residual is 0, $ranks ranks" 5 '^PTRANS_residual=0$' cat "$out"
        says "Fourier transform: error is small, $ranks ranks" 5 '^MPIFFT_maxErr=[0-9.]*e-1[0-9]$' cat "$out"
    done
}
