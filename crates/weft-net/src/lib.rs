//! The links: system calls on the data path.
