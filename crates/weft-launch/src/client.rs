//! The library side: what an MPI process asks the launcher that started it.

use crate::call_site::Board;
use crate::detect::{self, Found};
use crate::link::Link;
use crate::wire::{self, Line};
use crate::{JobSecret, LaunchError, sys};
use std::collections::BTreeMap;

/// How this process came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Started without a launcher: a job of one process (MPI-5.0 §11.10.5, singleton init).
    Singleton,
    /// Started by a launcher that speaks PMI-1.1.
    Pmi1,
}

/// One process's connection to the launcher of its job.
///
/// Requests block until the launcher answers; a launcher that is gone ends every request with
/// [`LaunchError::Gone`], so nothing blocks for ever. Keys are put once; a `get` sees what was put before the last
/// [`barrier`](Self::barrier) (or [`exchange`](Self::exchange)).
#[derive(Debug)]
pub struct Client {
    link: Option<Link>,
    origin: Origin,
    rank: u32,
    size: u32,
    appnum: Option<i32>,
    universe_size: Option<i32>,
    job: String,
    limits: Limits,
    /// What Weft's own `mpiexec` offers beyond PMI-1.1.
    weft: Option<Weft>,
    secret: Option<JobSecret>,
    exchanges: u32,
    alone: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    key: usize,
    value: usize,
}

struct Weft {
    stats: bool,
    locals: Vec<u32>,
    board: Option<(Board, usize)>,
}

impl std::fmt::Debug for Weft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weft").field("stats", &self.stats).field("locals", &self.locals).finish_non_exhaustive()
    }
}

/// The launcher answered something else than what was asked for. Nothing of the answer is shown but its command: it may hold the job's secret.
fn not_understood(request: &str, reply: &Line<'_>) -> LaunchError {
    LaunchError::Protocol(format!(
        "the launcher answered the request {request} with `{}`: do two programs of this rank talk to it at once, one started by the other?",
        wire::harmless(reply.command())
    ))
}

impl Client {
    /// Joins the job that the environment describes: PMI-1.1 over `PMI_FD` or over `PMI_PORT`, else a singleton.
    ///
    /// # Errors
    /// A launcher of several tasks is seen that offers no PMI-1.1, its variables make no sense, or it does not answer.
    pub fn from_environment() -> Result<Self, LaunchError> {
        match detect::look(&|name| std::env::var(name).ok())? {
            Found::Nothing => Self::singleton(),
            Found::Descriptor { fd, rank, size } => Self::joined(Link::inherit(fd)?, rank, size),
            Found::Port { address, id } => {
                let (link, rank, size) = Link::connect(&address, &id)?;
                Self::joined(link, rank, size)
            }
        }
    }

    fn singleton() -> Result<Self, LaunchError> {
        let no_random = |error: std::io::Error| LaunchError::Environment(format!("no random numbers: {error}"));
        let mut random = [0; 8];
        sys::random(&mut random).map_err(no_random)?;
        let secret = JobSecret::filled(sys::random).map_err(no_random)?;
        Ok(Self {
            link: None,
            origin: Origin::Singleton,
            rank: 0,
            size: 1,
            appnum: None,
            universe_size: None,
            job: format!("weft-{}-{}", std::process::id(), wire::to_hex(&random)),
            limits: Limits { key: wire::KEY_MAX, value: wire::VALUE_MAX },
            weft: None,
            secret: Some(secret),
            exchanges: 0,
            alone: BTreeMap::new(),
        })
    }

    fn joined(link: Link, rank: u32, size: u32) -> Result<Self, LaunchError> {
        let mut client = Self {
            link: Some(link),
            origin: Origin::Pmi1,
            rank,
            size,
            appnum: None,
            universe_size: None,
            job: String::new(),
            limits: Limits { key: wire::KEY_MAX, value: wire::VALUE_MAX },
            weft: None,
            secret: None,
            exchanges: 0,
            alone: BTreeMap::new(),
        };
        let reply = client.ask("init", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        if Line::parse(&reply).get("weft") == Some("1") {
            client.meet_weft()?
        } else {
            client.meet_pmi1()?
        }
        Ok(client)
    }

    /// One request tells everything that plain PMI-1.1 needs four for, and more.
    fn meet_weft(&mut self) -> Result<(), LaunchError> {
        let reply = self.ask("weft_hello", "cmd=weft_hello", "weft_welcome")?;
        let line = Line::parse(&reply);
        let bad = |what| LaunchError::Protocol(format!("the launcher's welcome has no usable {what}"));
        self.job = line.get("kvsname").ok_or_else(|| bad("kvsname"))?.to_string();
        self.appnum = line.number("appnum");
        self.universe_size = line.number("universe_size");
        self.secret = line.get("secret").and_then(JobSecret::from_hex);
        let locals = line.get("locals").and_then(|text| wire::parse_ranks(text, self.size));
        let board = match (line.number("status_fd"), line.number("slot"), line.number::<usize>("slots")) {
            (Some(fd), Some(slot), Some(slots)) if slot < slots => {
                sys::adopt(fd).and_then(|file| Board::map(&file, slots)).ok().map(|board| (board, slot))
            }
            _ => None,
        };
        if let Some((board, slot)) = &board {
            board.use_slot(*slot);
        }
        self.weft = Some(Weft {
            stats: line.get("stats") == Some("1"),
            locals: locals.ok_or_else(|| bad("list of local ranks"))?,
            board,
        });
        Ok(())
    }

    fn meet_pmi1(&mut self) -> Result<(), LaunchError> {
        let reply = self.ask("get_maxes", "cmd=get_maxes", "maxes")?;
        let line = Line::parse(&reply);
        self.limits.key = line.number("keylen_max").unwrap_or(self.limits.key);
        self.limits.value = line.number("vallen_max").unwrap_or(self.limits.value);
        let reply = self.ask("get_appnum", "cmd=get_appnum", "appnum")?;
        self.appnum = Line::parse(&reply).number("appnum").filter(|&number: &i32| number >= 0);
        let reply = self.ask("get_universe_size", "cmd=get_universe_size", "universe_size")?;
        self.universe_size = Line::parse(&reply).number("size").filter(|&size: &i32| size > 0);
        let reply = self.ask("get_my_kvsname", "cmd=get_my_kvsname", "my_kvsname")?;
        let name = Line::parse(&reply).get("kvsname").filter(|name| !name.is_empty()).map(str::to_string);
        self.job = name.ok_or_else(|| LaunchError::Protocol("the launcher gave the job no name".into()))?;
        Ok(())
    }

    /// Sends one request and returns the reply, which must be the command `expected` without a failing `rc`.
    fn ask(&mut self, request: &'static str, line: &str, expected: &str) -> Result<String, LaunchError> {
        let link = self.link.as_mut().ok_or(LaunchError::Gone)?;
        link.send(line)?;
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

    /// How the process was started.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// This process's rank in `MPI_COMM_WORLD`.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the job has.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// `MPI_APPNUM` (MPI-5.0 §11.10.3): which of several programs of one command line this is.
    pub fn appnum(&self) -> Option<i32> {
        self.appnum
    }

    /// `MPI_UNIVERSE_SIZE` (MPI-5.0 §11.10.1), when the launcher says it.
    pub fn universe_size(&self) -> Option<i32> {
        self.universe_size
    }

    /// The name of the job, the same in all its processes. Unguessable with Weft's `mpiexec` and for a singleton;
    /// other launchers may use short names that repeat.
    pub fn job_name(&self) -> &str {
        &self.job
    }

    /// Sixteen random bytes that only the processes of the job know, from Weft's own `mpiexec` or made here for a
    /// singleton. `None`: another launcher; rank 0 makes them and spreads them by [`exchange`](Self::exchange).
    pub fn secret(&self) -> Option<JobSecret> {
        self.secret
    }

    /// The ranks that the launcher started on this process's host, this one included, in order; `None` when it does
    /// not say. A hint: whether memory can be shared is another question.
    pub fn local_ranks(&mut self) -> Option<Vec<u32>> {
        if let Some(weft) = &self.weft {
            return Some(weft.locals.clone());
        }
        if self.link.is_none() {
            return Some(vec![0]);
        }
        let mapping = self.get("PMI_process_mapping").ok()??;
        let nodes = wire::parse_mapping(&mapping, self.size)?;
        let own = *nodes.get(self.rank as usize)?;
        Some((0..self.size).filter(|&rank| nodes[rank as usize] == own).collect())
    }

    /// Gives every rank's card to every rank: the cards in order of ranks. Collective. One round trip with Weft's
    /// own `mpiexec`; with others put, barrier and gets, a card cut into as many values as it needs.
    ///
    /// # Errors
    /// The launcher is gone or refuses; a card is longer than [`wire::CARD_MAX`] after escaping.
    pub fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        let escaped = wire::escape(card);
        if escaped.len() > wire::CARD_MAX {
            return Err(LaunchError::TooLong { what: "a card", length: escaped.len(), limit: wire::CARD_MAX });
        }
        if self.link.is_none() {
            return Ok(vec![card.to_string()]);
        }
        self.exchanges += 1;
        let cards =
            if self.weft.is_some() { self.exchange_at_once(&escaped)? } else { self.exchange_by_keys(&escaped)? };
        let unreadable = || LaunchError::Protocol("a card came back damaged".into());
        cards.iter().map(|card| wire::unescape(card).ok_or_else(unreadable)).collect()
    }

    fn exchange_at_once(&mut self, escaped: &str) -> Result<Vec<String>, LaunchError> {
        let reply = self.ask("weft_exchange", &format!("cmd=weft_exchange value={escaped}"), "weft_exchanged")?;
        let limit = self.size as usize * (wire::CARD_MAX + 1);
        let length: usize = Line::parse(&reply).number("bytes").unwrap_or(usize::MAX);
        if length > limit {
            return Err(LaunchError::Protocol(format!("the launcher announced an exchange of {length} bytes")));
        }
        let body = self.link.as_mut().ok_or(LaunchError::Gone)?.receive_bytes(length)?;
        let body = String::from_utf8(body).map_err(|_| LaunchError::Protocol("an exchange is not text".into()))?;
        let cards: Vec<String> = body.lines().map(str::to_string).collect();
        if cards.len() != self.size as usize {
            return Err(LaunchError::Protocol(format!("an exchange brought {} cards of {}", cards.len(), self.size)));
        }
        Ok(cards)
    }

    /// The first value of a card tells how many more there are: `parts:text`.
    fn exchange_by_keys(&mut self, escaped: &str) -> Result<Vec<String>, LaunchError> {
        const PARTS_DIGITS: usize = 8;
        let chunk = self.limits.value.saturating_sub(PARTS_DIGITS).clamp(16, wire::VALUE_MAX);
        let parts: Vec<&str> = cut(escaped, chunk);
        let round = self.exchanges;
        let key = |rank: u32, part: usize| format!("weft-{round}-{rank}-{part}");
        self.put_raw(&key(self.rank, 0), &format!("{}:{}", parts.len(), parts[0]))?;
        for (part, text) in parts.iter().enumerate().skip(1) {
            self.put_raw(&key(self.rank, part), text)?;
        }
        self.barrier()?;
        let mut cards = Vec::with_capacity(self.size as usize);
        for rank in 0..self.size {
            if rank == self.rank {
                cards.push(escaped.to_string());
                continue;
            }
            let missing = || LaunchError::Protocol(format!("the launcher lost the card of rank {rank}"));
            let first = self.get_raw(&key(rank, 0))?.ok_or_else(missing)?;
            let (count, text) = first.split_once(':').ok_or_else(missing)?;
            let count: usize = count.parse().map_err(|_| missing())?;
            if count > wire::CARD_MAX {
                return Err(missing());
            }
            let mut card = text.to_string();
            for part in 1..count {
                card.push_str(&self.get_raw(&key(rank, part))?.ok_or_else(missing)?);
            }
            cards.push(card);
        }
        Ok(cards)
    }

    /// Waits until every process of the job is here. Collective.
    ///
    /// # Errors
    /// The launcher is gone or refuses.
    pub fn barrier(&mut self) -> Result<(), LaunchError> {
        if self.link.is_none() {
            return Ok(());
        }
        self.ask("barrier_in", "cmd=barrier_in", "barrier_out").map(drop)
    }

    /// Stores a value under a key of the job, to be seen by the others after the next barrier.
    ///
    /// # Errors
    /// The key or the escaped value is too long, the key exists, or the launcher is gone.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.put_raw(key, &wire::escape(value))
    }

    fn put_raw(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        let limit = self.limits.key.min(wire::KEY_MAX);
        if key.len() > limit {
            return Err(LaunchError::TooLong { what: "a key", length: key.len(), limit });
        }
        if value.len() > self.limits.value {
            return Err(LaunchError::TooLong { what: "a value", length: value.len(), limit: self.limits.value });
        }
        if self.link.is_none() {
            self.alone.insert(key.to_string(), value.to_string());
            return Ok(());
        }
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.job);
        self.ask("put", &line, "put_result").map(drop)
    }

    /// The value under a key; `None` when nobody has put it before the last barrier.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        Ok(self.get_raw(key)?.map(|value| wire::unescape(&value).unwrap_or(value)))
    }

    fn get_raw(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        if self.link.is_none() {
            return Ok(self.alone.get(key).cloned());
        }
        let line = format!("cmd=get kvsname={} key={key}", self.job);
        match self.ask("get", &line, "get_result") {
            Ok(reply) => Ok(wire::tail(&reply, "value").map(str::to_string)),
            Err(LaunchError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a port known under a service name to all jobs of this launcher (MPI-5.0 §11.9.4).
    ///
    /// # Errors
    /// The name is taken, there is no launcher, or it is gone.
    pub fn publish_name(&mut self, service: &str, port: &str) -> Result<(), LaunchError> {
        let line = format!("cmd=publish_name service={} port={}", wire::escape(service), wire::escape(port));
        self.ask("publish_name", &line, "publish_result").map(drop)
    }

    /// The port published under a service name; `None` when there is none.
    ///
    /// # Errors
    /// There is no launcher, or it is gone.
    pub fn lookup_name(&mut self, service: &str) -> Result<Option<String>, LaunchError> {
        let line = format!("cmd=lookup_name service={}", wire::escape(service));
        match self.ask("lookup_name", &line, "lookup_result") {
            Ok(reply) => Ok(Line::parse(&reply).get("port").and_then(wire::unescape)),
            Err(LaunchError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Withdraws a published service name.
    ///
    /// # Errors
    /// The name is not published, there is no launcher, or it is gone.
    pub fn unpublish_name(&mut self, service: &str) -> Result<(), LaunchError> {
        let line = format!("cmd=unpublish_name service={}", wire::escape(service));
        self.ask("unpublish_name", &line, "unpublish_result").map(drop)
    }

    /// Tells the launcher what the numbers of [`CallSite::set`](crate::CallSite::set) mean: `names[number]`. Until
    /// this was called, the launcher takes the process for one that has not reached `MPI_Init`.
    pub fn name_calls(&self, names: &[&str]) {
        if let Some((board, slot)) = self.weft.as_ref().and_then(|weft| weft.board.as_ref()) {
            board.name_calls(*slot, names);
        }
    }

    /// Whether the user asked the launcher for statistics at the end of the job.
    pub fn wants_stats(&self) -> bool {
        self.weft.as_ref().is_some_and(|weft| weft.stats)
    }

    /// Hands the launcher this process's statistics: lines `from to link messages bytes resends`, ranks and counts
    /// as decimal numbers, the name of the link without blanks. It adds up lines of the same pair and link. Nothing
    /// happens unless [`wants_stats`](Self::wants_stats).
    ///
    /// # Errors
    /// The text is longer than [`wire::STATS_MAX`], or the launcher is gone.
    pub fn report_stats(&mut self, lines: &str) -> Result<(), LaunchError> {
        if !self.wants_stats() {
            return Ok(());
        }
        if lines.len() > wire::STATS_MAX {
            return Err(LaunchError::TooLong { what: "the statistics", length: lines.len(), limit: wire::STATS_MAX });
        }
        let link = self.link.as_mut().ok_or(LaunchError::Gone)?;
        link.send_with_body(&format!("cmd=weft_stats bytes={}", lines.len()), lines.as_bytes())?;
        let reply = link.receive()?;
        match Line::parse(&reply).command() {
            "weft_stats_result" => Ok(()),
            _ => Err(not_understood("weft_stats", &Line::parse(&reply))),
        }
    }

    /// Ends the whole job (MPI-5.0 §9.3, `MPI_Abort`): tells the launcher, then exits with `code`, C's exit handlers
    /// included. The message is part of the launcher's one-line cause, or goes to standard error when the launcher
    /// is not Weft's.
    pub fn abort(&mut self, code: i32, message: &str) -> ! {
        if self.weft.is_none() {
            crate::say(&format!("rank {} of {} ends the job with code {code}: {message}", self.rank, self.size));
        }
        if let Some(link) = self.link.as_mut() {
            let line = if self.weft.is_some() {
                let mut text = wire::escape(message);
                text.truncate(wire::CARD_MAX);
                format!("cmd=abort exitcode={code} escaped={text}")
            } else {
                format!("cmd=abort exitcode={code}")
            };
            // A launcher that is gone has nothing to be told.
            let _ = link.send(&line);
        }
        let status = if code != 0 && code & 0xff == 0 { 1 } else { code };
        sys::exit_as_c(status)
    }

    /// Says goodbye to the launcher: from now on this process may exit without being missed. Weft's own `mpiexec` lets it
    /// [come back](Self::come_back); with others later requests fail.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn finalize(&mut self) -> Result<(), LaunchError> {
        if self.link.is_none() {
            return Ok(());
        }
        let result = self.ask("finalize", "cmd=finalize", "finalize_ack").map(drop);
        if self.weft.is_none() {
            self.link = None;
        }
        result
    }

    /// Whether the launcher still listens, or there has never been one.
    pub fn can_come_back(&self) -> bool {
        self.link.is_some() || self.origin == Origin::Singleton
    }

    /// Takes the goodbye back: this process is one of the job again, and missed if it exits.
    ///
    /// # Errors
    /// The launcher is gone, or one of those that know no coming back.
    pub fn come_back(&mut self) -> Result<(), LaunchError> {
        match (&self.link, self.origin()) {
            (Some(_), _) => self.ask("init", "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init").map(drop),
            (None, Origin::Singleton) => Ok(()),
            (None, Origin::Pmi1) => Err(LaunchError::Protocol(
                "a process that has left its job can come back to it only under Weft's own mpiexec".into(),
            )),
        }
    }
}

/// `text` in pieces of at most `length` bytes, at least one. The text is ASCII.
fn cut(text: &str, length: usize) -> Vec<&str> {
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
    fn a_singleton_exchanges_with_itself() {
        let mut client = Client::singleton().expect("random numbers");
        assert_eq!((client.rank(), client.size(), client.origin()), (0, 1, Origin::Singleton));
        assert_eq!(client.exchange("a card = 1").expect("alone"), ["a card = 1"]);
        client.put("key", "a value").expect("alone");
        client.barrier().expect("alone");
        assert_eq!(client.get("key").expect("alone").as_deref(), Some("a value"));
        assert_eq!(client.get("other").expect("alone"), None);
        assert!(client.secret().is_some());
        assert_eq!(client.local_ranks(), Some(vec![0]));
        client.finalize().expect("alone");
        let other = Client::singleton().expect("random numbers");
        assert_ne!(other.job_name(), client.job_name());
    }

    #[test]
    fn an_answer_that_is_not_understood_shows_no_secret() {
        let secret = "00112233445566778899aabbccddeeff";
        // What another program of the rank has asked for, whole and in pieces.
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
        let client = Client::singleton().expect("random numbers");
        let secret = client.secret().expect("its own").expose_hex();
        assert!(!format!("{client:?}").contains(&secret), "Debug shows the secret");
        let plan = crate::foreign::plan();
        assert!(!format!("{plan:?}").contains(&format!("{:?}", plan.secret.expose())), "Debug shows the secret");
    }

    #[test]
    fn cards_are_cut_and_never_vanish() {
        assert_eq!(cut("", 4), [""]);
        assert_eq!(cut("abcd", 4), ["abcd"]);
        assert_eq!(cut("abcde", 4), ["abcd", "e"]);
    }
}
