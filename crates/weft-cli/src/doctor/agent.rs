//! The agent on a host: answers requests from its standard input, and ends when the input closes. Every
//! request is bounded.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use super::facts::{self, Facts};
use super::probe::{Identity, Probe};
use super::protocol::{GREETING, LINE_MAX, Reply, Request, VERSION};

/// The longest wait for packets that a request may ask for.
const COLLECT_MAX: Duration = Duration::from_secs(5);
/// The most requests of one run.
const REQUESTS_MAX: usize = 10_000;

/// Serves until the controller is gone.
pub(crate) fn serve() -> ExitCode {
    let mut output = std::io::stdout().lock();
    let mut input = std::io::stdin().lock();
    let greeted = writeln!(output, "{GREETING}{VERSION}").and_then(|()| output.flush());
    if greeted.is_err() {
        return ExitCode::SUCCESS;
    }
    let mut agent = Agent { probe: Probe::default(), variables: BTreeMap::new() };
    for _ in 0..REQUESTS_MAX {
        let mut line = Vec::new();
        match input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(count) if count > 0 => {}
            // The controller is gone.
            _ => return ExitCode::SUCCESS,
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => agent.answer(request),
            Err(error) => Reply::Failed { why: format!("the request makes no sense: {error}") },
        };
        let mut text = serde_json::to_vec(&reply).unwrap_or_default();
        text.push(b'\n');
        if output.write_all(&text).and_then(|()| output.flush()).is_err() {
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::FAILURE
}

struct Agent {
    probe: Probe,
    variables: BTreeMap<String, String>,
}

impl Agent {
    fn answer(&mut self, request: Request) -> Reply {
        let failed = |why: String| Reply::Failed { why };
        match request {
            Request::Begin { index, token, variables } => {
                self.variables = variables;
                self.probe = Probe::new(Identity { token, index });
                Reply::Done
            }
            Request::Ping => Reply::Time { nanoseconds: now() },
            Request::Facts => Reply::Facts(Box::new(Facts::here(&self.variables))),
            Request::Open => match facts::settings(&self.variables) {
                Ok(settings) => {
                    let (links, multicast) = self.probe.open(&settings);
                    Reply::Opened { links, multicast }
                }
                Err(why) => failed(why),
            },
            Request::Send { link, targets } => {
                self.probe.send(&link, &targets).map_or_else(failed, |targets| Reply::Sent { targets })
            }
            Request::Multicast => self.probe.multicast().map_or_else(failed, |()| Reply::Done),
            Request::MulticastInARow => self.probe.multicast_in_a_row().map_or_else(failed, |()| Reply::Done),
            Request::Collect { expected, milliseconds } => {
                let limit = Duration::from_millis(milliseconds).min(COLLECT_MAX);
                Reply::Arrived { packets: self.probe.collect(expected, limit) }
            }
            Request::Trace { link, endpoint_address } => self
                .probe
                .trace(&link, &endpoint_address)
                .map_or_else(failed, |unanswered| Reply::Traced { unanswered }),
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}
