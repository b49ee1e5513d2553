! The binding of mpif.h and of the module mpi: constants that are recognised by their address, logicals,
! strings, statuses, indices, attributes, callbacks. Compiled with MODULE for `use mpi`. 2 ranks.
module checks
  implicit none
  integer :: rank = -1, failures = 0, deleted = 0, handled = 0, handled_code = 0
contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a, i0, 2a)', 'rank ', rank, ': ', what
  end subroutine expect
end module checks

#ifdef MODULE
#define ACCESS use mpi
#define INCLUDED
#else
#define ACCESS
#define INCLUDED include 'mpif.h'
#endif

program classic
  ACCESS
  use checks
  implicit none
  INCLUDED
  integer :: ranks, code

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call addresses
  call strings
  call statuses
  call indices
  call attributes
  call old_attributes
  call operations
  call handlers
  call topologies
  call memory
  call datatypes
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0) print '(a, i0)', 'failures: ', failures
  call MPI_Finalize(code)
  if (failures /= 0) error stop 1

contains

  subroutine addresses
    integer :: value(2), whole(2), code, type, lengths(1)
    integer(MPI_ADDRESS_KIND) :: places(1)
    value = rank + 1
    call MPI_Allreduce(MPI_IN_PLACE, value, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call expect(all(value == ranks * (ranks + 1) / 2), 'MPI_IN_PLACE')
    call MPI_Get_address(value, places(1), code)
    lengths = 2
    call MPI_Type_create_hindexed(1, lengths, places, MPI_INTEGER, type, code)
    call MPI_Type_commit(type, code)
    whole = 0
    call MPI_Sendrecv(MPI_BOTTOM, 1, type, rank, 3, whole, 2, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, code)
    call expect(all(whole == value), 'MPI_BOTTOM')
    call MPI_Type_free(type, code)
    call expect(type == MPI_DATATYPE_NULL, 'a datatype that was freed')
  end subroutine addresses

  subroutine strings
    character(MPI_MAX_PROCESSOR_NAME) :: name
    character(20) :: short
    character(MPI_MAX_ERROR_STRING) :: sentence
    integer :: length, info, code
    logical :: flag
    name = repeat('x', len(name))
    call MPI_Get_processor_name(name, length, code)
    call expect(length > 0 .and. name(length + 1:) == ' ', 'the name of the processor is not padded')
    call MPI_Comm_set_name(MPI_COMM_WORLD, 'the world  ', code)
    call MPI_Comm_get_name(MPI_COMM_WORLD, short, length, code)
    call expect(short == 'the world' .and. length == 9, 'the name of a communicator')
    call MPI_Error_string(MPI_ERR_TRUNCATE, sentence, length, code)
    call expect(length > 0 .and. len_trim(sentence) == length, 'an error string')
    call MPI_Info_create(info, code)
    call MPI_Info_set(info, '  key ', '  a value ', code)
    length = len(short)
    call MPI_Info_get_string(info, 'key', length, short, flag, code)
    call expect(flag .and. short == 'a value' .and. length == 7, 'the value of a key')
    short = 'as before'
    call MPI_Info_get_string(info, 'none', length, short, flag, code)
    call expect(.not. flag .and. short == 'as before', 'a key that is not there')
    call MPI_Info_get_nthkey(info, 0, short, code)
    call expect(short == 'key', 'the first key')
    call MPI_Info_free(info, code)
    call expect(info == MPI_INFO_NULL, 'an info object that was freed')
  end subroutine strings

  subroutine statuses
    integer :: status(MPI_STATUS_SIZE), request, code, count, value(4), got(4)
    logical :: flag
    value = [1, 2, 3, 4]
    call MPI_Isend(value, 3, MPI_INTEGER, rank, 7, MPI_COMM_WORLD, request, code)
    call MPI_Recv(got, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, code)
    call expect(status(MPI_SOURCE) == rank .and. status(MPI_TAG) == 7, 'a status')
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call expect(count == 3, 'a count')
    call MPI_Test_cancelled(status, flag, code)
    call expect(.not. flag, 'a message that was not cancelled')
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    call expect(request == MPI_REQUEST_NULL, 'a request that completed')
    call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, status, code)
    call expect(.not. flag, 'a probe finds nothing')
  end subroutine statuses

  subroutine indices
    integer :: requests(3), code, index, indices_of(3), number, values(3), i
    integer :: all_statuses(MPI_STATUS_SIZE, 3)
    logical :: flag
    requests = MPI_REQUEST_NULL
    call MPI_Irecv(values(2), 1, MPI_INTEGER, rank, 11, MPI_COMM_WORLD, requests(2), code)
    call MPI_Testany(3, requests, index, flag, MPI_STATUS_IGNORE, code)
    call expect(.not. flag .and. index == MPI_UNDEFINED, 'Testany with nothing done')
    call MPI_Send(5, 1, MPI_INTEGER, rank, 11, MPI_COMM_WORLD, code)
    call MPI_Waitany(3, requests, index, MPI_STATUS_IGNORE, code)
    call expect(index == 2 .and. values(2) == 5, 'Waitany counts from 1')
    call MPI_Waitany(3, requests, index, MPI_STATUS_IGNORE, code)
    call expect(index == MPI_UNDEFINED, 'Waitany without requests')
    do i = 1, 3
      call MPI_Irecv(values(i), 1, MPI_INTEGER, rank, 20 + i, MPI_COMM_WORLD, requests(i), code)
    end do
    call MPI_Send(33, 1, MPI_INTEGER, rank, 23, MPI_COMM_WORLD, code)
    call MPI_Waitsome(3, requests, number, indices_of, MPI_STATUSES_IGNORE, code)
    call expect(number == 1 .and. indices_of(1) == 3 .and. values(3) == 33, 'Waitsome counts from 1')
    call MPI_Send(31, 1, MPI_INTEGER, rank, 21, MPI_COMM_WORLD, code)
    call MPI_Send(32, 1, MPI_INTEGER, rank, 22, MPI_COMM_WORLD, code)
    call MPI_Waitall(3, requests, all_statuses, code)
    call expect(all_statuses(MPI_TAG, 1) == 21 .and. all_statuses(MPI_TAG, 2) == 22, 'an array of statuses')
  end subroutine indices

  subroutine attributes
    integer :: code, key, other
    integer(MPI_ADDRESS_KIND) :: value, extra
    logical :: flag
    external :: double_it, delete_it
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, code)
    call expect(flag .and. value >= 32767, 'MPI_TAG_UB')
    extra = 1000
    call MPI_Comm_create_keyval(double_it, delete_it, key, extra, code)
    value = -7000000000_MPI_ADDRESS_KIND
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, code)
    value = 0
    call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag, code)
    call expect(flag .and. value == -7000000000_MPI_ADDRESS_KIND, 'an attribute that was set')
    call MPI_Comm_dup(MPI_COMM_SELF, other, code)
    call MPI_Comm_get_attr(other, key, value, flag, code)
    call expect(flag .and. value == -14000000000_MPI_ADDRESS_KIND + 1000, 'an attribute that was copied')
    call MPI_Comm_free(other, code)
    call expect(deleted == 1, 'the attribute of a communicator that was freed')
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key, code)
    call expect(deleted == 2, 'an attribute that was deleted')
    call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag, code)
    call expect(.not. flag .and. value == 0, 'an attribute that is not there')
    call MPI_Comm_free_keyval(key, code)
    call expect(key == MPI_KEYVAL_INVALID, 'a key that was freed')
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, extra, code)
    value = 44
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, code)
    call MPI_Comm_dup(MPI_COMM_SELF, other, code)
    call MPI_Comm_get_attr(other, key, value, flag, code)
    call expect(flag .and. value == 44, 'MPI_COMM_DUP_FN')
    call MPI_Comm_free(other, code)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key, code)
    call MPI_Comm_free_keyval(key, code)
  end subroutine attributes

  subroutine old_attributes
    integer :: code, key, value, other
    logical :: flag
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, code)
    call MPI_Attr_put(MPI_COMM_SELF, key, -12, code)
    call MPI_Attr_get(MPI_COMM_SELF, key, value, flag, code)
    call expect(flag .and. value == -12, 'an attribute of MPI-1')
    call MPI_Comm_dup(MPI_COMM_SELF, other, code)
    call MPI_Attr_get(other, key, value, flag, code)
    call expect(flag .and. value == -12, 'MPI_DUP_FN')
    call MPI_Comm_free(other, code)
    call MPI_Attr_delete(MPI_COMM_SELF, key, code)
    call MPI_Attr_get(MPI_COMM_SELF, key, value, flag, code)
    call expect(.not. flag .and. value == 0, 'an attribute of MPI-1 that was deleted')
    call MPI_Keyval_free(key, code)
  end subroutine old_attributes

  subroutine operations
    integer :: op, code, value(2), result(2)
    logical :: flag
    external :: add_tenths
    call MPI_Op_create(add_tenths, .true., op, code)
    value = [rank, 10]
    call MPI_Allreduce(value, result, 2, MPI_INTEGER, op, MPI_COMM_WORLD, code)
    call expect(result(2) == 10 * ranks, 'an operation of the program')
    call MPI_Op_commutative(op, flag, code)
    call expect(flag, 'an operation that commutes')
    call MPI_Op_free(op, code)
    call expect(op == MPI_OP_NULL, 'an operation that was freed')
  end subroutine operations

  subroutine handlers
    integer :: handler, code, comm, class
    external :: handle_it
    call MPI_Comm_dup(MPI_COMM_SELF, comm, code)
    call MPI_Comm_create_errhandler(handle_it, handler, code)
    call MPI_Comm_set_errhandler(comm, handler, code)
    call MPI_Send(1, 1, MPI_INTEGER, 5, 0, comm, code)
    ! MPICH returns MPI_SUCCESS after a handler of the program.
    call MPI_Error_class(handled_code, class, code)
    call expect(handled == comm .and. class == MPI_ERR_RANK, 'an error handler of the program')
    call MPI_Errhandler_free(handler, code)
    call MPI_Comm_free(comm, code)
  end subroutine handlers

  subroutine topologies
    integer :: comm, code, sizes(1), place(1), ranges(3, 1), group, part
    logical :: periodic(1)
    sizes = ranks
    call MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, [.true.], .false., comm, code)
    periodic = .false.
    call MPI_Cart_get(comm, 1, sizes, periodic, place, code)
    call expect(periodic(1) .and. sizes(1) == ranks .and. place(1) == rank, 'a ring')
    call MPI_Comm_free(comm, code)
    call MPI_Comm_group(MPI_COMM_WORLD, group, code)
    ranges(:, 1) = [0, ranks - 1, 1]
    call MPI_Group_range_incl(group, 1, ranges, part, code)
    call MPI_Group_compare(group, part, code, code)
    call expect(code == MPI_SUCCESS, 'ranges of a group')
    call MPI_Group_free(part, code)
    call MPI_Group_free(group, code)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [rank], MPI_UNWEIGHTED, 1, [rank], MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., comm, code)
    call expect(code == MPI_SUCCESS, 'MPI_UNWEIGHTED')
    call MPI_Comm_free(comm, code)
  end subroutine topologies

  subroutine memory
    use, intrinsic :: iso_c_binding
    integer(MPI_ADDRESS_KIND) :: size, address
    integer :: window, code, unit
    logical :: flag
    integer(MPI_ADDRESS_KIND) :: value
#ifdef MODULE
    type(c_ptr) :: pointer
    real, pointer :: numbers(:)
    size = 400
    call MPI_Alloc_mem(size, MPI_INFO_NULL, pointer, code)
    call c_f_pointer(pointer, numbers, [100])
    numbers = 1
    call expect(sum(numbers) == 100, 'memory of MPI')
    call MPI_Free_mem(numbers, code)
    call MPI_Sizeof(size, unit, code)
    call expect(unit == 8, 'MPI_Sizeof')
#endif
    size = 80
    call MPI_Win_allocate(size, 8, MPI_INFO_NULL, MPI_COMM_WORLD, address, window, code)
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag, code)
    call expect(flag .and. value == 80, 'MPI_WIN_SIZE')
    call MPI_Win_get_attr(window, MPI_WIN_BASE, value, flag, code)
    call expect(flag .and. value == address, 'MPI_WIN_BASE')
    call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, flag, code)
    call expect(flag .and. value == 8, 'MPI_WIN_DISP_UNIT')
    call MPI_Win_free(window, code)
    unit = 0
  end subroutine memory

  subroutine datatypes
    integer :: type, code, integers(10), types(10), number, addresses_of, parts, combiner, i
    integer(MPI_ADDRESS_KIND) :: addresses(10)
    call MPI_Type_create_struct(2, [1, 2], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], [MPI_REAL, MPI_DOUBLE_PRECISION], &
        type, code)
    call MPI_Type_get_envelope(type, number, addresses_of, parts, combiner, code)
    call expect(combiner == MPI_COMBINER_STRUCT .and. parts == 2, 'the envelope of a structure')
    types = -5
    call MPI_Type_get_contents(type, 10, 10, 10, integers, addresses, types, code)
    call expect(types(1) == MPI_REAL .and. types(2) == MPI_DOUBLE_PRECISION .and. all(types(3:) == -5), &
        'the contents of a structure')
    call MPI_Type_free(type, code)
    call MPI_Type_create_f90_real(15, 300, type, code)
    call MPI_Type_size(type, i, code)
    call expect(i == 8, 'a real with 15 digits')
  end subroutine datatypes
end program classic

subroutine double_it(comm, key, extra, in, out, flag, ierror)
  ACCESS
  implicit none
  INCLUDED
  integer :: comm, key, ierror
  integer(MPI_ADDRESS_KIND) :: extra, in, out
  logical :: flag
  out = 2 * in + extra
  flag = .true.
  ierror = MPI_SUCCESS
end subroutine double_it

subroutine delete_it(comm, key, value, extra, ierror)
  ACCESS
  use checks
  implicit none
  INCLUDED
  integer :: comm, key, ierror
  integer(MPI_ADDRESS_KIND) :: value, extra
  deleted = deleted + 1
  ierror = MPI_SUCCESS
end subroutine delete_it

subroutine add_tenths(in, inout, length, type)
  implicit none
  integer :: length, type
  integer :: in(length), inout(length)
  inout = in + inout
end subroutine add_tenths

subroutine handle_it(comm, code)
  use checks
  implicit none
  integer :: comm, code
  handled = comm
  handled_code = code
end subroutine handle_it
