//! Gives the shared library the name that the standard ABI asks for (MPI-5.0 §20).

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
