# source deb libcaf-mpich-3 libcaf-openmpi-3 libgfortran5
# needs dpkg gfortran
# uses MPICH's ABI (libmpich.so.12) and Open MPI's (libmpi.so.40): MPI_Win_create_dynamic, MPI_Win_attach,
#   locks, puts and gets, MPI_Win_flush, communicators, error handlers, reductions
# proves the runtime library of coarrays as Debian compiled it for each library: images of a Fortran
#   program read and write each other's variables, and sum, as over that library
build() {
    cat >images.f90 <<'END'
program images
  implicit none
  integer :: box(4)[*], me, all, image, total
  real :: value
  me = this_image()
  all = num_images()
  box = me
  sync all
  total = 0
  do image = 1, all
    total = total + box(2)[image]
  end do
  if (total /= all * (all + 1) / 2) error stop 'what other images hold'
  sync all
  box(1)[mod(me, all) + 1] = 100 * me
  sync all
  if (box(1) /= 100 * merge(all, me - 1, me == 1)) error stop 'what a neighbour wrote'
  value = me
  call co_sum(value)
  if (value /= all * (all + 1) / 2.0) error stop 'a sum over all images'
  critical
    box(3)[1] = box(3)[1] + 1
  end critical
  sync all
  if (me == 1) print '(a, i0, a, i0)', 'sum ', total, ', count ', box(3)
end program images
END
    for abi in mpich openmpi; do
        gfortran -fcoarray=lib -o images.$abi images.f90 usr/lib/*/libcaf_$abi.so.3 -Wl,--allow-shlib-undefined
    done
}
verify() {
    LD_LIBRARY_PATH=$(libraries)
    export LD_LIBRARY_PATH
    for abi in mpich openmpi; do
        for ranks in 1 2 4; do
            same "images for $abi, $ranks ranks" 60 $abi $ranks '^sum' ./images.$abi
        done
    done
}
