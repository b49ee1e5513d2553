//! The same protocol in virtual time.
#![forbid(unsafe_code)]
