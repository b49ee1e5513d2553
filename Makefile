# make          lists the targets
# make demo     runs programs that others wrote over Weft, between two hosts
# make test     checks everything
.POSIX:
SHELL = /bin/sh

# The directory where `make install` puts the library; demo, tests and benchmarks have their own,
# build/prefix.
PREFIX = /usr/local
OWN = build/prefix
# The numbers of plans, and of programs on whole engines, that `make swarm` plays by chance, from this seed
# on.
RUNS = 5000
PROGRAMS = 10000
SEED = 1
# The errors that `make mutants` puts in; all unless some are named.
MUTANTS =
# The seconds for which `make fuzz` runs each target, and the targets; all unless some are named.
SECONDS = 60
TARGETS =
# The directory of another installed Weft, with which `make instructions` compares.
BEFORE =
# The minutes for which `make soak` makes and frees all kinds of objects.
MINUTES = 60
# A part of the names of the cases that `make test-rdma` runs; all unless it is given.
RDMA =
# The programs that `make test-applications` runs; all unless some are named.
APPLICATIONS =
# The version of `make release`, and what it makes: checks before it, packages after it.
VERSION =
CHECKS = test test-packages advisories
PACKAGES = wheel deb oci
# Without make's flags, cargo uses as many processors as there are, also below `make -j`.
CARGO = MAKEFLAGS= PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH" cargo

help:
	@echo 'make demo                  install what is missing, build, and show it on two hosts'
	@echo 'make test                  the same, and check everything (about twenty minutes on two processors)'
	@echo 'make loom                  all schedules of the lock-free parts, by a model checker'
	@echo 'make miri                  memory errors in the rings and in the program'\''s buffers, by an interpreter (needs Rust nightly)'
	@echo 'make bench                 measure beside MPICH, Open MPI and Intel MPI (fifteen minutes); docs/performance.md'
	@echo 'make bench-auto            whether the choice of carriers keeps up with the best single one (five minutes)'
	@echo 'make bench-multicast       broadcasts by each scheme of multicast and down trees, on eight virtual hosts and in simulation (10 minutes); docs/book/multicast.md'
	@echo 'make bench-rdma            what MPI costs over iWARP, RoCE, TCP and UDP in a virtual machine, in instructions and packets (twenty minutes)'
	@echo 'make instructions [BEFORE=DIR]  what a message of 8 bytes costs, beside the Weft in DIR (half a minute for each)'
	@echo 'make build                 only build (target/release)'
	@echo 'make install PREFIX=DIR    mpicc, mpifort, mpiexec, libmpi_abi.so.1, libmpifort_abi.so.1, headers, modules, weft-netd into DIR (now $(PREFIX))'
	@echo 'make wheel                  a Python wheel in build/packages: docs/book/install.md'
	@echo 'make deb                    packages for Debian 12 in build/packages'
	@echo 'make oci                    an image for containers in build/packages (as root, without a daemon)'
	@echo 'make conda                  a channel of conda packages in build/packages/conda (needs conda-forge)'
	@echo 'make release VERSION=N        runs all checks, writes the version and CHANGELOG.md, builds all packages, and tags'
	@echo 'make check                 formatting, lints, generated files, house rules, dependencies, documentation, unit tests'
	@echo 'make advisories            whether a fault is known of a crate that Weft depends on (needs the network)'
	@echo 'make suite [SUITE="NAME"]  the integration suites, or some of them'
	@echo 'make swarm [RUNS=N] [PROGRAMS=N] [SEED=N]  protocol and engine in virtual time, in many more networks and programs than `make check`'
	@echo 'make collectives            every algorithm of every collective, 1 to 33 ranks, all cases; choices beside the best (a few minutes)'
	@echo 'make mutants [MUTANTS="NAME"]  errors put into the engine by hand: whether programs in virtual time find each (7 minutes)'
	@echo 'make fuzz [SECONDS=N] [TARGETS="NAME"]  hostile input for everything that reads foreign bytes (12 minutes)'
	@echo 'make test-applications [APPLICATIONS="NAME"]  programs that others wrote, fetched by package name, with their own tests (an hour and a half)'
	@echo 'make test-large            mpi4py'\''s own tests with 1 to 5 ranks and on two hosts, those of collectives with up to 8 on up to four, conformance programs on MPICH and Weft, libfabric on four hosts, a million hostile packets, ten minutes of soak, 100,000 turns of each kind of object, hundreds of random programs on files, a thousand clients and spawned jobs, programs of other libraries'\'' ABIs (several hours)'
	@echo 'make test-launchers        every launcher with every job, on one host and on two, with a table at the end; agents, ranks and mpiexec killed at every stage (half an hour)'
	@echo 'make test-packages          every package built twice and compared, installed on an empty system, used, removed (half an hour)'
	@echo 'make soak [MINUTES=N]      all kinds of objects, made and freed for an hour between two hosts that lose packets: whether memory, descriptors, threads or time grow'
	@echo 'make test-rdma [RDMA="NAME"]  iWARP and RoCE between virtual machines: builds their kernel the first time, and boots them (an hour and more)'
	@echo 'make clean                 remove build/ and target/'

setup:
	@tools/setup.sh

setup-check:
	@tools/setup.sh check

setup-bench:
	@tools/setup.sh bench

setup-demo:
	@tools/setup.sh demo

setup-tests:
	@tools/setup.sh tests

setup-packages:
	@tools/setup.sh packages

setup-launchers:
	@tools/setup.sh launchers

setup-rdma:
	@tools/setup.sh rdma

build: setup
	WEFT_COMMIT=$$(packaging/commit.sh) $(CARGO) build --release --package weft-library --package weft-launch --package weft-cli --package weft-netd

install: build
	tools/install.sh "$(PREFIX)"

# What packages contain is built in a way of its own: the same bytes wherever and whenever that is done.
programs: setup-packages
	packaging/build.sh build/packages/build

# The packages are in build/packages.
wheel: programs
	packaging/wheel.sh build/packages/build build/packages

deb: programs
	packaging/deb.sh build/packages/build build/packages

# An image for containers, without a daemon; it needs root.
oci: programs
	packaging/oci.sh build/packages/build build/packages

# Made by the compilers of conda-forge.
conda: setup-packages
	packaging/conda.sh build/packages/conda

release: setup
	@CHECKS="$(CHECKS)" PACKAGES="$(PACKAGES)" packaging/release.sh "$(VERSION)"

own: build
	@tools/install.sh $(OWN)

demo: setup-demo own
	@demo/demo.sh

check: compiled tests

# Everything of `check` but running the tests, which are ready to run after it.
compiled: setup setup-check
	$(CARGO) fmt --all --check
	$(CARGO) xtask generate --check
	$(CARGO) xtask tidy
	@tools/dependencies.sh
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps
	# The tests of the boundary load the shared library. The suites run programs of this build: to build one
	# package alone would compile its libraries anew, with the features that this package asks for.
	$(CARGO) build --workspace
	$(CARGO) test --workspace --no-run

# Known faults of the crates that Weft depends on, by RustSec's newest advisories.
advisories: setup setup-check
	@tools/dependencies.sh --fetch

tests: setup
	$(CARGO) build --workspace
	$(CARGO) test --workspace

suite: setup-tests own
	$(CARGO) xtask suite $(SUITE)

# Each of these steps alone leaves a processor idle for a part of its time, so two of them run at a time. The
# suites begin after all others.
test: setup-tests
	@$(MAKE) --no-print-directory -j 2 compiled own
	@$(MAKE) --no-print-directory -j 2 tests loom
	@$(MAKE) --no-print-directory suite

# The rings, the boards and the sleeping protocol between ranks of a node.
loom: setup
	RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom $(CARGO) test --profile model --package weft-net --lib model_tests

# Only these two: weft-core forbids unsafe code, and most unsafe code of the other crates calls the system,
# which an interpreter cannot follow.
miri: setup
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri test --package weft-net --lib shared::ring
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri test --package weft-engine --lib memory::

# Programs that others wrote, with their own tests; fetched by package name.
test-applications: setup-tests own
	$(CARGO) xtask applications --json build/applications.jsonl $(APPLICATIONS)

# The suites that take too long for every change: mpi4py's own tests in all runs, the conformance programs
# with 1 to 5 ranks, all programs over libfabric on four hosts, many hostile packets, and objects that are
# made and freed for hours.
test-large: setup-tests own
	$(CARGO) xtask suite mpi4py-all mpi4py-collectives mpi4py-windows conformance-all fabric-all tcp-all hostile-all recovery-all processes-all lifetimes-all files-all faces-all

# Every package: built twice and compared, installed where nothing is, used, and removed.
test-packages: setup-tests setup-packages own
	$(CARGO) xtask suite packages packages-all

# Every launcher with every job, and the control plane of Weft's own under fire.
test-launchers: setup-tests setup-launchers own
	$(CARGO) xtask suite launchers-all launcher-chaos slurm-all ssh-all pmix mpich

# Checks that no quantity grows in a long run.
soak: setup-tests own
	$(CARGO) xtask soak --minutes "$(MINUTES)" --json build/soak.json

# MPI over RDMA devices that the kernel plays in virtual machines.
test-rdma: setup-rdma own
	$(CARGO) xtask suite 'rdma:$(RDMA)'

# Errors put in by hand, one at a time: each must be found by some program.
mutants: setup
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH" tools/mutants.sh $(MUTANTS)

swarm: setup
	$(CARGO) run --package weft-sim -- all --seed $(SEED) --runs 10 --jobs "$$(nproc)" --quiet
	$(CARGO) run --package weft-sim -- swarm --seed $(SEED) --runs $(RUNS) --jobs "$$(nproc)" --quiet
	$(CARGO) run --package weft-sim -- programs --seed $(SEED) --runs $(PROGRAMS) --jobs "$$(nproc)"
	$(CARGO) run --package weft-sim -- files --seed $(SEED) --runs "$$((10 * $(PROGRAMS)))"
	$(CARGO) run --package weft-sim -- agreements --seed $(SEED) --runs $(PROGRAMS)
	$(CARGO) run --package weft-sim -- jobs --seed $(SEED) --runs $(PROGRAMS) --jobs "$$(nproc)"

collectives:
	WEFT_EVERY_COLLECTIVE=1 $(CARGO) test --release --package weft-plan --test collective

fuzz: setup
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH" tools/fuzz.sh $(SECONDS) $(TARGETS)

instructions: own setup-tests
	@before="$(BEFORE)"; $(CARGO) xtask instructions $${before:+--prefix "$$before"} --prefix $(OWN)

bench: setup-bench own
	@bench/bench.sh

bench-auto: setup-bench own
	@bench/auto.sh

bench-multicast: own
	@bench/multicast.sh

bench-rdma: setup-rdma own
	$(CARGO) xtask bench-rdma

clean:
	rm -rf build target

.PHONY: advisories conda setup-check bench-auto bench-multicast bench-rdma test-applications test-large test-launchers test-packages test-rdma soak help setup setup-bench setup-demo setup-launchers setup-packages setup-rdma setup-tests build install programs wheel deb oci release own demo collectives check compiled tests suite test loom miri mutants swarm fuzz instructions bench clean
