! Sends 1000 messages of 8 bytes to nobody in a procedure of a name that callgrind finds. 1 rank.
program counting
  implicit none
  interface
    subroutine counted(times) bind(C, name='counted')
      integer, value :: times
    end subroutine counted
  end interface
  integer :: code
  external :: send, MPI_Init, MPI_Finalize
  call MPI_Init(code)
  ! The loader looks up the procedures when they are first called.
  call send
  call counted(1000)
  call MPI_Finalize(code)
end program counting

subroutine counted(times) bind(C, name='counted')
  implicit none
  integer, value :: times
  integer :: i
  external :: send
  do i = 1, times
    call send
  end do
end subroutine counted

subroutine send
#if defined F08
  use mpi_f08
#elif defined MODULE
  use mpi
#endif
  implicit none
#ifdef MPIF
  include 'mpif.h'
#endif
  double precision :: value
  integer :: code
  value = 1
  call MPI_Send(value, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 0, MPI_COMM_WORLD, code)
end subroutine send
