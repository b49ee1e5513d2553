! Sends three messages to itself, one of them by the name that profilers do not see. 1 rank.
program sends
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: value, code, i
  call MPI_Init(code)
  do i = 1, 3
#ifdef F08
    block
      type(MPI_Request) :: request
#else
    block
      integer :: request
#endif
      call MPI_Irecv(value, 1, MPI_INTEGER, 0, i, MPI_COMM_WORLD, request, code)
      if (i < 3) then
        call MPI_Send(i, 1, MPI_INTEGER, 0, i, MPI_COMM_WORLD, code)
      else
        call PMPI_Send(i, 1, MPI_INTEGER, 0, i, MPI_COMM_WORLD, code)
      end if
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    end block
    if (value /= i) error stop 1
  end do
  call MPI_Finalize(code)
end program sends
