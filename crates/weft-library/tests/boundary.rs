//! The shared library and the header as C programs see them: names, sizes, and that C and C++ compilers
//! accept the header.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The procedures of MPI 5.0 in all forms, those of MPI-1 that were removed, and those of `mpi-ext.h`.
const FUNCTIONS: usize = 664 + 10 + 14;
const SYMBOLS: &str = include_str!("../../weft-abi/src/generated/symbols.txt");
/// What the Fortran binding looks for, and does without over another library.
const FOR_FORTRAN: [&str; 1] = ["weft_request_attach"];
/// What the library for programs of MPICH's ABI calls.
const FOR_FACES: [&str; 6] = [
    "weft_short_handles",
    "weft_short_isend",
    "weft_short_irecv",
    "weft_short_wait",
    "weft_short_recv",
    "weft_short_sendrecv",
];

fn include_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// `libmpi_abi.so` of this build, beside the directory of the test programs.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its own path");
    let profile = program.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps");
    let path = profile.join("libmpi_abi.so");
    assert!(path.exists(), "{} is missing: cargo did not build the library", path.display());
    path
}

fn scratch(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("cargo's directory for tests can be written");
    path
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn exports_the_symbols_of_its_headers_and_nothing_else() {
    let listing = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library()));
    let mut exported: Vec<&str> = listing.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut expected: Vec<&str> = SYMBOLS.lines().collect();
    assert_eq!(expected.len(), 2 * FUNCTIONS);
    expected.extend(FOR_FORTRAN);
    expected.extend(FOR_FACES);
    exported.sort_unstable();
    expected.sort_unstable();
    let missing: Vec<_> = expected.iter().filter(|name| exported.binary_search(name).is_err()).collect();
    let surplus: Vec<_> = exported.iter().filter(|name| expected.binary_search(name).is_err()).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}; in no header: {surplus:?}");
}

#[test]
fn has_the_name_that_the_standard_gives_it() {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library()));
    assert!(dynamic.contains("soname: [libmpi_abi.so.1]"), "{dynamic}");
}

#[test]
fn header_is_strict_c_and_cpp() {
    let text =
        "#include <mpi.h>\n#include <mpi.h>\nint main(int argc, char **argv) { return MPI_Init(&argc, &argv); }\n";
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
    for (compiler, standard, name) in [
        // C90 has no `inline`.
        ("cc", "-std=c90", "strict.c"),
        ("cc", "-std=c99", "strict.c"),
        ("cc", "-std=c11", "strict.c"),
        ("cc", "-std=c17", "strict.c"),
        // C++98 has neither stdint.h nor long long by the letter; the ABI needs both.
        ("c++", "-std=c++11", "strict.cpp"),
        ("c++", "-std=c++14", "strict.cpp"),
        ("c++", "-std=c++17", "strict.cpp"),
        ("c++", "-std=c++20", "strict.cpp"),
    ] {
        let file = scratch(name, text);
        for asked in [&[][..], &["-DWEFT_REMOVED_NAMES", "-DMPI_ABI_Fint=int64_t"]] {
            let mut command = Command::new(compiler);
            run(command.arg(standard).args(strict).args(asked).arg("-I").arg(include_directory()).arg(&file));
        }
    }
}

/// Sizes and a sample of values that MPI-5.0 §20 fixes, written here a second time on purpose.
#[test]
fn header_has_the_sizes_and_values_of_the_abi() {
    let text = r#"
#include <mpi.h>
#include <stddef.h>
#define CHECK(name, condition) typedef char check_##name[(condition) ? 1 : -1]
CHECK(aint, sizeof(MPI_Aint) == sizeof(void *));
CHECK(count, sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8);
CHECK(status, sizeof(MPI_Status) == 32);
CHECK(source, offsetof(MPI_Status, MPI_SOURCE) == 0);
CHECK(tag, offsetof(MPI_Status, MPI_TAG) == 4);
CHECK(error, offsetof(MPI_Status, MPI_ERROR) == 8);
CHECK(handle, sizeof(MPI_Comm) == sizeof(void *));
CHECK(threads, MPI_THREAD_FUNNELED == 1024 && MPI_THREAD_MULTIPLE == 4096);
CHECK(wildcards, MPI_ANY_SOURCE == -1 && MPI_ANY_TAG == -2 && MPI_PROC_NULL == -3 && MPI_ROOT == -4);
CHECK(version, MPI_VERSION == 5 && MPI_SUBVERSION == 0 && MPI_ABI_VERSION == 1 && MPI_ABI_SUBVERSION == 0);
CHECK(undefined, MPI_UNDEFINED == -32766 && MPI_ERR_LASTCODE == 16383);
int main(void) {
    if ((intptr_t)MPI_COMM_WORLD != 0x101 || (intptr_t)MPI_INT != 0x209 || (intptr_t)MPI_SUM != 0x21) return 1;
    if ((intptr_t)MPI_IN_PLACE != 1 || MPI_BOTTOM != 0 || MPI_STATUS_IGNORE != 0) return 2;
    if ((intptr_t)MPI_COMM_DUP_FN != 1 || MPI_COMM_NULL_COPY_FN != 0) return 3;
    return 0;
}
"#;
    let file = scratch("sizes.c", text);
    let program = file.with_extension("");
    run(Command::new("cc").args(["-std=c99", "-I"]).arg(include_directory()).arg(&file).arg("-o").arg(&program));
    run(&mut Command::new(program));
}

/// Checks that the header declares exactly what the library exports: a program that names every function
/// compiles and links.
#[test]
fn header_declares_every_symbol() {
    let mut text =
        "#include <mpi.h>\n#include <mpi-ext.h>\ntypedef void (*function)(void);\nfunction all[] = {\n".to_owned();
    for symbol in SYMBOLS.lines() {
        text.push_str(&format!("    (function){symbol},\n"));
    }
    text.push_str("};\nint main(void) { return all[0] == 0; }\n");
    let file = scratch("symbols.c", &text);
    let program = file.with_extension("");
    let strict = ["-std=c99", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Werror", "-DWEFT_REMOVED_NAMES"];
    let compile = &mut Command::new("cc");
    run(compile.args(strict).arg("-I").arg(include_directory()).arg(&file).arg(library()).arg("-o").arg(&program));
    let headers = ["mpi.h", "mpi-ext.h"];
    let headers = headers.map(|name| std::fs::read_to_string(include_directory().join(name)).expect("a header"));
    let declared = headers
        .iter()
        .flat_map(|header| header.lines())
        .filter(|line| !line.starts_with("typedef"))
        // Conversions to Fortran have no symbols.
        .filter(|line| !line.starts_with("MPI_ABI_INLINE"))
        .filter(|line| {
            let mut words = line.split(['(', ' ', '*']);
            words.any(|word| ["MPI_", "PMPI_", "MPIX_", "PMPIX_"].iter().any(|prefix| word.starts_with(prefix)))
                && line.contains('(')
                && !line.starts_with([' ', '#', '/'])
        });
    assert_eq!(declared.count(), 2 * FUNCTIONS);
}
