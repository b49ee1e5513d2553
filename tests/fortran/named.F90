! What is said about a call names the procedure of Fortran. The argument chooses the call:
! - error: a message to a rank that there is not
! - section: the same with a strided section, whose call makes a datatype first (MODERN only)
! - check: the ranks call different collectives, for WEFT_CHECK
! - hang: each rank waits for a message of the other
program named
#ifdef MODERN
    use mpi_f08
#else
    use mpi
#endif
    implicit none
    character(20) :: what
    integer :: rank, ierror, value(8)

    call get_command_argument(1, what)
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    value = rank
    select case (what)
    case ('error')
        call MPI_Send(value, 1, MPI_INTEGER, 99, 0, MPI_COMM_WORLD, ierror)
#ifdef MODERN
    case ('section')
        call MPI_Send(value(1:8:2), 4, MPI_INTEGER, 99, 0, MPI_COMM_WORLD, ierror)
#endif
    case ('check')
        if (rank == 0) then
            call MPI_Bcast(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
        else
            call MPI_Barrier(MPI_COMM_WORLD, ierror)
        end if
    case ('hang')
        call MPI_Recv(value, 1, MPI_INTEGER, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    end select
    call MPI_Finalize(ierror)
end program named
