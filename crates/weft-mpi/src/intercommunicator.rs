//! Brings together two groups of processes that have no communicator in common (MPI-5.0 §7.6.2). The
//! boundary's MPI_Intercomm_create and constructors from groups call it.
//!
//! The two leaders tell each other the members of their groups, and then tell their own groups. From there on
//! all processes of both groups agree on a context as those of a communicator do. Their messages are in a
//! context that is made of what both leaders know.

use std::sync::Arc;

use weft_core::matching::Envelope;
use weft_core::process::{JobId, ProcessName};

use crate::blocking::exchange;
use crate::collective::CollectiveScope;
use crate::communicator::{Creation, broadcast, open_creation};
use crate::constants::{MPI_ERR_COMM, MPI_ERR_GROUP, MPI_ERR_OTHER, MPI_ERR_RANK, MPI_ERR_TAG};
use crate::context;
use crate::error::{Error, ErrorClass, Result, internal};
use crate::memory::{SharedBuffer, UserData};
use crate::object::{Group, PeerId};
use crate::process::{Process, lock, with};
use crate::request::{Mode, Receive, Send};

/// The way from the leader of a group to the other leader (MPI-5.0 §7.6.2, `MPI_Intercomm_create`).
#[derive(Clone, Copy, Debug)]
pub struct Bridge {
    /// A communicator that has both leaders.
    pub communicator: usize,
    /// The rank of the other leader in that communicator.
    pub remote_leader: i32,
    /// The tag, which tells this meeting from others.
    pub tag: i32,
}

/// The value that a leader sends when its group does not meet the other one.
const NO_GROUP: i64 = -1;

/// Two groups that have come together.
pub struct Meeting {
    /// The scope in which all processes of both groups can agree.
    pub scope: CollectiveScope,
    /// The other group.
    pub remote: Arc<Group>,
    /// The group of this process is the first of the two.
    pub is_first: bool,
}

/// The message from a leader to its group.
pub(crate) struct News {
    remote: Vec<ProcessName>,
    pub(crate) context: u32,
    tag: i32,
    is_first: bool,
}

impl Process {
    /// The names by which all processes know `members`.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: a process of the group is gone.
    pub fn names(&mut self, members: &[PeerId]) -> Result<Vec<ProcessName>> {
        let engine = self.engine()?;
        let gone = || Error::new(MPI_ERR_GROUP, "a process of the group is gone");
        members.iter().map(|member| engine.name_of(*member).ok_or_else(gone)).collect()
    }

    /// The processes with these names, as peers of this one.
    fn members(&mut self, names: &[ProcessName]) -> Result<Vec<PeerId>> {
        let engine = self.engine()?;
        let unknown = || internal("the other leader named a process that is unknown here");
        names.iter().map(|name| engine.find_process(*name).ok_or_else(unknown)).collect()
    }

    /// Forgets the queues of a context in which two groups have met: each meeting has a context of its own.
    /// Other contexts stay.
    pub fn end_context(&mut self, context: u32) {
        if let Some(engine) = self.engine.as_deref_mut().filter(|_| context::is_named(context)) {
            engine.messages.release_contexts(context..context + 1);
        }
    }

    /// The scope in which the processes of `group`, which have nothing in common but `name`, can agree.
    /// Errors go to `communicator`.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: this process is not in the group.
    pub fn named_scope(&mut self, name: &[u8], group: &Arc<Group>, communicator: usize) -> Result<CollectiveScope> {
        let stranger = || Error::new(MPI_ERR_GROUP, "this process is not in the group");
        let rank = group.rank.ok_or_else(stranger)?;
        let (context, tag) = context::named(name, self.names(&group.members)?);
        Ok(CollectiveScope { communicator, context, tag, group: Arc::clone(group), rank, sources: None, turn: None })
    }
}

/// Lets the group of `local`, an intracommunicator, meet the group beyond `bridge`. Only rank `leader` of
/// `local` looks at `bridge`.
///
/// # Errors
/// `MPI_ERR_COMM`: `local` is no intracommunicator, or the groups have a process in common; `MPI_ERR_RANK`;
/// `MPI_ERR_TAG`. An error of the bridge is an error for the whole group.
pub fn meet(local: usize, leader: i32, bridge: Bridge) -> Result<Meeting> {
    let scope = with(|process| process.collective_scope(local))?;
    let checked = u32::try_from(leader).ok().filter(|leader| *leader < scope.group.size()).ok_or_else(|| {
        let highest = scope.group.size() - 1;
        let message = format!("local_leader is {leader}, but the ranks of local_comm are 0 to {highest}");
        Error::new(MPI_ERR_RANK, message)
    });
    let is_leader = checked.as_ref().is_ok_and(|leader| *leader == scope.rank);
    let leader = match open_creation(scope, Creation::Intercommunicator, checked) {
        Ok(leader) => leader,
        Err(error) => {
            // The leader of the other group waits on the bridge.
            if is_leader {
                swap(bridge, &[NO_GROUP], &mut [0]).ok();
            }
            return Err(error);
        }
    };
    let scope = with(|process| process.collective_scope(local))?;
    let news = (scope.rank == leader).then(|| cross(&scope.group, bridge));
    gather_round(&scope, leader, news, || with(|process| process.collective_scope(local)))
}

/// Lets two groups meet of which the leader knows both; only the leader looks at `remote`. `name` tells this
/// meeting from others. Errors go to `communicator`.
///
/// # Errors
/// `MPI_ERR_GROUP`: this process is not in `local`, or the groups have a process in common; `MPI_ERR_RANK`.
pub fn meet_by_name(
    name: &[u8],
    local: &Arc<Group>,
    leader: u32,
    remote: Result<Arc<Group>>,
    communicator: usize,
) -> Result<Meeting> {
    let scope = with(|process| process.named_scope(&[b"local ", name].concat(), local, communicator))?;
    let news = (scope.rank == leader).then(|| {
        let remote = remote?;
        with(|process| {
            let (own, other) = (process.names(&local.members)?, process.names(&remote.members)?);
            introduce(&[b"groups ", name].concat(), &own, &other, MPI_ERR_GROUP)
        })
    });
    let again = scope.clone();
    gather_round(&scope, leader, news, || Ok(again))
}

/// Converts names to the numbers that are sent.
fn to_values(names: &[ProcessName]) -> Vec<i64> {
    names.iter().flat_map(|name| [name.job.0 as i64, i64::from(name.number)]).collect()
}

/// Converts numbers that were sent back to names.
fn from_values(values: &[i64]) -> Vec<ProcessName> {
    let name = |pair: &[i64; 2]| ProcessName { job: JobId(pair[0] as u64), number: pair[1] as u32 };
    values.as_chunks().0.iter().map(name).collect()
}

/// Exchanges groups with the leader at the other end of the bridge. The leader of `group` calls this.
fn cross(group: &Group, bridge: Bridge) -> Result<News> {
    if bridge.tag < 0 {
        return Err(Error::new(MPI_ERR_TAG, format!("tag is {}, but tags are 0 to {}", bridge.tag, i32::MAX)));
    }
    let (own, context) = with(|process| {
        let peer = process.objects.communicator(bridge.communicator)?;
        let (context, there) = (peer.leader_context(), peer.peer(bridge.remote_leader, "remote_leader")?);
        match there {
            None => Err(Error::new(MPI_ERR_RANK, "remote_leader is MPI_PROC_NULL")),
            Some(there) if there == process.own() => {
                Err(Error::new(MPI_ERR_RANK, "remote_leader is this process: the two groups must be disjoint"))
            }
            Some(_) => Ok((process.names(&group.members)?, context)),
        }
    })?;
    let values = to_values(&own);
    let mut length = [0];
    swap(bridge, &[values.len() as i64], &mut length)?;
    let no_group = |_| Error::new(MPI_ERR_OTHER, "a process of the other group cannot do its part");
    let mut other = vec![0; usize::try_from(length[0]).map_err(no_group)?];
    swap(bridge, &values, &mut other)?;
    let other = from_values(&other);
    let name = [b"bridge".as_slice(), &context.to_le_bytes(), &bridge.tag.to_le_bytes()].concat();
    introduce(&name, &own, &other, MPI_ERR_COMM)
}

/// Exchanges values with the other leader.
fn swap(bridge: Bridge, values: &[i64], theirs: &mut [i64]) -> Result<()> {
    let process = lock();
    let object = process.objects.communicator(bridge.communicator)?;
    let peer = object.peer(bridge.remote_leader, "remote_leader")?;
    let (context, source) = (object.leader_context(), object.rank);
    let (out, incoming) = (SharedBuffer::of_values(values), SharedBuffer::of_values(theirs));
    let envelope = Envelope { context, source, tag: bridge.tag };
    let send = Send { peer, envelope, data: out.describe_all(), mode: Mode::Standard, blocking: true };
    let receive = Receive {
        context: Some(context),
        source: Some(bridge.remote_leader as u32),
        peer,
        tag: Some(bridge.tag),
        data: if theirs.is_empty() { UserData::empty() } else { incoming.describe_all() },
        blocking: true,
    };
    exchange(process, send, receive, bridge.communicator)?.error.map_or(Ok(()), Err)?;
    theirs.copy_from_slice(&incoming.values());
    Ok(())
}

/// Checks that two groups, given by names, are disjoint; if not, returns an error of `class`. Both leaders
/// get the same result.
pub(crate) fn introduce(name: &[u8], own: &[ProcessName], other: &[ProcessName], class: ErrorClass) -> Result<News> {
    let known: std::collections::HashSet<&ProcessName> = own.iter().collect();
    if let Some(common) = other.iter().find(|name| known.contains(name)) {
        let message = format!("the two groups must be disjoint, but process {} of the job is in both", common.number);
        return Err(Error::new(class, message));
    }
    let is_first = own.first() < other.first();
    let (first, second) = if is_first { (own, other) } else { (other, own) };
    let (context, tag) = context::named(name, first.iter().chain(second).copied());
    Ok(News { remote: other.to_vec(), context, tag, is_first })
}

/// Sends the news of the leader to its group.
pub(crate) fn gather_round(
    scope: &CollectiveScope,
    leader: u32,
    news: Option<Result<News>>,
    next_scope: impl FnOnce() -> Result<CollectiveScope>,
) -> Result<Meeting> {
    let mut head = match &news {
        Some(Ok(news)) => {
            let News { remote, context, tag, is_first } = news;
            [0, to_values(remote).len() as i64, i64::from(*context), i64::from(*tag), i64::from(*is_first)]
        }
        Some(Err(error)) => [i64::from(ErrorClass::to_wire(Some(error.class))), 0, 0, 0, 0],
        None => [0; 5],
    };
    // The group must learn it, too, when the leader has failed: the group waits for the leader.
    broadcast(scope.clone(), leader, &mut head)?;
    let mut names = match news {
        Some(Err(error)) => return Err(error),
        Some(Ok(news)) => to_values(&news.remote),
        None => vec![0; head[1] as usize],
    };
    let [class, _, context, tag, is_first] = head;
    if let Some(class) = ErrorClass::from_wire(class as u32) {
        let message = format!("the leader of this group, its rank {leader}, could not meet the other leader");
        return Err(Error::new(class, message));
    }
    broadcast(next_scope()?, leader, &mut names)?;
    let remote = from_values(&names);
    meeting(scope, &News { remote, context: context as u32, tag: tag as i32, is_first: is_first != 0 })
}

/// The meeting of the group of `scope` with the group of which these are the news.
///
/// # Errors
/// A process of the other group is unknown.
pub(crate) fn meeting(scope: &CollectiveScope, news: &News) -> Result<Meeting> {
    let News { remote, context, tag, is_first } = news;
    let (is_first, context, tag) = (*is_first, *context, *tag);
    with(|process| {
        let (own, local) = (process.own(), &scope.group);
        let remote = local.derive(process.members(remote)?, own);
        let (first, second) = if is_first { (local, &remote) } else { (&remote, local) };
        let both = local.derive(first.members.iter().chain(&second.members).copied().collect(), own);
        let rank = scope.rank + if is_first { 0 } else { remote.size() };
        let communicator = scope.communicator;
        let scope = CollectiveScope { communicator, context, tag, group: both, rank, sources: None, turn: None };
        Ok(Meeting { scope, remote, is_first })
    })
}
