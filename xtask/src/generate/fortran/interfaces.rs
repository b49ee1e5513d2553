//! The modules `mpi` and `mpi_f08`: an interface for each procedure, as MPI_X and as PMPI_X.

use anyhow::{Context, Result, bail};
use std::fmt::Write as _;

use super::super::spec::{Direction, Form, Parameter, Procedure, Spec};
use super::{
    HEAD, Use, constants, handle, has_choice, has_own_interface, is_choice, is_without_f08, parameters, procedures,
    use_of,
};

/// The two modules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Mpi,
    F08,
}

/// The longest line that is written: free form allows 132 columns.
const COLUMNS: usize = 110;

/// Breaks a statement at its commas.
pub(super) fn broken(indent: &str, statement: &str) -> String {
    let mut out = String::new();
    let mut line = indent.to_owned();
    for piece in statement.split_inclusive(", ") {
        if line.len() + piece.len() > COLUMNS {
            let _ = writeln!(out, "{}&", line.trim_end().to_owned() + " ");
            line = format!("{indent}    ");
        }
        line.push_str(piece);
    }
    let _ = writeln!(out, "{line}");
    out
}

pub(super) fn mpi(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "! The module mpi (MPI-5.0 §19.1.3).\n! {HEAD}\nmodule mpi\n  use weft_mpi_base\n  implicit none\n  public\n{}",
        constants::of_mpi(spec)
    );
    for (_, procedure) in procedures(spec).filter(|(_, procedure)| !has_own_interface(&procedure.name)) {
        let gives_address = procedure.parameters.iter().any(|parameter| parameter.kind == "C_BUFFER");
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", procedure.name);
            if gives_address {
                writeln!(out, "  interface {name}")?;
                let text = subroutine(spec, procedure, Form::Small, Binding::Mpi, &name)?;
                out.push_str(&text);
                let address = "integer(MPI_ADDRESS_KIND) :: baseptr";
                let pointer = "type(c_ptr) :: baseptr";
                let overloaded = subroutine(spec, procedure, Form::Small, Binding::Mpi, &format!("{name}_cptr"))?;
                out.push_str(&overloaded.replace(address, pointer).replace("      import\n", IMPORT_POINTER));
            } else {
                writeln!(out, "  interface")?;
                out.push_str(&subroutine(spec, procedure, Form::Small, Binding::Mpi, &name)?);
            }
            writeln!(out, "  end interface")?;
        }
    }
    for prefix in ["", "P"] {
        out.push_str(&OWN_OF_MPI.replace('@', prefix).replace('%', &prefix.to_lowercase()));
    }
    out.push_str("end module mpi\n");
    Ok(out)
}

const IMPORT_POINTER: &str = "      use, intrinsic :: iso_c_binding, only: c_ptr\n      import\n";

/// What has an interface of its own in the module mpi. `@` is `P` or nothing, `%` is `p` or nothing.
const OWN_OF_MPI: &str = r"
  interface
    real(selected_real_kind(15)) function @MPI_Wtime()
    end function @MPI_Wtime
    real(selected_real_kind(15)) function @MPI_Wtick()
    end function @MPI_Wtick
    integer(MPI_ADDRESS_KIND) function @MPI_Aint_add(base, disp)
      import
      integer(MPI_ADDRESS_KIND) :: base, disp
    end function @MPI_Aint_add
    integer(MPI_ADDRESS_KIND) function @MPI_Aint_diff(addr1, addr2)
      import
      integer(MPI_ADDRESS_KIND) :: addr1, addr2
    end function @MPI_Aint_diff
    subroutine @MPI_Pcontrol(level)
      integer :: level
    end subroutine @MPI_Pcontrol
    subroutine @MPI_Status_f2f08(f_status, f08_status, ierror)
      import
      integer :: f_status(MPI_STATUS_SIZE)
      integer, optional :: ierror
      type(MPI_Status) :: f08_status
    end subroutine @MPI_Status_f2f08
    subroutine @MPI_Status_f082f(f08_status, f_status, ierror)
      import
      integer :: f_status(MPI_STATUS_SIZE)
      integer, optional :: ierror
      type(MPI_Status) :: f08_status
    end subroutine @MPI_Status_f082f
    subroutine @MPI_F_sync_reg(buf)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      !DIR$ IGNORE_TKR buf
      real :: buf(*)
    end subroutine @MPI_F_sync_reg
    ! The descriptor of any variable says the size of its elements.
    subroutine @MPI_Sizeof(x, size, ierror) bind(C, name='%mpi_sizeof_f08ts_')
      type(*), dimension(..) :: x
      integer :: size, ierror
    end subroutine @MPI_Sizeof
  end interface
";

pub(super) fn mpi_f08(spec: &Spec) -> Result<String> {
    let mut out = format!(
        "! The module mpi_f08 (MPI-5.0 §19.1.2).\n! {HEAD}\nmodule mpi_f08\n  use, intrinsic :: iso_c_binding, only: \
         c_ptr\n  use weft_mpi_base\n  implicit none\n  public\n  private :: c_ptr\n{}{}",
        constants::of_mpi_f08(spec),
        CALLBACKS
    );
    for name in constants::FUNCTIONS {
        if let Some(text) = predefined(name) {
            writeln!(out, "  procedure({text}) :: {name}")?;
        }
    }
    let with_f08 = |procedure: &Procedure| !has_own_interface(&procedure.name) && !is_without_f08(&procedure.name);
    for (_, procedure) in procedures(spec).filter(|(_, procedure)| with_f08(procedure)) {
        for prefix in ["", "P"] {
            generic(spec, procedure, prefix, &mut out).with_context(|| procedure.name.clone())?;
        }
    }
    for prefix in ["", "P"] {
        out.push_str(&OWN_OF_F08.replace('@', prefix).replace('%', &prefix.to_lowercase()));
    }
    out.push_str("end module mpi_f08\n");
    Ok(out)
}

/// The type of a predefined function: that of the callbacks in whose place it is given.
fn predefined(name: &str) -> Option<String> {
    let (object, rest) = name.strip_prefix("MPI_")?.split_once('_')?;
    let object = match object {
        "COMM" => "Comm",
        "TYPE" => "Type",
        "WIN" => "Win",
        "CONVERSION" => {
            let large = if rest.ends_with("_C") { "_c" } else { "" };
            return Some(format!("MPI_Datarep_conversion_function{large}"));
        }
        _ => return None,
    };
    let what = if rest == "NULL_DELETE_FN" { "delete" } else { "copy" };
    Some(format!("MPI_{object}_{what}_attr_function"))
}

/// The generic name of a procedure, with its specific procedures: small and large counts, if arguments tell
/// them apart; else the large one has a name of its own (MPI-5.0 §19.2).
fn generic(spec: &Spec, procedure: &Procedure, prefix: &str, out: &mut String) -> Result<()> {
    let name = format!("{prefix}{}", procedure.name);
    let end = if has_choice(procedure) { "f08ts" } else { "f08" };
    writeln!(out, "  interface {name}")?;
    out.push_str(&subroutine(spec, procedure, Form::Small, Binding::F08, &format!("{name}_{end}"))?);
    if procedure.large {
        if key(spec, procedure, Form::Small) == key(spec, procedure, Form::Large) {
            writeln!(out, "  end interface\n  interface {name}_c")?;
        }
        out.push_str(&subroutine(spec, procedure, Form::Large, Binding::F08, &format!("{name}_c_{end}"))?);
    }
    writeln!(out, "  end interface")?;
    Ok(())
}

/// What tells a specific procedure from others of the same generic name: the types of its arguments. All
/// kinds of 8 bytes are the same kind.
fn key(spec: &Spec, procedure: &Procedure, form: Form) -> Vec<String> {
    let of = |parameter: &Parameter| match spec.c_type(parameter, form) {
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => "8".to_owned(),
        other => other.to_owned(),
    };
    parameters(procedure, form)
        .into_iter()
        .map(|parameter| format!("{}{}", of(parameter), parameter.lengths.len()))
        .collect()
}

fn subroutine(spec: &Spec, procedure: &Procedure, form: Form, binding: Binding, name: &str) -> Result<String> {
    let parameters = parameters(procedure, form);
    let mut names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    names.push("ierror");
    // Descriptors have one form only in procedures with BIND(C).
    let bind = if binding == Binding::F08 && has_choice(procedure) {
        format!(" bind(C, name='{}_')", name.to_lowercase())
    } else {
        String::new()
    };
    let mut out = broken("    ", &format!("subroutine {name}({}){bind}", names.join(", ")));
    out.push_str("      import\n");
    for parameter in &parameters {
        let text = declaration(spec, procedure, parameter, form, binding);
        for line in text.with_context(|| format!("{name}: {}", parameter.name))? {
            writeln!(out, "      {line}")?;
        }
    }
    let optional = if binding == Binding::F08 { ", optional, intent(out)" } else { "" };
    writeln!(out, "      integer{optional} :: ierror\n    end subroutine {name}")?;
    Ok(out)
}

/// The lines that declare a parameter.
fn declaration(
    spec: &Spec,
    procedure: &Procedure,
    parameter: &Parameter,
    form: Form,
    binding: Binding,
) -> Result<Vec<String>> {
    let name = &parameter.name;
    let f08 = binding == Binding::F08;
    if is_choice(parameter) || parameter.kind == "C_BUFFER2" && !f08 {
        return Ok(if f08 {
            let intent = if parameter.constant { ", intent(in)" } else { "" };
            let asynchronous = if is_asynchronous(procedure) { ", asynchronous" } else { "" };
            vec![format!("type(*), dimension(..){intent}{asynchronous} :: {name}")]
        } else {
            vec![
                format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"),
                format!("!DIR$ IGNORE_TKR {name}"),
                format!("real :: {name}(*)"),
            ]
        });
    }
    if let Some(function) = &parameter.function {
        let large = if parameter.is_poly() && form == Form::Large { "_c" } else { "" };
        let function = function.trim_end_matches("_c");
        return Ok(vec![if f08 {
            format!("procedure({function}{large}) :: {name}")
        } else {
            format!("external :: {name}")
        }]);
    }
    let kind = type_of(spec, parameter, form, binding)?;
    let may_be_a_constant = is_array(parameter) && matches!(parameter.kind.as_str(), "WEIGHT" | "ERROR_CODE");
    let has_intent = f08 && !may_be_a_constant;
    let is_output_status = parameter.kind == "STATUS" && is_array(parameter);
    let intent = match parameter.direction {
        _ if !has_intent || is_output_status => "",
        Direction::In => ", intent(in)",
        Direction::Out => ", intent(out)",
        Direction::InOut => ", intent(inout)",
    };
    let asynchronous = if f08 && is_array(parameter) && has_choice(procedure) && is_asynchronous(procedure) {
        ", asynchronous"
    } else {
        ""
    };
    Ok(vec![format!("{kind}{intent}{asynchronous} :: {name}{}", shape(parameter, binding))])
}

/// Whether MPI uses the buffers of a procedure after it has returned.
fn is_asynchronous(procedure: &Procedure) -> bool {
    use_of(procedure) != Use::Blocking && !procedure.name.contains("fortran_booleans")
}

fn is_array(parameter: &Parameter) -> bool {
    !parameter.lengths.is_empty() || matches!(parameter.kind.as_str(), "STRING_ARRAY" | "STRING_2DARRAY")
}

/// The shape of an array: Fortran's first dimension is C's last.
fn shape(parameter: &Parameter, binding: Binding) -> String {
    match (parameter.kind.as_str(), parameter.lengths.len()) {
        ("STRING_2DARRAY", _) => format!("({}, *)", parameter.lengths[0]),
        ("STRING_ARRAY", _) => "(*)".to_owned(),
        ("STATUS", 0) if binding == Binding::Mpi => "(MPI_STATUS_SIZE)".to_owned(),
        ("STATUS", _) if binding == Binding::Mpi => "(MPI_STATUS_SIZE, *)".to_owned(),
        (_, 0) => String::new(),
        (_, 2) => format!("({}, *)", parameter.lengths[1]),
        _ => "(*)".to_owned(),
    }
}

pub(super) fn type_of(spec: &Spec, parameter: &Parameter, form: Form, binding: Binding) -> Result<String> {
    let f08 = binding == Binding::F08;
    if let Some((_, name)) = handle(&parameter.kind) {
        return Ok(if f08 { format!("type({name})") } else { "integer".to_owned() });
    }
    let text = match parameter.kind.as_str() {
        "STATUS" if f08 => "type(MPI_Status)",
        "STATUS" | "EXTRA_STATE2" | "ATTRIBUTE_VAL_10" => "integer",
        "LOGICAL" => "logical",
        "STRING" | "STRING_ARRAY" | "STRING_2DARRAY" => "character(len=*)",
        "EXTRA_STATE" | "ATTRIBUTE_VAL" => "integer(MPI_ADDRESS_KIND)",
        "C_BUFFER" if !f08 => "integer(MPI_ADDRESS_KIND)",
        "C_BUFFER" | "C_BUFFER2" => "type(c_ptr)",
        _ => match spec.c_type(parameter, form) {
            "int" => "integer",
            "MPI_Aint" => "integer(MPI_ADDRESS_KIND)",
            "MPI_Count" => "integer(MPI_COUNT_KIND)",
            "MPI_Offset" => "integer(MPI_OFFSET_KIND)",
            other => bail!("kind {} ({other}) has no type in Fortran", parameter.kind),
        },
    };
    Ok(text.to_owned())
}

/// What has an interface of its own in the module mpi_f08. `@` is `P` or nothing, `%` is `p` or nothing.
const OWN_OF_F08: &str = r"
  interface @MPI_Wtime
    real(selected_real_kind(15)) function @MPI_Wtime_f08()
    end function @MPI_Wtime_f08
  end interface
  interface @MPI_Wtick
    real(selected_real_kind(15)) function @MPI_Wtick_f08()
    end function @MPI_Wtick_f08
  end interface
  interface @MPI_Aint_add
    integer(MPI_ADDRESS_KIND) function @MPI_Aint_add_f08(base, disp)
      import
      integer(MPI_ADDRESS_KIND), intent(in) :: base, disp
    end function @MPI_Aint_add_f08
  end interface
  interface @MPI_Aint_diff
    integer(MPI_ADDRESS_KIND) function @MPI_Aint_diff_f08(addr1, addr2)
      import
      integer(MPI_ADDRESS_KIND), intent(in) :: addr1, addr2
    end function @MPI_Aint_diff_f08
  end interface
  interface @MPI_Pcontrol
    subroutine @MPI_Pcontrol_f08(level)
      integer, intent(in) :: level
    end subroutine @MPI_Pcontrol_f08
  end interface
  interface @MPI_Status_f2f08
    subroutine @MPI_Status_f2f08_f08(f_status, f08_status, ierror)
      import
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine @MPI_Status_f2f08_f08
  end interface
  interface @MPI_Status_f082f
    subroutine @MPI_Status_f082f_f08(f08_status, f_status, ierror)
      import
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine @MPI_Status_f082f_f08
  end interface
  interface @MPI_F_sync_reg
    subroutine @MPI_F_sync_reg_f08ts(buf) bind(C, name='%mpi_f_sync_reg_f08ts_')
      type(*), dimension(..), asynchronous :: buf
    end subroutine @MPI_F_sync_reg_f08ts
  end interface
  ! The descriptor of any variable says the size of its elements.
  interface @MPI_Sizeof
    subroutine @MPI_Sizeof_f08ts(x, size, ierror) bind(C, name='%mpi_sizeof_f08ts_')
      type(*), dimension(..) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine @MPI_Sizeof_f08ts
  end interface
";

/// The types of the program's functions (MPI-5.0 §A.1.3).
const CALLBACKS: &str = include_str!("callbacks.f90");
