//! `weft-netd`: hands packet sockets to processes that may not make them.
//!
//! Each socket is bound to one interface, and gets the frames of Weft for one port that no other process on
//! the host has. Its filter is locked, so the socket cannot be made to get anything else.
//!
//! The helper keeps no state. The kernel lists the open sockets, so the helper reads from that list which
//! ports are taken and how many each user has. So it can be ended and started at any time. A process may ask
//! if it may write to the helper's unix socket.
//!
//! The helper cannot limit what is sent through such a socket: SECURITY.md.
#![deny(unsafe_code)]

mod diag;
mod grant;
mod options;
mod serve;
#[allow(unsafe_code)]
mod sys;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&arguments) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("weft-netd: {sentence}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("weft-netd: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let (listener, idle) = match &options.socket {
        Some(path) => (serve::listen(path, options)?, None),
        None => (sys::inherited_listener().ok_or("neither --socket nor a socket from systemd is given")?, serve::IDLE),
    };
    sys::drop_privileges().map_err(|error| format!("cannot give up the privileges it does not need: {error}"))?;
    diag::filters().map_err(|error| format!("the kernel does not say which ports are taken: {error}"))?;
    serve::serve(&listener, &options.interfaces, idle)
}
