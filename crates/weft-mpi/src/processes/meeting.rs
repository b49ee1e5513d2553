//! Carries out the meeting of two groups whose leaders have a contact (MPI-5.0 §11.8 to §11.10):
//! [`weft_plan::meeting`] says what is due, and this module has the collectives, the contact, the segments
//! and the peers.

use std::os::fd::RawFd;

use weft_core::process::ProcessName;
use weft_net::port::Contact;
use weft_net::shared::{LINK_SIZE_MAX, new_key};
use weft_net::wait::Interest;
use weft_plan::meeting::{self, ClassWord, Due, Failure, Member, Newcomer, Relation, SegmentKey, Told, jobs};
pub use weft_plan::meeting::{reread_words, word_seeds};

use crate::collective::CollectiveScope;
use crate::communicator::{broadcast, gather_all};
use crate::constants::{MPI_ERR_COMM, MPI_ERR_OTHER, MPI_ERR_ROOT};
use crate::error::{Error, ErrorClass, Result};
use crate::intercommunicator::{Meeting, News, introduce, meeting};
use crate::object::PeerId;
use crate::process::{Outside, Process, block_outside, with};
use crate::start::introduction::{NearPlace, Stranger, join_near, open_link, say_that_no_memory_is_shared};

fn nonsense() -> Error {
    Error::new(
        MPI_ERR_OTHER,
        "the leader of the other group said something that makes no sense: do both use the same version of Weft?",
    )
}

#[cold]
fn lost() -> Error {
    Error::new(MPI_ERR_OTHER, "the leader of this group has lost the leader of the other group")
}

/// The words of the other leader, as they come.
impl Outside for Contact {
    type Found = std::io::Result<Vec<u8>>;

    fn look(&mut self) -> Option<Self::Found> {
        Contact::look(self).transpose()
    }

    fn ask(&mut self, _: &mut Process) -> Option<Self::Found> {
        None
    }

    fn sockets(&self) -> Vec<(RawFd, Interest)> {
        Contact::sockets(self).collect()
    }
}

/// Exchanges words with the other leader.
fn swap(contact: &mut Contact, words: &[i64]) -> Result<Vec<i64>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let lost = |error: std::io::Error| {
        let sentence = format!("the leader of the other group is gone: {}", weft_net::reason(&error));
        Error::new(MPI_ERR_OTHER, sentence)
    };
    contact.send(&bytes).map_err(lost)?;
    let heard = block_outside(contact).map_err(lost)?;
    let (words, rest) = heard.as_chunks();
    if !rest.is_empty() {
        return Err(nonsense());
    }
    Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
}

/// The way in which the root of a meeting makes the contact. It is one type for all calls, which share the
/// meeting.
pub type MakesContact<'a> = Box<dyn FnOnce() -> Result<Contact> + 'a>;

/// Lets the group of `communicator`, an intracommunicator, meet the group beyond the contact that rank
/// `leader` makes: only that rank gives a `contact`.
///
/// # Errors
/// `MPI_ERR_ROOT`; the leader's error, at all processes of the group; `MPI_ERR_COMM`: the groups have a
/// process in common; `MPI_ERR_OTHER`: the other group is gone, or a process of it cannot be reached.
pub fn meet(communicator: usize, leader: u32, contact: Option<MakesContact<'_>>) -> Result<(Meeting, Newcomers)> {
    with(|process| process.forget_strangers());
    let scope = with(|process| process.collective_scope(communicator))?;
    let size = scope.group.members.len();
    if leader as usize >= size {
        return Err(Error::new(MPI_ERR_ROOT, format!("root is {leader}, but the communicator has fewer processes")));
    }
    let mine = with(|process| {
        let (name, job_size) = process.own_name()?;
        Ok(Member { name, job_size, node: process.near_node()?, knows: process.known_strangers() })
    });
    let name = mine.as_ref().map_or(ProcessName::of_only_job(0), |mine: &Member| mine.name);
    let part = meeting::Meeting::new(name, size, contact.is_some(), LINK_SIZE_MAX);
    let mut side = Side { communicator, leader, meeting: part, error: None, attempt: Attempt::default() };
    let verdict = side.run(mine, contact);
    let Side { meeting: met, error, attempt, .. } = side;
    let class_of = |class: ClassWord| ErrorClass::from_wire(class).unwrap_or(MPI_ERR_OTHER);
    match verdict {
        Ok(()) => {
            let met = meeting(&scope, &news(&met)?)?;
            let newcomers = Newcomers { context: met.scope.context, added: attempt.added };
            Ok((met, newcomers))
        }
        Err(Failure::Own) => Err(error.unwrap_or_else(nonsense)),
        Err(Failure::Nonsense) => Err(nonsense()),
        Err(Failure::Common) => Err(news(&met).err().unwrap_or_else(nonsense)),
        Err(Failure::Others) => Err(Error::consequence(
            MPI_ERR_OTHER,
            "a process of the other group cannot do its part, as its own call says",
        )),
        Err(Failure::Group(class)) => {
            let sentence = "another process of this group cannot do its part, as its own call says";
            Err(Error::consequence(class_of(class), sentence))
        }
        Err(Failure::NotMet(class)) => {
            let sentence = format!("rank {leader}, the root, could not meet the other group, as its own call says");
            Err(Error::consequence(class_of(class), sentence))
        }
        Err(Failure::Lost(class)) => Err(Error::new(class_of(class), lost().message.to_string())),
    }
}

/// The peers that a meeting has added.
pub struct Newcomers {
    context: u32,
    added: Vec<PeerId>,
}

impl Newcomers {
    /// Forgets them: the two groups have met, and could not agree on a communicator.
    #[cold]
    pub fn forget(self) {
        with(|process| {
            // What others have said of the communicator, or in it, would keep them known.
            process.discard_contexts_that_are_over(Some(self.context));
            process.forget_added(&self.added);
        });
    }
}

/// What brings the two groups together.
///
/// # Errors
/// `MPI_ERR_COMM`: the groups have a process in common.
fn news(met: &meeting::Meeting) -> Result<News> {
    let names = |members: &[Member]| members.iter().map(|member| member.name).collect::<Vec<_>>();
    introduce(&met.common_name(), &names(&met.groups().own), &names(&met.groups().theirs), MPI_ERR_COMM)
}

/// Tells the processes of a communicator that this process takes no part in the next collectives. The last
/// collective has failed here. At other processes it may have succeeded, and these may begin the next ones.
#[cold]
pub fn give_up_next(communicator: usize, collectives: u32, error: &Error) {
    with(|process| {
        for _ in 0..collectives {
            let Ok(scope) = process.collective_scope(communicator) else { return };
            process.engine.iter_mut().for_each(|engine| engine.give_up(&scope, error));
        }
    });
}

/// A process on its way to a meeting.
struct Side {
    communicator: usize,
    leader: u32,
    meeting: meeting::Meeting,
    /// The first error of this process.
    error: Option<Error>,
    attempt: Attempt,
}

/// What an attempt to make the others peers has made, and what is undone if it fails.
#[derive(Default)]
struct Attempt {
    added: Vec<PeerId>,
    /// The place of this process in a segment that it shares with processes of its node.
    place: Option<NearPlace>,
}

impl Attempt {
    /// Takes a place. If there is none, the user is told why.
    fn take_place(&mut self, [one, two]: SegmentKey, own: usize, size: usize) {
        match join_near(&format!("{one:016x}{two:016x}"), own, size) {
            Ok(place) => self.place = Some(place),
            Err(error) => say_that_no_memory_is_shared(&error.to_string()),
        }
    }
}

/// Returns whether a process is a peer of this one. It asks the engine each time.
fn knows(name: ProcessName) -> bool {
    with(|process| process.knows(name))
}

impl Side {
    /// Does what is due until the meeting is over.
    fn run(&mut self, mine: Result<Member>, contact: Option<MakesContact<'_>>) -> std::result::Result<(), Failure> {
        let (mut make, mut contact) = (contact, None);
        let mine = self.note(mine);
        let mut due = self.meeting.begin(mine);
        loop {
            due = match due {
                Due::Gather(words) => {
                    let gathered = self.scope().and_then(|scope| gather_all(scope, &words));
                    let gathered = self.note(gathered);
                    self.meeting.gathered(gathered)
                }
                Due::Swap(words) => {
                    let made = match (make.take(), contact.take()) {
                        (Some(make), _) => make(),
                        (None, made) => made.ok_or_else(nonsense),
                    };
                    let heard = made.and_then(|made| swap(contact.insert(made), &words));
                    // The other leader learns of a failure by the end of the contact.
                    contact = contact.filter(|_| heard.is_ok());
                    let heard = self.note(heard);
                    self.meeting.swapped(heard, contact.as_ref().map_or(0, Contact::number))
                }
                Due::HandOn(mut words) => {
                    let handed = self.scope().and_then(|scope| broadcast(scope, self.leader, &mut words));
                    let handed = self.note(handed.map(|()| words));
                    self.meeting.handed_on(handed)
                }
                Due::SayFailed => {
                    // The other group learns of it, if its leader lives.
                    contact.as_mut().and_then(|contact| contact.send(&[]).ok());
                    self.meeting.said()
                }
                Due::GiveUp { collectives, both } => {
                    self.give_up(collectives, both);
                    self.meeting.given_up()
                }
                Due::Tell => {
                    let told = self.tell();
                    let told = self.note(told);
                    self.meeting.told(told)
                }
                Due::Add => {
                    let added = self.add();
                    let added = self.note(added);
                    self.meeting.added(added)
                }
                Due::Settle { keeps } => {
                    self.settle(keeps);
                    self.meeting.settled()
                }
                Due::Over(verdict) => return verdict,
            };
        }
    }

    /// Keeps an error of this process, and returns its class.
    fn note<T>(&mut self, result: Result<T>) -> std::result::Result<T, ClassWord> {
        result.map_err(|error| {
            let class = ErrorClass::to_wire(Some(error.class));
            self.error.get_or_insert(error);
            class
        })
    }

    fn scope(&self) -> Result<CollectiveScope> {
        with(|process| process.collective_scope(self.communicator))
    }

    /// Tells the others that this process takes no part in the next collectives of the group, and in that of
    /// both groups.
    #[cold]
    fn give_up(&self, collectives: u32, both: bool) {
        let lost = lost();
        let error = self.error.as_ref().unwrap_or(&lost);
        give_up_next(self.communicator, collectives, error);
        if both && let Ok(met) = self.scope().and_then(|scope| meeting(&scope, &news(&self.meeting)?)) {
            with(|process| process.engine.iter_mut().for_each(|engine| engine.give_up(&met.scope, error)));
        }
    }

    /// Meets the jobs of the other group, and says what this process tells.
    fn tell(&mut self) -> Result<Told> {
        let needs = self.meeting.needs(knows);
        let mut segment = None;
        if let Some(size) = needs.creates {
            let key = new_key().map_err(|error| Error::new(MPI_ERR_OTHER, error.to_string()))?;
            self.attempt.take_place(key, 0, size);
            segment = self.attempt.place.as_ref().map(|_| key);
        }
        if needs.network {
            open_link()?;
        }
        with(|process| {
            let (own, _) = process.own_name()?;
            let mut relations = Vec::new();
            for (job, size) in jobs(&self.meeting.groups().theirs) {
                relations.push(if job == own.job {
                    Relation::default()
                } else {
                    Relation { first: process.meet_job(job, size)?, half: process.half_for(job)? }
                });
            }
            let (is_crowded, card) = (process.is_crowded, process.own_card()?);
            Ok(Told { is_crowded, knows_all: needs.knows_all, segment, relations, card })
        })
    }

    /// Makes the processes of the other group peers of this one. Returns false, and adds none, if this
    /// process cannot share memory with a new one.
    fn add(&mut self) -> Result<bool> {
        let Self { meeting, attempt, .. } = self;
        if let Some((key, own)) = meeting.segment()
            && attempt.place.is_none()
        {
            attempt.take_place(key, own, meeting.neighbours().len());
        }
        if attempt.place.is_none() && meeting.misses_near(knows) {
            return Ok(false);
        }
        let newcomers = meeting.newcomers(knows).ok_or_else(nonsense)?;
        with(|process| {
            let (_, size) = process.own_name()?;
            for Newcomer { member, own_index, half, told, place } in newcomers {
                process.agree_with(member.name.job, half)?;
                let near = attempt.place.as_ref().zip(place);
                let Told { is_crowded, card, .. } = told;
                let stranger =
                    Stranger { name: member.name, own_index, card: card.clone(), is_crowded: *is_crowded, near };
                attempt.added.push(process.add_stranger(&stranger, size.saturating_add(member.job_size))?);
            }
            Ok(true)
        })
    }

    /// Ends an attempt: forgets the peers that were added, unless they stay, and gives back a segment by
    /// which nobody is reached.
    fn settle(&mut self, keeps: bool) {
        if !keeps {
            // Others may have begun to agree on the communicator; what they have said would keep them known.
            let context = news(&self.meeting).ok().map(|news| news.context);
            with(|process| process.discard_contexts_that_are_over(context));
            let added = std::mem::take(&mut self.attempt.added);
            with(|process| process.forget_added(&added));
        }
        if let Some(place) = self.attempt.place.take() {
            place.leave_unused();
        }
    }
}
