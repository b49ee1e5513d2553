//! A remote shell between guests, by which `mpiexec` starts its agents: no users, no keys, on a network that
//! leads nowhere else.
//!
//! The client sends its words as a line of JSON and then its standard input. The server answers with frames:
//! a kind, a length (4 bytes, little-endian), and that many bytes. The last frame is the exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;

const PORT: u16 = 5514;
const OUTPUT: u8 = 1;
const ERROR: u8 = 2;
const CODE: u8 = 3;
/// The most bytes of a frame.
const CHUNK: usize = 16 * 1024;
/// The time that another guest may take to send the command.
const GREETING_LIMIT: Duration = Duration::from_secs(20);
/// The exit code when a command could not be started.
const EXIT_NOT_STARTED: u8 = 127;

pub(super) fn listen() -> anyhow::Result<TcpListener> {
    // The listener accepts IPv4 connections as well.
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).context("the remote shell cannot listen")
}

/// Serves all clients that connect, for ever.
pub(super) fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            if let Err(error) = answer(stream) {
                eprintln!("guest: remote shell: {error:#}");
            }
        });
    }
}

fn answer(stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING_LIMIT))?;
    let mut input = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    input.read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    let words: Vec<String> = serde_json::from_str(&line)?;
    let (program, arguments) = words.split_first().context("no words")?;
    let out = Arc::new(Mutex::new(stream));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            send(&out, ERROR, format!("cannot run {program}: {error}\n").as_bytes())?;
            return Ok(send(&out, CODE, &[EXIT_NOT_STARTED])?);
        }
    };
    if let Some(mut to) = child.stdin.take() {
        // The copy ends with the connection, or when the command takes no more input.
        std::thread::spawn(move || drop(copy(&mut input, |bytes| to.write_all(bytes))));
    }
    let copies = [
        child.stdout.take().map(|from| copier(from, OUTPUT, out.clone())),
        child.stderr.take().map(|from| copier(from, ERROR, out.clone())),
    ];
    let status = child.wait()?;
    copies.into_iter().flatten().for_each(|copier| drop(copier.join()));
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    send(&out, CODE, &[code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_NOT_STARTED)])?;
    Ok(())
}

fn copier(mut from: impl Read + Send + 'static, kind: u8, out: Arc<Mutex<TcpStream>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || drop(copy(&mut from, |bytes| send(&out, kind, bytes))))
}

/// Hands bytes on as soon as they come.
fn copy(from: &mut impl Read, mut hand_on: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut buffer = [0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => hand_on(&buffer[..count])?,
        }
    }
}

fn send(out: &Mutex<TcpStream>, kind: u8, bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let frame = [&[kind][..], &length.to_le_bytes(), bytes].concat();
    let mut out = out.lock().map_err(|_| std::io::Error::other("another thread has panicked"))?;
    out.write_all(&frame)
}

/// Runs the words on another guest, with this process's streams; ends with their exit code.
pub(super) fn run(host: &str, words: &[String]) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect((host, PORT)).with_context(|| format!("{host} cannot be reached"))?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("{}\n", serde_json::to_string(words)?).as_bytes())?;
    let mut to = stream.try_clone()?;
    std::thread::spawn(move || {
        let _ = copy(&mut std::io::stdin(), |bytes| to.write_all(bytes));
        let _ = to.shutdown(Shutdown::Write);
    });
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).with_context(|| format!("the connection to {host} broke"))?;
        let [kind, length @ ..] = head;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        anyhow::ensure!(bytes.len() <= CHUNK, "{host} does not speak as a guest does");
        stream.read_exact(&mut bytes)?;
        match kind {
            OUTPUT => {
                std::io::stdout().write_all(&bytes)?;
                std::io::stdout().flush()?;
            }
            ERROR => std::io::stderr().write_all(&bytes)?,
            CODE => std::process::exit(i32::from(bytes.first().copied().unwrap_or(EXIT_NOT_STARTED))),
            _ => anyhow::bail!("{host} does not speak as a guest does"),
        }
    }
}
