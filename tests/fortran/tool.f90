! A profiler in Fortran: counts the calls of MPI_SEND by mpif.h and the module mpi (MPI-5.0 §15.2).
module counted
  implicit none
  integer :: sent = 0
end module counted

subroutine MPI_SEND(buffer, count, datatype, destination, tag, comm, ierror)
  use counted
  implicit none
  integer :: buffer(*), count, datatype, destination, tag, comm, ierror
  external :: PMPI_SEND
  sent = sent + 1
  call PMPI_SEND(buffer, count, datatype, destination, tag, comm, ierror)
end subroutine MPI_SEND

subroutine MPI_FINALIZE(ierror)
  use counted
  implicit none
  integer :: ierror
  external :: PMPI_FINALIZE
  print '(a, i0)', 'seen in Fortran: ', sent
  call PMPI_FINALIZE(ierror)
end subroutine MPI_FINALIZE
