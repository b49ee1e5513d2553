//! PMI-1.1, which Weft's `mpiexec`, Hydra (MPICH, Intel MPI), gforker and Slurm (`--mpi=pmi2`) speak. Each
//! request has one reply, over a connection that the process manager left open or listens for.

use super::link::Link;
use super::{Names, Notices, Observer, ProcessManager, exit_aborted};
use crate::spawn::{self, PARENT_PORT_KEY, Spawn};
use crate::wire::{self, Line};
use crate::{JobSecret, LaunchError, SpawnProgram, Spawned};

/// The requests that every process manager with PMI-1.1 answers.
#[derive(Debug)]
pub(super) struct Conversation {
    /// The connection; `None` once goodbye has been said.
    link: Option<Link>,
    /// The name of the job, which most requests repeat.
    pub(super) job: String,
    /// The longest key and the longest value that are accepted, in bytes.
    key_max: usize,
    value_max: usize,
}

impl Conversation {
    /// Begins to talk. Also returns whether it is Weft's `mpiexec` that answers.
    pub(super) fn begin(link: Link) -> Result<(Self, bool), LaunchError> {
        let (key_max, value_max) = (wire::KEY_MAX, wire::VALUE_MAX);
        let mut talk = Self { link: Some(link), job: String::new(), key_max, value_max };
        let reply = talk.init()?;
        let is_weft = Line::parse(&reply).get("weft") == Some("1");
        Ok((talk, is_weft))
    }

    pub(super) fn init(&mut self) -> Result<String, LaunchError> {
        self.ask("init", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
    }

    /// Sends one request and returns the reply, which must be the command `expected` without a failing `rc`.
    pub(super) fn ask(&mut self, request: &'static str, line: &str, expected: &str) -> Result<String, LaunchError> {
        self.ask_with_body(request, line, b"", expected)
    }

    /// Sends one request with bytes that follow it, and returns the reply as [`Self::ask`] does.
    pub(super) fn ask_with_body(
        &mut self,
        request: &'static str,
        line: &str,
        body: &[u8],
        expected: &str,
    ) -> Result<String, LaunchError> {
        let link = self.link.as_mut().ok_or(LaunchError::Gone)?;
        link.send_with_body(line, body)?;
        let reply = link.receive()?;
        let parsed = Line::parse(&reply);
        if parsed.command() != expected {
            return Err(not_understood(request, &parsed));
        }
        if parsed.number::<i32>("rc").unwrap_or(0) != 0 {
            let reason =
                wire::tail(&reply, "msg").or_else(|| wire::tail(&reply, "reason")).unwrap_or("no reason given");
            return Err(LaunchError::Refused { request, reason: reason.to_string() });
        }
        Ok(reply)
    }

    /// Receives the next `length` bytes of the process manager.
    pub(super) fn receive_bytes(&mut self, length: usize) -> Result<Vec<u8>, LaunchError> {
        self.link.as_mut().ok_or(LaunchError::Gone)?.receive_bytes(length)
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.put_escaped(key, &wire::escape(value))
    }

    fn put_escaped(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        if key.len() > self.key_max {
            return Err(LaunchError::TooLong { what: "a key", length: key.len(), limit: self.key_max });
        }
        if value.len() > self.value_max {
            return Err(LaunchError::TooLong { what: "a value", length: value.len(), limit: self.value_max });
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.job);
        self.ask("put", &line, "put_result").map(drop)
    }

    pub(super) fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        Ok(self.get_escaped(key)?.map(|value| wire::unescape(&value).unwrap_or(value)))
    }

    fn get_escaped(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        let line = format!("cmd=get kvsname={} key={key}", self.job);
        match self.ask("get", &line, "get_result") {
            Ok(reply) => Ok(wire::tail(&reply, "value").map(str::to_string)),
            Err(LaunchError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits in a fence. A process that has said goodbye waits for nobody.
    pub(super) fn fence(&mut self) -> Result<(), LaunchError> {
        if self.link.is_none() {
            return Ok(());
        }
        self.ask("barrier_in", "cmd=barrier_in", "barrier_out").map(drop)
    }

    /// Reports that the job ends. Nothing is reported to a process manager that is gone.
    pub(super) fn abort(&mut self, line: &str) {
        if let Some(link) = self.link.as_mut() {
            let _ = link.send(line);
        }
    }

    /// Starts a new job. `is_weft`: the process manager is Weft's `mpiexec`, which gives a number to the job
    /// and a reason for each process that does not run.
    pub(super) fn spawn(
        &mut self,
        programs: &[SpawnProgram],
        port: &str,
        is_weft: bool,
    ) -> Result<Spawned, LaunchError> {
        let values = vec![(PARENT_PORT_KEY.to_owned(), wire::escape(port))];
        let directory = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        let spawn = Spawn { programs: programs.to_vec(), values, directory: directory.unwrap_or_default() };
        let text = spawn::text(&spawn, is_weft)?;
        let reply = self.ask_with_body("spawn", "mcmd=spawn", text.as_bytes(), "spawn_result")?;
        let (line, wanted) = (Line::parse(&reply), spawn.processes());
        let nonsense = || LaunchError::Protocol("the launcher's answer to a spawn makes no sense".into());
        let outcomes = if is_weft {
            let length = line.number("bytes").filter(|&bytes| bytes <= spawn::answer_bytes_max(wanted));
            let body = String::from_utf8(self.receive_bytes(length.ok_or_else(nonsense)?)?).map_err(|_| nonsense())?;
            spawn::outcomes(&body, wanted)
        } else {
            spawn::outcomes_of_codes(line.get("errcodes"), wanted)
        };
        Ok(Spawned { number: line.number("number").unwrap_or(0), outcomes: outcomes.ok_or_else(nonsense)? })
    }

    /// How a spawned job has ended. Only Weft's `mpiexec` can be asked.
    pub(super) fn spawned_end(&mut self, number: u32) -> Result<Option<String>, LaunchError> {
        let line = format!("cmd=weft_spawned_end number={number}");
        let reply = self.ask("weft_spawned_end", &line, "weft_spawned_end_result")?;
        Ok(Line::parse(&reply).get("how").and_then(wire::unescape))
    }

    pub(super) fn finalize(&mut self) -> Result<(), LaunchError> {
        if self.link.is_none() {
            return Ok(());
        }
        self.ask("finalize", "cmd=finalize", "finalize_ack").map(drop)
    }
}

impl Names for Conversation {
    fn publish(&mut self, service: &str, port: &str) -> Result<(), LaunchError> {
        let line = format!("cmd=publish_name service={} port={}", wire::escape(service), wire::escape(port));
        self.ask("publish_name", &line, "publish_result").map(drop)
    }

    fn look_up(&mut self, service: &str) -> Result<Option<String>, LaunchError> {
        let line = format!("cmd=lookup_name service={}", wire::escape(service));
        match self.ask("lookup_name", &line, "lookup_result") {
            Ok(reply) => Ok(Line::parse(&reply).get("port").and_then(wire::unescape)),
            Err(LaunchError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unpublish(&mut self, service: &str) -> Result<(), LaunchError> {
        let line = format!("cmd=unpublish_name service={}", wire::escape(service));
        self.ask("unpublish_name", &line, "unpublish_result").map(drop)
    }
}

/// The error when the process manager answered something else than the expected command. The text shows
/// nothing of the answer but its command, since the answer may hold the job's secret.
fn not_understood(request: &str, reply: &Line<'_>) -> LaunchError {
    LaunchError::Protocol(format!(
        "the launcher answered the request {request} with `{}`: do two programs of this rank talk to it at once, one started by the other?",
        wire::harmless(reply.command())
    ))
}

/// Escapes a card for sending, and checks its length.
pub(super) fn escaped_card(card: &str) -> Result<String, LaunchError> {
    let escaped = wire::escape(card);
    if escaped.len() > wire::CARD_MAX {
        return Err(LaunchError::TooLong { what: "a card", length: escaped.len(), limit: wire::CARD_MAX });
    }
    Ok(escaped)
}

/// Reads cards that [`escaped_card`] has escaped.
pub(super) fn unescaped_cards(cards: &[String]) -> Result<Vec<String>, LaunchError> {
    let unreadable = || LaunchError::Protocol("a card came back damaged".into());
    cards.iter().map(|card| wire::unescape(card).ok_or_else(unreadable)).collect()
}

/// A process manager that speaks PMI-1.1 and nothing else.
#[derive(Debug)]
pub(super) struct Pmi1 {
    talk: Conversation,
    rank: u32,
    size: u32,
    appnum: Option<i32>,
    universe_size: Option<i32>,
    exchanges: u32,
}

impl Pmi1 {
    /// Asks for the facts that a process needs first.
    ///
    /// # Errors
    /// The job has no name, or the process manager is gone.
    pub(super) fn meet(mut talk: Conversation, rank: u32, size: u32) -> Result<Self, LaunchError> {
        let reply = talk.ask("get_maxes", "cmd=get_maxes", "maxes")?;
        let line = Line::parse(&reply);
        talk.key_max = line.number("keylen_max").unwrap_or(talk.key_max).min(wire::KEY_MAX);
        talk.value_max = line.number("vallen_max").unwrap_or(talk.value_max);
        let reply = talk.ask("get_appnum", "cmd=get_appnum", "appnum")?;
        let appnum = Line::parse(&reply).number("appnum").filter(|&number: &i32| number >= 0);
        let reply = talk.ask("get_universe_size", "cmd=get_universe_size", "universe_size")?;
        let universe_size = Line::parse(&reply).number("size").filter(|&size: &i32| size > 0);
        let reply = talk.ask("get_my_kvsname", "cmd=get_my_kvsname", "my_kvsname")?;
        let name = Line::parse(&reply).get("kvsname").filter(|name| !name.is_empty()).map(str::to_string);
        talk.job = name.ok_or_else(|| LaunchError::Protocol("the launcher gave the job no name".into()))?;
        Ok(Self { talk, rank, size, appnum, universe_size, exchanges: 0 })
    }

    /// The card of `rank`. Its first value tells how many more values there are: `parts:text`.
    fn card_of(&mut self, rank: u32) -> Result<String, LaunchError> {
        let missing = || LaunchError::Protocol(format!("the launcher lost the card of rank {rank}"));
        let round = self.exchanges;
        let first = self.talk.get_escaped(&card_key(round, rank, 0))?.ok_or_else(missing)?;
        let (count, text) = first.split_once(':').ok_or_else(missing)?;
        let count: usize = count.parse().map_err(|_| missing())?;
        if count > wire::CARD_MAX {
            return Err(missing());
        }
        let mut card = text.to_string();
        for part in 1..count {
            card.push_str(&self.talk.get_escaped(&card_key(round, rank, part))?.ok_or_else(missing)?);
        }
        Ok(card)
    }
}

/// The key under which a part of a card is put.
fn card_key(round: u32, rank: u32, part: usize) -> String {
    format!("weft-{round}-{rank}-{part}")
}

impl ProcessManager for Pmi1 {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn appnum(&self) -> Option<i32> {
        self.appnum
    }

    fn universe_size(&self) -> Option<i32> {
        self.universe_size
    }

    fn job_name(&self) -> &str {
        &self.talk.job
    }

    fn secret(&self) -> Option<JobSecret> {
        None
    }

    fn local_ranks(&mut self) -> Option<Vec<u32>> {
        let mapping = self.talk.get("PMI_process_mapping").ok()??;
        let nodes = wire::parse_mapping(&mapping, self.size)?;
        let own = *nodes.get(self.rank as usize)?;
        Some((0..self.size).filter(|&rank| nodes[rank as usize] == own).collect())
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.talk.put(key, value)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        self.talk.get(key)
    }

    fn fence(&mut self) -> Result<(), LaunchError> {
        self.talk.fence()
    }

    /// Exchanges cards by put, fence and gets. A card is cut into as many values as it needs.
    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        const PARTS_DIGITS: usize = 8;
        let escaped = escaped_card(card)?;
        let chunk = self.talk.value_max.saturating_sub(PARTS_DIGITS).clamp(16, wire::VALUE_MAX);
        self.exchanges += 1;
        let (round, own, size) = (self.exchanges, self.rank, self.size);
        let parts: Vec<&str> = cut(&escaped, chunk);
        self.talk.put_escaped(&card_key(round, own, 0), &format!("{}:{}", parts.len(), parts[0]))?;
        for (part, text) in parts.iter().enumerate().skip(1) {
            self.talk.put_escaped(&card_key(round, own, part), text)?;
        }
        self.talk.fence()?;
        let card = |rank| if rank == own { Ok(escaped.clone()) } else { self.card_of(rank) };
        let cards: Vec<String> = (0..size).map(card).collect::<Result<_, _>>()?;
        unescaped_cards(&cards)
    }

    fn abort(&mut self, code: i32, message: &str) -> ! {
        crate::say(&format!("rank {} of {} ends the job with code {code}: {message}", self.rank, self.size));
        self.talk.abort(&format!("cmd=abort exitcode={code}"));
        exit_aborted(code)
    }

    fn finalize(&mut self) -> Result<(), LaunchError> {
        let result = self.talk.finalize();
        self.talk.link = None;
        result
    }

    fn can_come_back(&self) -> bool {
        self.talk.link.is_some()
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        if self.can_come_back() {
            return self.talk.init().map(drop);
        }
        Err(LaunchError::Protocol(
            "a process that has left its job can come back to it only under Weft's own mpiexec".into(),
        ))
    }

    fn spawn(&mut self, programs: &[SpawnProgram], port: &str) -> Result<Spawned, LaunchError> {
        self.talk.spawn(programs, port, false)
    }

    fn spawned_end(&mut self, _number: u32) -> Result<Option<String>, LaunchError> {
        Ok(None)
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        self.talk.get(PARENT_PORT_KEY)
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        Some(&mut self.talk)
    }

    fn notices(&mut self) -> Option<Notices> {
        None
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}

/// Cuts `text` into pieces of at most `length` bytes, at least one piece. The text is ASCII.
pub(super) fn cut(text: &str, length: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > length {
        let (part, more) = rest.split_at(length);
        parts.push(part);
        rest = more;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_understood_shows_no_secret() {
        let secret = "00112233445566778899aabbccddeeff";
        // The answer to a request of another program of the rank, whole and in pieces.
        let welcome = format!("cmd=weft_welcome rc=0 kvsname=weft-1 secret={secret} stats=0");
        for answer in [&welcome[..], &welcome[30..], &welcome[50..], secret] {
            let sentence = not_understood("init", &Line::parse(answer)).to_string();
            assert!(
                !secret.as_bytes().windows(4).any(|part| sentence.as_bytes().windows(4).any(|seen| seen == part)),
                "{sentence}"
            );
            assert!(sentence.contains("the request init with `"), "{sentence}");
        }
        assert!(not_understood("init", &Line::parse(&welcome)).to_string().contains("`weft_welcome`"));
    }

    #[test]
    fn cards_are_cut_and_never_vanish() {
        assert_eq!(cut("", 4), [""]);
        assert_eq!(cut("abcd", 4), ["abcd"]);
        assert_eq!(cut("abcde", 4), ["abcd", "e"]);
    }
}
