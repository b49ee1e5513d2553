! Options that change the lengths of REAL and DOUBLE PRECISION: MPI's constants follow them. 2 ranks.
program reals
#ifdef F08
  use mpi_f08
#elif defined MODULE
  use mpi
#endif
  implicit none
#if !defined F08 && !defined MODULE
  include 'mpif.h'
#endif
  integer :: failures, rank, code, size
  real :: value, sum, one, pair(2), pairs(2)
  complex :: number, numbers
  double precision :: exact, exacts

  failures = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Type_size(MPI_REAL, size, code)
  call expect(size == storage_size(value) / 8, 'the size of MPI_REAL')
  call MPI_Type_size(MPI_COMPLEX, size, code)
  call expect(size == storage_size(number) / 8, 'the size of MPI_COMPLEX')
  call MPI_Type_size(MPI_2REAL, size, code)
  call expect(size == 2 * storage_size(value) / 8, 'the size of MPI_2REAL')
  ! A third has no end in binary: a shorter type would lose digits of it.
  value = rank + 1 / 3.0
  call MPI_Allreduce(value, sum, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
  one = 1
  call expect(abs(sum - (1 + 2 / (3 * one))) < 4 * epsilon(one), 'a sum of REAL')
  number = cmplx(value, -value, kind(value))
  call MPI_Allreduce(number, numbers, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, code)
  call expect(abs(numbers - cmplx(sum, -sum, kind(sum))) < 4 * epsilon(one), 'a sum of COMPLEX')
  pair = [value, real(rank)]
  call MPI_Allreduce(pair, pairs, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD, code)
  call expect(abs(pairs(1) - (1 + 1 / (3 * one))) < 4 * epsilon(one) .and. nint(pairs(2)) == 1, &
    'the place of the greatest REAL')
#ifdef LONG_DOUBLE
  call expect(MPI_DOUBLE_PRECISION == MPI_REAL16 .and. kind(exact) == 16, 'MPI_DOUBLE_PRECISION of 16 bytes')
  exact = 0
  exacts = exact
#else
  call MPI_Type_size(MPI_DOUBLE_PRECISION, size, code)
  call expect(size == storage_size(exact) / 8, 'the size of MPI_DOUBLE_PRECISION')
  exact = rank + 1 / 3d0
  call MPI_Allreduce(exact, exacts, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  call expect(abs(exacts - (1 + 2 / 3d0)) < 4 * epsilon(exact), 'a sum of DOUBLE PRECISION')
#endif
  exact = MPI_Wtime()
  call MPI_Barrier(MPI_COMM_WORLD, code)
  exacts = MPI_Wtime() - exact
  call expect(exact > 0 .and. exacts >= 0 .and. exacts < 3600, 'the time')
  if (rank == 0) print '(a, i0)', 'failures: ', failures
  call MPI_Finalize(code)
  if (failures /= 0) error stop 1

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a)', what
  end subroutine expect
end program reals
