C     A program as they were written for MPI-1: fixed form, mpif.h, implicit interfaces. 2 ranks.
      PROGRAM FIXED
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER RANK, RANKS, IERR, TAG, STATUS(MPI_STATUS_SIZE), N, I
      PARAMETER (TAG=5, N=10)
      DOUBLE PRECISION X(N), START
      REAL Y(N)
      CHARACTER*12 WORD
      LOGICAL STARTED
      CALL MPI_INIT(IERR)
      CALL MPI_INITIALIZED(STARTED, IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, RANK, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, RANKS, IERR)
      START = MPI_WTIME()
      DO 10 I = 1, N
         X(I) = RANK + I
         Y(I) = RANK - I
   10 CONTINUE
      WORD = ' '
      IF (RANK .EQ. 0) WORD = 'hello, ranks'
      CALL MPI_BCAST(WORD, 12, MPI_CHARACTER, 0, MPI_COMM_WORLD, IERR)
      IF (RANK .EQ. 0) THEN
         CALL MPI_SEND(X, N, MPI_DOUBLE_PRECISION, 1, TAG,
     &                 MPI_COMM_WORLD, IERR)
         CALL MPI_SEND(Y, N, MPI_REAL, 1, TAG, MPI_COMM_WORLD, IERR)
      ELSE IF (RANK .EQ. 1) THEN
         CALL MPI_RECV(X, N, MPI_DOUBLE_PRECISION, 0, TAG,
     &                 MPI_COMM_WORLD, STATUS, IERR)
         CALL MPI_RECV(Y, N, MPI_REAL, 0, TAG, MPI_COMM_WORLD, STATUS,
     &                 IERR)
         CALL MPI_GET_COUNT(STATUS, MPI_REAL, I, IERR)
         IF (I .EQ. N .AND. X(3) .EQ. 3D0 .AND. Y(4) .EQ. -4.0 .AND.
     &       WORD .EQ. 'hello, ranks' .AND. STARTED .AND.
     &       MPI_WTIME() .GE. START) PRINT '(A)', 'failures: 0'
      END IF
      CALL MPI_FINALIZE(IERR)
      END
