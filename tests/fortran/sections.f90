! Sections of arrays as buffers in the module mpi_f08 (MPI-5.0 §19.1.12): with blocking, nonblocking and
! persistent calls, and in collectives. What lies outside the section stays as it was. 2 ranks.
program sections
  use mpi_f08
  implicit none
  integer, parameter :: n = 8
  integer :: rank, ranks, failures, code
  type(MPI_Request) :: requests(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  failures = 0
  if (.not. MPI_SUBARRAYS_SUPPORTED) failures = failures + 1
  if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) failures = failures + 1
  call blocking
  call nonblocking
  call part_of_a_section
  call backwards
  call larger_elements
  call larger_datatypes
  call persistent
  call collective
  call nonblocking_collective
  call persistent_collective
  call one_sided
  call packed
  call with_errors
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(a, i0)', 'failures: ', failures
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a, i0, 2a)', 'rank ', rank, ': ', what
  end subroutine expect

  ! An array with numbers that say where they are.
  function numbers(offset) result(a)
    integer, intent(in) :: offset
    integer :: a(n, n), i, j
    a = reshape([((offset + i + 100 * j, i = 1, n), j = 1, n)], [n, n])
  end function numbers

  ! Whether the elements of a section came, and all others are -1.
  logical function only_section(a, of)
    integer, intent(in) :: a(n, n), of(n, n)
    integer :: wanted(n, n)
    wanted = -1
    wanted(2:n:3, 1:n:2) = of(2:n:3, 1:n:2)
    only_section = all(a == wanted)
  end function only_section

  subroutine blocking
    integer :: a(n, n), elements
    type(MPI_Status) :: status
    a = numbers(0)
    elements = size(a(2:n:3, 1:n:2))
    if (rank == 0) then
      call MPI_Send(a(2:n:3, 1:n:2), elements, MPI_INTEGER, 1, 1, MPI_COMM_WORLD)
    else if (rank == 1) then
      a = -1
      call MPI_Recv(a(2:n:3, 1:n:2), elements, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, status)
      call expect(only_section(a, numbers(0)), 'blocking: the wrong elements')
      call expect(status%MPI_TAG == 1 .and. status%MPI_SOURCE == 0, 'blocking: status')
    end if
  end subroutine blocking

  subroutine nonblocking
    integer, asynchronous :: a(n, n), b(n, n)
    integer :: elements
    a = numbers(1000 * rank)
    b = -1
    elements = size(a(2:n:3, 1:n:2))
    call MPI_Irecv(b(2:n:3, 1:n:2), elements, MPI_INTEGER, 1 - rank, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(2:n:3, 1:n:2), elements, MPI_INTEGER, 1 - rank, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call expect(only_section(b, numbers(1000 * (1 - rank))), 'nonblocking: the wrong elements')
    call expect(all(a == numbers(1000 * rank)), 'nonblocking: the sent array changed')
  end subroutine nonblocking

  ! A count that ends in the middle of a column.
  subroutine part_of_a_section
    integer, asynchronous :: a(n, n), b(n, n)
    integer :: wanted(n, n)
    a = numbers(0)
    b = -1
    call MPI_Irecv(b(1:n:2, ::2), 6, MPI_INTEGER, 1 - rank, 3, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(1:n:2, ::2), 6, MPI_INTEGER, 1 - rank, 3, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wanted = -1
    wanted(1:n:2, 1) = a(1:n:2, 1)
    wanted(1:3:2, 3) = a(1:3:2, 3)
    call expect(all(b == wanted), 'part of a section: the wrong elements')
  end subroutine part_of_a_section

  subroutine backwards
    integer, asynchronous :: a(n), b(n)
    integer :: i
    a = [(i, i = 1, n)]
    b = -1
    call MPI_Irecv(b, n, MPI_INTEGER, 1 - rank, 4, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(n:1:-1), n, MPI_INTEGER, 1 - rank, 4, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call expect(all(b == a(n:1:-1)), 'backwards: the wrong elements')
  end subroutine backwards

  ! Two reals of the datatype are one complex element of the array.
  subroutine larger_elements
    complex, asynchronous :: a(n), b(n)
    integer :: i
    a = [(cmplx(i, -i), i = 1, n)]
    b = (-1, -1)
    call MPI_Irecv(b(2::2), 5, MPI_REAL, 1 - rank, 5, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(2::2), 5, MPI_REAL, 1 - rank, 5, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call expect(all(b(2:4:2) == a(2:4:2)), 'larger elements: the wrong elements')
    call expect(real(b(6)) == 6 .and. aimag(b(6)) == -1, 'larger elements: the last one')
    call expect(all(b(1::2) == (-1, -1)) .and. b(8) == (-1, -1), 'larger elements: outside the section')
  end subroutine larger_elements

  ! One of the datatype is two elements of the array: only a copy can do it, which lives until completion.
  subroutine larger_datatypes
    integer, asynchronous :: a(n), b(n)
    integer :: i, index
    logical :: done
    type(MPI_Status) :: status
    a = [(i, i = 1, n)]
    b = -1
    call MPI_Irecv(b(2::2), 2, MPI_2INTEGER, 1 - rank, 6, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(2::2), 2, MPI_2INTEGER, 1 - rank, 6, MPI_COMM_WORLD, requests(2))
    do i = 1, 2
      call MPI_Waitany(2, requests, index, status)
      call expect(index == 1 .or. index == 2, 'larger datatypes: index')
    end do
    call MPI_Testall(2, requests, done, MPI_STATUSES_IGNORE)
    call expect(done, 'larger datatypes: done')
    call expect(all(b(2::2) == a(2::2)) .and. all(b(1::2) == -1), 'larger datatypes: the wrong elements')
  end subroutine larger_datatypes

  subroutine persistent
    integer, asynchronous :: a(n, n), b(n, n)
    integer :: elements, turn
    elements = size(a(2:n:3, 1:n:2))
    call MPI_Send_init(a(2:n:3, 1:n:2), elements, MPI_INTEGER, 1 - rank, 7, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(b(2:n:3, 1:n:2), elements, MPI_INTEGER, 1 - rank, 7, MPI_COMM_WORLD, requests(2))
    do turn = 1, 3
      a = numbers(1000 * turn)
      b = -1
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call expect(only_section(b, a), 'persistent: the wrong elements')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine persistent

  subroutine collective
    integer :: a(n, n), b(n, n)
    integer, allocatable :: gathered(:)
    a = numbers(0)
    b = -1
    call MPI_Allreduce(a(2:n:3, 1:n:2), b(2:n:3, 1:n:2), size(a(2:n:3, 1:n:2)), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(only_section(b, ranks * a), 'a sum over sections: the wrong elements')
    allocate(gathered(3 * 2 * ranks))
    gathered = -1
    call MPI_Allgather(a(1:3, rank + 1), 3, MPI_INTEGER, gathered(::2), 3, MPI_INTEGER, MPI_COMM_WORLD)
    call expect(all(gathered(2::2) == -1), 'gathered: outside the section')
    call expect(all(gathered(1:6:2) == a(1:3, 1)) .and. all(gathered(7:12:2) == a(1:3, 2)), 'gathered: elements')
  end subroutine collective

  subroutine nonblocking_collective
    integer, asynchronous :: a(n, n), b(n, n)
    logical :: done
    a = numbers(0)
    b = -1
    call MPI_Iallreduce(a(2:n:3, 1:n:2), b(2:n:3, 1:n:2), size(a(2:n:3, 1:n:2)), MPI_INTEGER, MPI_SUM, &
        MPI_COMM_WORLD, requests(1))
    done = .false.
    do while (.not. done)
      call MPI_Test(requests(1), done, MPI_STATUS_IGNORE)
    end do
    call expect(only_section(b, ranks * a), 'a nonblocking sum: the wrong elements')
  end subroutine nonblocking_collective

  subroutine persistent_collective
    integer, asynchronous :: a(n, n), b(n, n)
    integer :: turn
    call MPI_Allreduce_init(a(2:n:3, 1:n:2), b(2:n:3, 1:n:2), size(a(2:n:3, 1:n:2)), MPI_INTEGER, MPI_SUM, &
        MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    do turn = 1, 3
      a = numbers(1000 * turn)
      b = -1
      call MPI_Start(requests(1))
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      call expect(only_section(b, ranks * a), 'a persistent sum: the wrong elements')
    end do
    call MPI_Request_free(requests(1))
  end subroutine persistent_collective

  subroutine one_sided
    integer, asynchronous :: a(n), b(n)
    type(MPI_Win) :: window
    integer :: i
    a = [(i, i = 1, n)]
    b = -1
    call MPI_Win_create(b, int(4 * n, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, window)
    call MPI_Win_fence(0, window)
    call MPI_Put(a(2::2), n / 2, MPI_INTEGER, 1 - rank, 1_MPI_ADDRESS_KIND, n / 2, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    call expect(all(b(2:5) == a(2::2)) .and. b(1) == -1 .and. all(b(6:) == -1), 'put: the wrong elements')
    call MPI_Win_free(window)
  end subroutine one_sided

  subroutine packed
    integer :: a(n), b(n), i, position
    character :: buffer(100)
    a = [(i, i = 1, n)]
    b = -1
    position = 0
    call MPI_Pack(a(1::3), 3, MPI_INTEGER, buffer, 100, position, MPI_COMM_WORLD)
    position = 0
    call MPI_Unpack(buffer, 100, position, b(2::3), 3, MPI_INTEGER, MPI_COMM_WORLD)
    call expect(all(b(2::3) == a(1::3)) .and. b(1) == -1, 'packed: the wrong elements')
  end subroutine packed

  ! What cannot work says so and does nothing.
  subroutine with_errors
    integer, asynchronous :: a(n)
    type(MPI_Win) :: window
    a = -1
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Win_create(a(1::2), int(4 * n, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_SELF, window, code)
    call MPI_Error_class(code, code)
    call expect(code == MPI_ERR_BUFFER, 'a window over a section is made')
    call MPI_Irecv(a(1::2), n, MPI_INTEGER, 0, 9, MPI_COMM_SELF, requests(1), code)
    call MPI_Error_class(code, code)
    call expect(code == MPI_ERR_COUNT, 'a count beyond the section is accepted')
  end subroutine with_errors
end program sections
