//! Generates the conversions between C's handles and statuses and Fortran's (MPI-5.0 §19.3.4, §19.3.5). The
//! standard ABI has no symbols for them, since only the Fortran compiler knows how wide its integers are. So
//! they are functions of the header, over `MPI_X_toint` and `MPI_X_fromint`.

use super::super::spec::{Form, Spec};
use anyhow::{Context, Result};
use std::fmt::Write as _;

/// Writes all conversions, with their profiling names.
pub(super) fn conversions(out: &mut String, spec: &Spec) -> Result<()> {
    out.push_str(HEAD);
    let converters = || spec.procedures().filter(|procedure| procedure.name.ends_with("_toint"));
    for prefix in ["", "P"] {
        let profiling = if prefix.is_empty() { "" } else { ", profiling names" };
        writeln!(out, "\n/* Handles{profiling} */")?;
        for procedure in converters() {
            let name = procedure.name.trim_end_matches("_toint");
            let handle = procedure.parameters.first().context("a converter without a handle")?;
            let c_type = spec.c_type(handle, Form::Small);
            let argument = &handle.name;
            writeln!(
                out,
                "MPI_ABI_INLINE MPI_Fint {prefix}{name}_c2f({c_type} {argument}) {{ return (MPI_Fint){prefix}{name}_toint({argument}); }}\n\
                 MPI_ABI_INLINE {c_type} {prefix}{name}_f2c(MPI_Fint {argument}) {{ return {prefix}{name}_fromint((int){argument}); }}"
            )?;
        }
    }
    out.push_str(STATUSES);
    for (name, from, to) in [
        ("c2f", "const MPI_Status *c_status", "MPI_Fint *f_status"),
        ("f2c", "const MPI_Fint *f_status", "MPI_Status *c_status"),
        ("f2f08", "const MPI_Fint *f_status", "MPI_F08_status *f08_status"),
        ("f082f", "const MPI_F08_status *f08_status", "MPI_Fint *f_status"),
        ("c2f08", "const MPI_Status *c_status", "MPI_F08_status *f08_status"),
        ("f082c", "const MPI_F08_status *f08_status", "MPI_Status *c_status"),
    ] {
        let argument = |declaration: &str| declaration.rsplit('*').next().unwrap_or_default().to_owned();
        writeln!(
            out,
            "MPI_ABI_INLINE int PMPI_Status_{name}({from}, {to}) {{ return MPI_Status_{name}({}, {}); }}",
            argument(from),
            argument(to)
        )?;
    }
    Ok(())
}

const HEAD: &str = "
/* Conversions between C and Fortran (MPI-5.0 19.3.4, 19.3.5). They are no symbols of the library. MPI_Fint is
 * the default INTEGER of the program's Fortran compiler. If a compiler option makes that INTEGER wider,
 * compile with -DMPI_ABI_Fint=int64_t. */
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define MPI_ABI_INLINE static inline
#elif defined(__GNUC__)
#define MPI_ABI_INLINE static __inline__
#else
#define MPI_ABI_INLINE static
#endif
#ifndef MPI_ABI_Fint
#define MPI_ABI_Fint int
#endif
typedef MPI_ABI_Fint MPI_Fint;

/* TYPE(MPI_Status) of the module mpi_f08, in C. */
typedef struct {
    MPI_Fint MPI_SOURCE;
    MPI_Fint MPI_TAG;
    MPI_Fint MPI_ERROR;
    MPI_Fint MPI_internal[5];
} MPI_F08_status;

#define MPI_F_STATUS_IGNORE                ((MPI_Fint *)0x0)
#define MPI_F_STATUSES_IGNORE              ((MPI_Fint *)0x0)
#define MPI_F08_STATUS_IGNORE              ((MPI_F08_status *)0x0)
#define MPI_F08_STATUSES_IGNORE            ((MPI_F08_status *)0x0)
";

/// The conversions of statuses. Fortran's status is an array (or, in mpi_f08, a structure) with the same
/// number of integers as C's, in the same order.
const STATUSES: &str = "
/* Statuses. The result is MPI_ERR_ARG for MPI_STATUS_IGNORE and its like, which hold no status. */
MPI_ABI_INLINE int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status) {
    int i;
    if (!c_status || !f_status)
        return MPI_ERR_ARG;
    f_status[MPI_F_SOURCE] = (MPI_Fint)c_status->MPI_SOURCE;
    f_status[MPI_F_TAG] = (MPI_Fint)c_status->MPI_TAG;
    f_status[MPI_F_ERROR] = (MPI_Fint)c_status->MPI_ERROR;
    for (i = 0; i < MPI_F_STATUS_SIZE - 3; i++)
        f_status[3 + i] = (MPI_Fint)c_status->MPI_internal[i];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status) {
    int i;
    if (!f_status || !c_status)
        return MPI_ERR_ARG;
    c_status->MPI_SOURCE = (int)f_status[MPI_F_SOURCE];
    c_status->MPI_TAG = (int)f_status[MPI_F_TAG];
    c_status->MPI_ERROR = (int)f_status[MPI_F_ERROR];
    for (i = 0; i < MPI_F_STATUS_SIZE - 3; i++)
        c_status->MPI_internal[i] = (int)f_status[3 + i];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status) {
    int i;
    if (!f_status || !f08_status)
        return MPI_ERR_ARG;
    f08_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
    f08_status->MPI_TAG = f_status[MPI_F_TAG];
    f08_status->MPI_ERROR = f_status[MPI_F_ERROR];
    for (i = 0; i < MPI_F_STATUS_SIZE - 3; i++)
        f08_status->MPI_internal[i] = f_status[3 + i];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status) {
    int i;
    if (!f08_status || !f_status)
        return MPI_ERR_ARG;
    f_status[MPI_F_SOURCE] = f08_status->MPI_SOURCE;
    f_status[MPI_F_TAG] = f08_status->MPI_TAG;
    f_status[MPI_F_ERROR] = f08_status->MPI_ERROR;
    for (i = 0; i < MPI_F_STATUS_SIZE - 3; i++)
        f_status[3 + i] = f08_status->MPI_internal[i];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status) {
    MPI_Fint f_status[MPI_F_STATUS_SIZE];
    int error = MPI_Status_c2f(c_status, f_status);
    return error ? error : MPI_Status_f2f08(f_status, f08_status);
}
MPI_ABI_INLINE int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status) {
    MPI_Fint f_status[MPI_F_STATUS_SIZE];
    int error = MPI_Status_f082f(f08_status, f_status);
    return error ? error : MPI_Status_f2c(f_status, c_status);
}

/* Statuses, profiling names */
";
