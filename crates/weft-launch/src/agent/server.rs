//! The process manager's side of PMI-1.1 for the ranks of one host: bytes of ranks come in, actions go out.
//! The agent carries out the actions.
//!
//! A value that a rank puts stays here until all ranks of the host have arrived at a barrier or exchange.
//! Then it travels to `mpiexec` with the report that they have arrived. `mpiexec` sends back what all ranks
//! of the job have put. So `get` never leaves the host. The cards of an exchange reach the ranks of a host in
//! memory that they share with the agent, and the reply says where.

use crate::control::{Answer, Gathered, NameRequest, Phase, Plan, Request};
use crate::spawn::{self, PARENT_PORT_KEY};
use crate::wire::{self, Line};
use std::collections::VecDeque;
use std::rc::Rc;
use weft_ordered::Map;

/// The most keys that a job may put.
const KEYS_MAX: usize = 1 << 20;
/// The longest message of an abort that is passed on, in bytes.
const MESSAGE_MAX: usize = 1024;

/// An action for the agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send these bytes to the rank `local_rank` of this host.
    Reply { local_rank: usize, bytes: Rc<[u8]> },
    /// All local ranks have arrived.
    Gathered { exchange: bool, gathered: Gathered },
    /// Ask the first `mpiexec` of the family.
    Request { local_rank: usize, request: Request },
    /// End the job.
    Abort { local_rank: usize, code: i32, message: String },
    /// Keep these statistics.
    Stats { text: String },
    /// End the job: this rank does not speak PMI-1.1.
    Violation { local_rank: usize, text: String },
}

/// The conversation with one rank.
struct Session {
    phase: Phase,
    /// The rank waits in an exchange, else in a barrier.
    exchange: bool,
    /// The rank reads the cards of the exchange from the memory that the ranks of its host share.
    reads_memory: bool,
    card: String,
    inbox: Vec<u8>,
    /// The bytes of statistics that follow the last line.
    body: usize,
    /// The request of several lines that the rank has begun.
    spawn: Option<spawn::Reading>,
    /// The spawn that the rank waits for was asked for by a client of Weft.
    is_spawn_escaped: bool,
    /// The rank is lost, and the others go on without it.
    is_lost: bool,
}

/// The server for the ranks of one host.
pub(crate) struct Server {
    job: String,
    welcome: String,
    status_fd: i32,
    ranks: Vec<u32>,
    appnums: Vec<u32>,
    universe: u32,
    sessions: Vec<Session>,
    values: Map<String, String>,
    puts: Vec<(String, String)>,
    actions: VecDeque<Action>,
}

impl Server {
    /// Makes the server for the ranks of `plan`. They find the board of their calls under descriptor
    /// `status_fd`.
    pub(crate) fn new(plan: &Plan, status_fd: i32) -> Self {
        let ranks: Vec<u32> = plan.ranks.iter().map(|&(rank, _)| rank).collect();
        let session = |_: &u32| Session {
            phase: Phase::Silent,
            exchange: false,
            reads_memory: false,
            card: String::new(),
            inbox: Vec::new(),
            body: 0,
            spawn: None,
            is_spawn_escaped: false,
            is_lost: false,
        };
        let mut values = Map::new();
        if !plan.mapping.is_empty() {
            values.insert("PMI_process_mapping".to_string(), plan.mapping.clone());
        }
        values.extend(plan.values.iter().cloned());
        let parent = plan.values.iter().find(|(key, _)| key == PARENT_PORT_KEY);
        let parent = parent.map_or_else(String::new, |(_, port)| format!(" parent_port={}", port.replace(' ', "%20")));
        Self {
            job: plan.job.clone(),
            welcome: format!(
                "cmd=weft_welcome rc=0 kvsname={} universe_size={} secret={} stats={} locals={}{parent}",
                plan.job,
                plan.universe,
                plan.secret.expose_hex(),
                u8::from(plan.stats),
                wire::format_ranks(&ranks)
            ),
            status_fd,
            sessions: ranks.iter().map(session).collect(),
            ranks,
            appnums: plan.ranks.iter().map(|&(_, program)| plan.programs[program as usize].number).collect(),
            universe: plan.universe,
            values,
            puts: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// The phase of the rank `local_rank`.
    pub(crate) fn phase(&self, local_rank: usize) -> Phase {
        self.sessions[local_rank].phase
    }

    /// Takes the next action.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Handles bytes from the rank `local_rank`.
    pub(crate) fn handle_bytes(&mut self, local_rank: usize, bytes: &[u8]) {
        self.sessions[local_rank].inbox.extend_from_slice(bytes);
        loop {
            let session = &mut self.sessions[local_rank];
            if session.body > 0 {
                if session.inbox.len() < session.body {
                    return;
                }
                let body: Vec<u8> = session.inbox.drain(..session.body).collect();
                session.body = 0;
                self.actions.push_back(Action::Stats { text: String::from_utf8_lossy(&body).into_owned() });
                self.reply(local_rank, "cmd=weft_stats_result rc=0");
                continue;
            }
            let Some(end) = session.inbox.iter().position(|&byte| byte == b'\n') else {
                if session.inbox.len() > wire::LINE_MAX {
                    session.inbox.clear();
                    self.violation(local_rank, format!("a line of more than {} bytes", wire::LINE_MAX));
                }
                return;
            };
            let line: Vec<u8> = session.inbox.drain(..=end).take(end).collect();
            match String::from_utf8(line) {
                Ok(text) => self.handle_line(local_rank, &text),
                Err(_) => self.violation(local_rank, "bytes that are not text".into()),
            }
        }
    }

    fn handle_line(&mut self, local_rank: usize, text: &str) {
        if self.read_spawn(local_rank, text) {
            return;
        }
        let line = Line::parse(text);
        match line.command() {
            "init" => self.init(local_rank, &line),
            "weft_hello" => self.hello(local_rank),
            "get_maxes" => {
                let (name, key, value) = (wire::NAME_MAX, wire::KEY_MAX, wire::VALUE_MAX);
                self.reply(
                    local_rank,
                    &format!("cmd=maxes rc=0 kvsname_max={name} keylen_max={key} vallen_max={value}"),
                );
            }
            "get_appnum" => {
                let appnum = self.appnums[local_rank];
                self.reply(local_rank, &format!("cmd=appnum rc=0 appnum={appnum}"));
            }
            "get_universe_size" => {
                let universe = self.universe;
                self.reply(local_rank, &format!("cmd=universe_size rc=0 size={universe}"));
            }
            "get_my_kvsname" => {
                let reply = format!("cmd=my_kvsname rc=0 kvsname={}", self.job);
                self.reply(local_rank, &reply);
            }
            "put" => self.put(local_rank, text, &line),
            "get" => self.get(local_rank, &line),
            "getbyidx" => self.get_by_index(local_rank, &line),
            "barrier_in" => self.arrive(local_rank, false, String::new()),
            "weft_exchange" => self.exchange(local_rank, &line),
            "weft_stats" => self.stats(local_rank, &line),
            "publish_name" | "lookup_name" | "unpublish_name" => self.name(local_rank, &line),
            "abort" => self.abort(local_rank, text, &line),
            "finalize" => {
                self.sessions[local_rank].phase = Phase::Finalized;
                self.reply(local_rank, "cmd=finalize_ack rc=0");
            }
            "weft_spawned_end" => match line.number("number") {
                Some(number) => self.request(local_rank, Request::SpawnedEnd(number)),
                None => self.violation(local_rank, "a question about a job without a number".into()),
            },
            command => {
                // The rest of the line may be secret.
                let word =
                    if command.is_empty() { text.split_whitespace().next().unwrap_or_default() } else { command };
                self.violation(local_rank, wire::harmless(word).to_owned());
            }
        }
    }

    fn init(&mut self, local_rank: usize, line: &Line<'_>) {
        if line.get("pmi_version") == Some("1") {
            // A program may follow another program in the same rank (a shell script), so a rank may join
            // anew.
            self.sessions[local_rank].phase = Phase::Joined;
            self.reply(local_rank, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1 weft=1");
        } else {
            self.reply(local_rank, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1");
        }
    }

    fn hello(&mut self, local_rank: usize) {
        let (appnum, local_size, fd) = (self.appnums[local_rank], self.sessions.len(), self.status_fd);
        let reply = format!("{} appnum={appnum} status_fd={fd} slot={local_rank} slots={local_size}", self.welcome);
        self.reply(local_rank, &reply);
    }

    fn put(&mut self, local_rank: usize, text: &str, line: &Line<'_>) {
        let (key, value) = (line.get("key").unwrap_or(""), wire::tail(text, "value").unwrap_or(""));
        if key.is_empty() || key.len() > wire::KEY_MAX || value.len() > wire::VALUE_MAX {
            return self.reply(local_rank, "cmd=put_result rc=-1 msg=key_or_value_too_long");
        }
        // A key may be put many times before it travels.
        if self.values.len() >= KEYS_MAX || self.puts.len() >= KEYS_MAX {
            return self.reply(local_rank, "cmd=put_result rc=-1 msg=too_many_keys");
        }
        self.values.insert(key.to_string(), value.to_string());
        self.puts.push((key.to_string(), value.to_string()));
        self.reply(local_rank, "cmd=put_result rc=0 msg=success");
    }

    fn get(&mut self, local_rank: usize, line: &Line<'_>) {
        let reply = match line.get("key").and_then(|key| self.values.get(key)) {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_string(),
        };
        self.reply(local_rank, &reply);
    }

    fn get_by_index(&mut self, local_rank: usize, line: &Line<'_>) {
        let found =
            line.number::<usize>("idx").and_then(|index| self.values.iter().nth(index).map(|pair| (index, pair)));
        let reply = match found {
            Some((index, (key, value))) => {
                format!("cmd=getbyidx_results rc=0 nextidx={} key={key} val={value}", index + 1)
            }
            None => "cmd=getbyidx_results rc=-2 reason=no_more_keyvals".to_string(),
        };
        self.reply(local_rank, &reply);
    }

    fn exchange(&mut self, local_rank: usize, line: &Line<'_>) {
        let card = line.get("value").unwrap_or("");
        if card.len() > wire::CARD_MAX {
            return self.violation(local_rank, format!("a card of {} bytes", card.len()));
        }
        self.sessions[local_rank].reads_memory = line.get("memory") == Some("1");
        self.arrive(local_rank, true, card.to_string());
    }

    /// Notes that a rank waits for the others. When it is the last rank of this host, the whole host has
    /// arrived.
    fn arrive(&mut self, local_rank: usize, exchange: bool, card: String) {
        let session = &mut self.sessions[local_rank];
        session.phase = Phase::Waiting;
        session.exchange = exchange;
        session.card = card;
        self.gather_if_all_arrived(exchange);
    }

    /// Goes on without the rank `local_rank`: a barrier waits for it no more. An exchange cannot do without
    /// its card.
    pub(crate) fn handle_loss(&mut self, local_rank: usize) {
        self.sessions[local_rank].is_lost = true;
        let mut waiting = self.sessions.iter().filter(|session| !session.is_lost && session.phase == Phase::Waiting);
        if waiting.next().is_some_and(|session| !session.exchange) {
            self.gather_if_all_arrived(false);
        }
    }

    fn gather_if_all_arrived(&mut self, exchange: bool) {
        let is_awaited = |session: &Session| !session.is_lost || exchange;
        if self.sessions.iter().any(|session| is_awaited(session) && session.phase != Phase::Waiting) {
            return;
        }
        let differs = |session: &Session| is_awaited(session) && session.exchange != exchange;
        if let Some(other) = self.sessions.iter().position(differs) {
            return self.violation(other, "some ranks are in a barrier and others in an exchange".into());
        }
        let cards = self.sessions.iter_mut().map(|session| std::mem::take(&mut session.card));
        let cards = if exchange { self.ranks.iter().copied().zip(cards).collect() } else { Vec::new() };
        let gathered = Gathered { puts: std::mem::take(&mut self.puts), cards };
        self.actions.push_back(Action::Gathered { exchange, gathered });
    }

    /// Handles the news that all hosts have arrived, with everything that they brought. `store` writes the
    /// cards, a line each, into the memory that the ranks of this host share, and returns at which byte;
    /// `None`: there is no such memory. Cards in a reply would cost bytes that grow with the square of the
    /// ranks, all written by this one process.
    pub(crate) fn handle_gathered(&mut self, mut gathered: Gathered, store: impl FnOnce(&[u8]) -> Option<u64>) {
        self.values.extend(gathered.puts);
        gathered.cards.sort_unstable_by_key(|&(rank, _)| rank);
        let waits = |session: &&Session| session.phase == Phase::Waiting && !session.is_lost;
        let exchange = self.sessions.iter().filter(waits).any(|session| session.exchange);
        let (alone, stored): (Rc<[u8]>, Option<Rc<[u8]>>) = if exchange {
            let body: String = gathered.cards.iter().flat_map(|(_, card)| [card.as_str(), "\n"]).collect();
            let head = format!("cmd=weft_exchanged rc=0 bytes={}", body.len());
            let is_wanted = self.sessions.iter().filter(waits).any(|session| session.reads_memory);
            let at = is_wanted.then(|| store(body.as_bytes())).flatten();
            let stored = at.map(|at| format!("{head} at={at}\n").into_bytes().into());
            (format!("{head}\n{body}").into_bytes().into(), stored)
        } else {
            (b"cmd=barrier_out rc=0\n"[..].into(), None)
        };
        for (local_rank, session) in self.sessions.iter_mut().enumerate() {
            if session.phase == Phase::Waiting && !session.is_lost {
                session.phase = Phase::Joined;
                let bytes = stored.as_ref().filter(|_| session.reads_memory).unwrap_or(&alone);
                self.actions.push_back(Action::Reply { local_rank, bytes: Rc::clone(bytes) });
            }
        }
    }

    fn stats(&mut self, local_rank: usize, line: &Line<'_>) {
        match line.number::<usize>("bytes") {
            Some(0) => self.reply(local_rank, "cmd=weft_stats_result rc=0"),
            Some(bytes) if bytes <= wire::STATS_MAX => self.sessions[local_rank].body = bytes,
            _ => self.violation(local_rank, "statistics without end".into()),
        }
    }

    fn name(&mut self, local_rank: usize, line: &Line<'_>) {
        let text = |key| line.get(key).map(str::to_string).filter(|text| !text.is_empty());
        let request = match (line.command(), text("service"), text("port")) {
            ("publish_name", Some(service), Some(port)) => NameRequest::Publish { service, port },
            ("lookup_name", Some(service), _) => NameRequest::Lookup { service },
            ("unpublish_name", Some(service), _) => NameRequest::Unpublish { service },
            _ => return self.violation(local_rank, "a name request without a name".into()),
        };
        self.request(local_rank, Request::Name(request));
    }

    fn request(&mut self, local_rank: usize, request: Request) {
        self.actions.push_back(Action::Request { local_rank, request });
    }

    /// Takes a line of a request to spawn. Returns whether it is one.
    fn read_spawn(&mut self, local_rank: usize, text: &str) -> bool {
        let session = &mut self.sessions[local_rank];
        if spawn::begins(text) {
            session.spawn.get_or_insert_default().begin();
            return true;
        }
        let Some(reading) = session.spawn.as_mut().filter(|reading| reading.is_open()) else { return false };
        match reading.take(text) {
            Ok(None) => {}
            Ok(Some(spawn)) => {
                session.is_spawn_escaped = reading.is_escaped;
                session.spawn = None;
                self.request(local_rank, Request::Spawn(spawn));
            }
            Err(why) => {
                session.spawn = None;
                self.violation(local_rank, why);
            }
        }
        true
    }

    /// Passes the answer to its request on to the rank `local_rank`.
    pub(crate) fn handle_answer(&mut self, local_rank: usize, answer: &Answer) {
        let reply = match answer {
            Answer::Name { command, answer: Ok(port) } if port.is_empty() => {
                format!("cmd={command}_result info=ok rc=0 msg=success\n")
            }
            Answer::Name { command, answer: Ok(port) } => format!("cmd={command}_result info=ok rc=0 port={port}\n"),
            Answer::Name { command, answer: Err(reason) } => {
                format!("cmd={command}_result info=fail rc=-1 msg={}\n", reason.replace(' ', "_"))
            }
            Answer::Spawned(spawned) => spawn::answer(spawned, self.sessions[local_rank].is_spawn_escaped),
            Answer::SpawnedEnd(None) => "cmd=weft_spawned_end_result rc=0 ended=0\n".into(),
            Answer::SpawnedEnd(Some(how)) => {
                format!("cmd=weft_spawned_end_result rc=0 ended=1 how={}\n", wire::escape(how))
            }
        };
        self.actions.push_back(Action::Reply { local_rank, bytes: reply.into_bytes().into() });
    }

    fn abort(&mut self, local_rank: usize, text: &str, line: &Line<'_>) {
        let code = line.number("exitcode").unwrap_or(1);
        let message = line.get("escaped").and_then(wire::unescape);
        let message = message.or_else(|| wire::tail(text, "message").map(str::to_string)).unwrap_or_default();
        let message = message.chars().take(MESSAGE_MAX).collect();
        self.actions.push_back(Action::Abort { local_rank, code, message });
    }

    fn violation(&mut self, local_rank: usize, text: String) {
        self.actions.push_back(Action::Violation { local_rank, text });
    }

    fn reply(&mut self, local_rank: usize, line: &str) {
        let bytes = format!("{line}\n").into_bytes().into();
        self.actions.push_back(Action::Reply { local_rank, bytes });
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
