! The module mpi_f08 beside its buffers: handles, statuses, callbacks, optional arguments, large counts. 2 ranks.
! With SMALL_ONLY it runs over versions of other libraries that have no large counts in Fortran.
module functions
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank = -1, failures = 0, deleted = 0, handled = 0, queried = 0, released = 0
contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a, i0, 2a)', 'rank ', rank, ': ', what
  end subroutine expect

  subroutine add(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: in(:), inout(:)
    call expect(datatype == MPI_INTEGER, 'the datatype of an operation')
    call c_f_pointer(invec, in, [len])
    call c_f_pointer(inoutvec, inout, [len])
    inout = in + inout
  end subroutine add

  subroutine add_large(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: in(:), inout(:)
    call c_f_pointer(invec, in, [len])
    call c_f_pointer(inoutvec, inout, [len])
    inout = in + inout + 100 * merge(0, 1, datatype == MPI_INTEGER)
  end subroutine add_large

  subroutine handle(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    handled = error_code
    call expect(comm /= MPI_COMM_NULL, 'the communicator of an error')
  end subroutine handle

  subroutine remove(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deleted = int(attribute_val + extra_state)
    ierror = MPI_SUCCESS
  end subroutine remove

  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    queried = int(extra_state)
    call MPI_Status_set_elements(status, MPI_INTEGER, 3)
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_TAG = 77
    ierror = MPI_SUCCESS
  end subroutine query

  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    released = int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine release

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine cancel
end module functions

program modern
  use functions
  implicit none
  integer :: ranks

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call handles
  call statuses
  call operations
  call handlers
  call attributes
  call requests
  call large_counts
  call memory
  call strings
  call several_datatypes
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(a, i0)', 'failures: ', failures
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  subroutine handles
    type(MPI_Comm) :: a, b
    a = MPI_COMM_WORLD
    call expect(a == MPI_COMM_WORLD .and. a /= MPI_COMM_SELF, 'comparing handles')
    call MPI_Comm_dup(a, b)
    call expect(a /= b .and. b%MPI_VAL /= MPI_COMM_NULL%MPI_VAL, 'a new handle')
    call MPI_Comm_free(b)
    call expect(b == MPI_COMM_NULL, 'a handle that was freed')
  end subroutine handles

  subroutine statuses
    type(MPI_Status) :: status, back
    integer :: old(MPI_STATUS_SIZE), value, code
    type(MPI_Request) :: request
    call MPI_Irecv(value, 1, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, request)
    call MPI_Send(9, 1, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, ierror=code)
    call MPI_Wait(request, status, code)
    call expect(code == MPI_SUCCESS .and. status%MPI_SOURCE == rank .and. status%MPI_TAG == 4, 'a status')
    call MPI_Status_f082f(status, old)
    call expect(old(MPI_TAG) == 4, 'a status as integers')
    call MPI_Status_f2f08(old, back)
    call MPI_Get_count(back, MPI_INTEGER, value)
    call expect(value == 1, 'a count of a status that was converted')
  end subroutine statuses

  subroutine operations
    type(MPI_Op) :: op
    integer :: value(3)
    value = rank + 1
    call MPI_Op_create(add, .true., op)
    call MPI_Allreduce(MPI_IN_PLACE, value, 3, MPI_INTEGER, op, MPI_COMM_WORLD)
    call expect(all(value == ranks * (ranks + 1) / 2), 'an operation of the program')
    call MPI_Op_free(op)
#ifndef SMALL_ONLY
    value = rank + 1
    call MPI_Op_create_c(add_large, .true., op)
    call MPI_Allreduce(MPI_IN_PLACE, value, 3_MPI_COUNT_KIND, MPI_INTEGER, op, MPI_COMM_WORLD)
    call expect(all(value == ranks * (ranks + 1) / 2), 'an operation with a large count')
    call MPI_Op_free(op)
#endif
  end subroutine operations

  subroutine handlers
    type(MPI_Comm) :: comm
    type(MPI_Errhandler) :: handler
    integer :: class
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_create_errhandler(handle, handler)
    call MPI_Comm_set_errhandler(comm, handler)
    call MPI_Send(1, 1, MPI_INTEGER, 9, 0, comm)
    call MPI_Error_class(handled, class)
    call expect(class == MPI_ERR_RANK, 'an error handler of the program')
    call MPI_Errhandler_free(handler)
    call MPI_Comm_free(comm)
  end subroutine handlers

  subroutine attributes
    integer :: key
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    type(MPI_Datatype) :: type, copied
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remove, key, 7_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, 30_MPI_ADDRESS_KIND)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key)
    call expect(deleted == 37, 'an attribute that was deleted')
    call MPI_Comm_free_keyval(key)
    call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
    call MPI_Type_contiguous(3, MPI_REAL, type)
    call MPI_Type_set_attr(type, key, 55_MPI_ADDRESS_KIND)
    call MPI_Type_dup(type, copied)
    value = 0
    call MPI_Type_get_attr(copied, key, value, flag)
    call expect(flag .and. value == 55, 'the attribute of a datatype')
    call MPI_Type_delete_attr(copied, key)
    call MPI_Type_get_attr(copied, key, value, flag)
    call expect(.not. flag .and. value == 0, 'an attribute that is not there')
    call MPI_Type_free(copied)
    call MPI_Type_free(type)
    call MPI_Type_free_keyval(key)
  end subroutine attributes

  subroutine requests
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: count
    call MPI_Grequest_start(query, release, cancel, 12_MPI_ADDRESS_KIND, request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call expect(queried == 12 .and. released == 12 .and. status%MPI_TAG == 77 .and. count == 3, 'a generalized request')
  end subroutine requests

  subroutine large_counts
    integer :: value(4)
    integer(MPI_COUNT_KIND) :: count, size
    integer(MPI_ADDRESS_KIND) :: lower, extent
    type(MPI_Status) :: status
#ifndef SMALL_ONLY
    value = 3
    call MPI_Sendrecv(value, 2_MPI_COUNT_KIND, MPI_INTEGER, rank, 1, value(3:), 2_MPI_COUNT_KIND, MPI_INTEGER, rank, 1, &
        MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call expect(count == 2, 'a large count')
    call MPI_Type_size(MPI_DOUBLE_PRECISION, size)
    call MPI_Type_get_extent(MPI_DOUBLE_PRECISION, lower, extent)
    call expect(size == 8 .and. lower == 0 .and. extent == 8, 'a large size')
#endif
  end subroutine large_counts

  subroutine memory
    type(c_ptr) :: base, detached
    integer, pointer :: numbers(:)
    integer :: size, unit
    type(MPI_Win) :: window
    integer(MPI_ADDRESS_KIND) :: bytes
    call MPI_Alloc_mem(40000_MPI_ADDRESS_KIND, MPI_INFO_NULL, base)
    call c_f_pointer(base, numbers, [10000])
    call MPI_Buffer_attach(numbers, 40000)
    call MPI_Buffer_detach(detached, size)
    call expect(c_associated(base, detached) .and. size == 40000, 'a buffer that was detached')
    call MPI_Free_mem(numbers)
    call MPI_Win_allocate_shared(800_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, window)
    call MPI_Win_shared_query(window, rank, bytes, unit, detached)
    call expect(bytes == 800 .and. unit == 8 .and. c_associated(base, detached), 'shared memory')
    call MPI_Win_free(window)
    call MPI_Sizeof(bytes, size)
    call expect(size == 8, 'MPI_Sizeof of an integer')
    call MPI_Sizeof(numbers, size)
    call expect(size == 4, 'MPI_Sizeof of an array')
    call MPI_F_sync_reg(numbers)
  end subroutine memory

  subroutine strings
    character(MPI_MAX_LIBRARY_VERSION_STRING) :: version
    character(100) :: buffer
    integer :: length, value
    integer(MPI_ADDRESS_KIND) :: position
    call MPI_Get_library_version(version, length)
    call expect(length > 0 .and. len_trim(version) <= length, 'the version of the library')
    position = 0
    value = 17
    call MPI_Pack_external('external32', value, 1, MPI_INTEGER, buffer, 100_MPI_ADDRESS_KIND, position)
    call expect(position == 4 .and. buffer(4:4) == char(17), 'external32')
    position = 0
    value = 0
    call MPI_Unpack_external('external32', buffer, 100_MPI_ADDRESS_KIND, position, value, 1, MPI_INTEGER)
    call expect(value == 17, 'external32, back')
  end subroutine strings

  ! Arrays of datatypes must live as long as the request.
  subroutine several_datatypes
    integer, asynchronous :: from(2), to(2)
    integer :: ones(2), places(2), i
    type(MPI_Datatype) :: types(2)
    type(MPI_Request) :: request
    if (ranks /= 2) return
    from = [10 * rank, 10 * rank + 1]
    to = -1
    ones = 1
    places = [0, 4]
    types = MPI_INTEGER
    call MPI_Alltoallw(from, ones, places, types, to, ones, places, types, MPI_COMM_WORLD)
    call expect(all(to == [(10 * i + rank, i = 0, 1)]), 'MPI_Alltoallw')
    to = -1
    call MPI_Ialltoallw(from, ones, places, types, to, ones, places, types, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call expect(all(to == [(10 * i + rank, i = 0, 1)]), 'MPI_Ialltoallw')
  end subroutine several_datatypes
end program modern
