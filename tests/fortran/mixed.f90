! A program half in Fortran and half in C (MPI-5.0 §19.3), with mixed.c. 1 rank.
program mixed
  use mpi_f08
  implicit none
  integer, external :: size_in_c, datatype_of_c, attribute_in_c, count_in_c
  external :: set_in_c, wait_in_c, complete_in_c
  integer :: failures, key, size, values(3), status_of(MPI_STATUS_SIZE)
  integer, asynchronous :: sections(6), others(6)
  integer(MPI_ADDRESS_KIND) :: value, address
  logical :: found
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: type
  type(MPI_Status) :: status
  type(MPI_Request) :: request, second

  failures = 0
  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_size(comm, size)
  call expect(size_in_c(comm%MPI_VAL) == size, 'a communicator of Fortran in C')
  type%MPI_VAL = datatype_of_c()
  values = -1
  call MPI_Sendrecv([1, 2, 3], 1, type, 0, 0, values, 3, MPI_INTEGER, 0, 0, MPI_COMM_SELF, status)
  call expect(all(values == [1, 2, 3]), 'a datatype of C in Fortran')
  call MPI_Status_f082f(status, status_of)
  call expect(count_in_c(status_of) == 3, 'a status of Fortran in C')
  call MPI_Type_free(type)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(comm, key, -5_MPI_ADDRESS_KIND)
  value = 0
  call expect(attribute_in_c(comm%MPI_VAL, key, value) /= 0 .and. value == -5, 'an attribute of Fortran in C')
  call set_in_c(comm%MPI_VAL, key, address)
  call MPI_Comm_get_attr(comm, key, value, found)
  call expect(found .and. value == address, 'an attribute of C in Fortran')
  sections = -1
  call MPI_Irecv(sections(::2), 3, MPI_INTEGER, 0, 1, MPI_COMM_SELF, request)
  call MPI_Send(values, 3, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
  call wait_in_c(request%MPI_VAL)
  call MPI_F_sync_reg(sections)
  call expect(all(sections == [1, -1, 2, -1, 3, -1]), 'a section that C completes')
  ! The collectives get copies of the sections. Expect: C copies back when it completes them, and once.
  sections = -1
  call MPI_Iallreduce(values, sections(::2), 3, MPI_INTEGER, MPI_SUM, comm, request)
  call wait_in_c(request%MPI_VAL)
  call MPI_F_sync_reg(sections)
  call expect(all(sections == [1, -1, 2, -1, 3, -1]), 'the section of a collective that C completes')
  call expect(request == MPI_REQUEST_NULL, 'the request of a collective that C completes')
  sections = -1
  others = -1
  call MPI_Iallreduce(values, sections(2::2), 3, MPI_INTEGER, MPI_SUM, comm, request)
  call MPI_Ialltoallw(values, [3], [0], [MPI_INTEGER], others(::2), [3], [0], [MPI_INTEGER], comm, second)
  call complete_in_c(request%MPI_VAL, second%MPI_VAL)
  call MPI_F_sync_reg(sections)
  call MPI_F_sync_reg(others)
  call expect(all(sections == [-1, 1, -1, 2, -1, 3]), 'the section of a collective that C tests')
  call expect(all(others == [1, -1, 2, -1, 3, -1]), 'the section of a collective that C looks at and frees')
  sections = -1
  call MPI_Iallreduce(values, sections(::2), 3, MPI_INTEGER, MPI_SUM, comm, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(sections)
  call expect(all(sections == [1, -1, 2, -1, 3, -1]), 'the section of a collective that Fortran completes')
  call MPI_Comm_free(comm)
  print '(a, i0)', 'failures: ', failures
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a)', what
  end subroutine expect
end program mixed
