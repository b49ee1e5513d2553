!mod$ v1 sum:5dae835068e1d315
module checks
integer(4)::rank
integer(4)::failures
integer(4)::deleted
integer(4)::handled
integer(4)::handled_code
contains
subroutine expect(holds,what)
logical(4),intent(in)::holds
character(*,1),intent(in)::what
end
end
