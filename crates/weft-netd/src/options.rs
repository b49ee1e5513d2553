//! The command line of `weft-netd`.

use std::io::Write;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "usage: weft-netd [--socket PATH] [--group NAME] [--interfaces NAME,…]
  --socket PATH      listen there; without it on the socket that systemd hands over
  --group NAME       who may ask beside root: the members of this group (default: nobody else)
  --interfaces LIST  hand out sockets on these interfaces only (default: all that are Ethernet)";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) group: Option<String>,
    /// Interfaces that are served; empty: all.
    pub(crate) interfaces: Vec<String>,
}

impl Options {
    /// Parses the command line. Returns none when it has only asked for output, which has been printed.
    pub(crate) fn parse(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().cloned().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--help" | "-h" => {
                    say(USAGE);
                    return Ok(None);
                }
                "--version" => {
                    say(&format!("weft-netd {}", env!("CARGO_PKG_VERSION")));
                    return Ok(None);
                }
                "--socket" => options.socket = Some(value()?.into()),
                "--group" => options.group = Some(value()?),
                "--interfaces" => {
                    options.interfaces = value()?.split(',').map(str::trim).map(str::to_owned).collect();
                    if options.interfaces.iter().any(String::is_empty) {
                        return Err("--interfaces has an empty name".into());
                    }
                }
                _ => return Err(format!("{argument} is no option")),
            }
        }
        if options.group.is_some() && options.socket.is_none() {
            return Err("--group goes with --socket; systemd's socket has its own".into());
        }
        Ok(Some(options))
    }
}

/// Says a line on standard output. A reader that has stopped reading misses nothing.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Option<Options>, String> {
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_nonsense_is_refused() {
        let full = parse(&["--socket", "/run/x", "--group", "weft", "--interfaces", "e0, e1"]).unwrap().unwrap();
        assert_eq!(full.interfaces, ["e0", "e1"]);
        assert_eq!((full.socket, full.group), (Some("/run/x".into()), Some("weft".into())));
        for bad in [&["--socket"][..], &["--sockets", "x"], &["--interfaces", "e0,"], &["--group", "weft"], &["x"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
