//! MPI's opaque objects but requests: what they hold, and the tables that find them by handle (MPI-5.0 §2.5.1).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use weft_core::collective::choice::Layout;

use crate::constants::*;
use crate::context::CONTEXTS_EACH;
pub use crate::description::{Attributes, Constituent, Datatype, Description, Info, Recipe};
use crate::error::{Error, ErrorClass, Result};
use crate::handle::{Kind, Slab};
use crate::predefined::{TYPE_END, TYPE_FIRST};
use crate::session::Session;
use crate::topology::Topology;
use crate::window::Window;
pub use weft_engine::arguments::{Operation, UserOperation};
pub use weft_engine::group::{Group, PeerId};

/// A communicator (MPI-5.0 §7.4, §7.6).
pub struct Communicator {
    /// Matching context of its point-to-point messages; the next ones are those of its collectives, of groups, and of leaders.
    pub context: u32,
    /// Its processes; of an intercommunicator, the local group.
    pub group: Arc<Group>,
    /// The processes that the ranks of point-to-point operations name: its group, but of an intercommunicator the remote group.
    pub addressed: Arc<Group>,
    /// What makes it an intercommunicator.
    pub inter: Option<Inter>,
    /// Rank of this process.
    pub rank: u32,
    /// Handle of its error handler.
    pub error_handler: usize,
    /// Set by `MPI_Comm_set_name`.
    pub name: String,
    /// Cached by the program.
    pub attributes: Attributes,
    /// Hints that the program gave.
    pub info: Info,
    /// Counts collective calls: the tag of the next.
    pub collectives: u32,
    /// Its buffer for buffered sends.
    pub buffer: crate::buffered::Buffer,
    /// Who is whose neighbour in it (§8), if anybody.
    pub topology: Option<Arc<Topology>>,
    /// Where the processes of its group are, once somebody has asked.
    pub layout: OnceLock<Layout>,
    /// Whether its processes may all copy from each other's memory, once somebody has asked.
    pub copies: OnceLock<bool>,
    /// Slot in the node's memory for its collectives, if all its processes have one.
    pub slot: Option<u32>,
    /// Whether the network carries multicast between its nodes.
    pub multicast: crate::multicast::Multicast,
}

/// Both groups of an intercommunicator (MPI-5.0 §7.6) as one, for what all its processes agree on.
#[derive(Clone)]
pub struct Inter {
    /// The processes of the first group and then those of the second; which is the first, all of them know alike.
    pub both: Arc<Group>,
    /// This process's rank among them.
    pub rank: u32,
    /// This process is in the first group.
    pub is_first: bool,
}

impl Communicator {
    /// Makes it an intercommunicator with `remote`. Its own group is the first of the two, or not.
    pub fn connect(&mut self, remote: Arc<Group>, is_first: bool) {
        let (first, second) = if is_first { (&self.group, &remote) } else { (&remote, &self.group) };
        let own = self.group.members[self.rank as usize];
        let both = self.group.derive(first.members.iter().chain(&second.members).copied().collect(), own);
        let rank = self.rank + if is_first { 0 } else { remote.size() };
        self.inter = Some(Inter { both, rank, is_first });
        self.addressed = remote;
    }

    /// All its processes, of both groups if there are two, and this process's rank among them.
    pub fn everybody(&self) -> (&Arc<Group>, u32) {
        self.inter.as_ref().map_or((&self.group, self.rank), |inter| (&inter.both, inter.rank))
    }

    /// The remote group (MPI-5.0 §7.6.1).
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intracommunicator has none.
    pub fn remote(&self) -> Result<(&Arc<Group>, &Inter)> {
        match &self.inter {
            Some(inter) => Ok((&self.addressed, inter)),
            None => Err(Error::new(MPI_ERR_COMM, "the communicator is an intracommunicator: it has no remote group")),
        }
    }

    /// It must be an intracommunicator.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intercommunicator.
    pub fn intra(&self) -> Result<&Self> {
        match &self.inter {
            None => Ok(self),
            Some(_) => Err(Error::new(
                MPI_ERR_COMM,
                "the communicator is an intercommunicator; it must be an intracommunicator",
            )),
        }
    }

    /// Its processes must be able to run collectives.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intercommunicator.
    #[inline]
    pub fn check_collective(&self) -> Result<&Self> {
        if self.inter.is_some() { Err(no_collectives()) } else { Ok(self) }
    }

    /// Context of the collective operations.
    pub fn collective_context(&self) -> u32 {
        self.context + 1
    }

    /// Context of the agreement among some of its processes (`MPI_Comm_create_group`).
    pub fn group_context(&self) -> u32 {
        self.context + 2
    }

    /// Context in which leaders of groups speak to each other (`MPI_Intercomm_create`).
    pub fn leader_context(&self) -> u32 {
        self.context + 3
    }

    /// Context in which the two sides of partitioned operations meet (MPI-5.0 §4.2.1).
    pub fn partitioned_context(&self) -> u32 {
        self.context + 4
    }

    /// Context of the messages of partitioned operations.
    pub fn partition_context(&self) -> u32 {
        self.context + 5
    }
}

#[cold]
fn no_collectives() -> Error {
    Error::new(MPI_ERR_COMM, "the communicator is an intercommunicator, for which this operation is not defined")
}

/// Which objects an error handler or keyval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Communicators.
    Communicator,
    /// Datatypes (keyvals only).
    Datatype,
    /// Windows.
    Window,
    /// Files (error handlers only).
    File,
    /// Sessions (error handlers only).
    Session,
}

/// An error handler of the program (MPI-5.0 §9.3).
pub struct ErrorHandler {
    /// Objects that it may be attached to.
    pub class: Class,
    /// Address of the C function.
    pub function: usize,
    /// Handles and objects that refer to it.
    pub references: u32,
}

/// A keyval (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug)]
pub struct Keyval {
    /// Objects that it is for.
    pub class: Class,
    /// Address of the copy function, or one of the constants 0 (null) and 1 (dup).
    pub copy: usize,
    /// Address of the delete function, or 0.
    pub delete: usize,
    /// Passed to both.
    pub extra_state: usize,
    /// The program's handle, while not freed, and attributes that use it.
    pub references: u32,
    /// `MPI_*_free_keyval` was called.
    pub freed: bool,
}

/// A copy or delete function of the program that runs (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// What kind of object it runs for …
    pub class: Class,
    /// … and which one.
    pub handle: usize,
    /// The keyval of its attribute.
    pub keyval: i32,
    /// It deletes the attribute; else it copies it.
    pub deletes: bool,
}

/// A message taken out of the matcher by `MPI_Mprobe` (MPI-5.0 §3.8.2).
#[derive(Clone, Copy)]
pub struct Extracted {
    /// Its envelope.
    pub envelope: weft_core::matching::Envelope,
    /// Where the message layer keeps it.
    pub unexpected: usize,
    /// Handle of the communicator it was probed on.
    pub communicator: usize,
}

/// First keyval that the program gets.
const KEYVAL_FIRST: i32 = 1024;

/// All objects of the process but requests.
pub struct Objects {
    /// Communicators; the first two are `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub communicators: Slab<Communicator>,
    world: usize,
    self_: usize,
    /// Windows.
    pub windows: Slab<Window>,
    /// Open sessions.
    pub sessions: Slab<Session>,
    /// Groups made by the program.
    pub groups: Slab<Arc<Group>>,
    /// Datatypes made by the program.
    pub datatypes: Slab<Datatype>,
    predefined: Vec<Option<Datatype>>,
    /// Predefined datatypes without names (MPI-5.0 §19.1.9): by combiner and arguments.
    pub(crate) unnamed: BTreeMap<(i32, i32, i32), usize>,
    /// Reduction operations made by the program.
    pub operations: Slab<UserOperation>,
    /// Error handlers made by the program.
    pub error_handlers: Slab<ErrorHandler>,
    /// The error handler of `MPI_FILE_NULL`, which files get when they are opened (MPI-5.0 §14.7).
    pub file_error_handler: usize,
    /// Info objects.
    pub infos: Slab<Info>,
    /// What `MPI_INFO_ENV` holds, once somebody has asked.
    environment: OnceLock<Info>,
    /// Messages taken by `MPI_Mprobe`.
    pub extracted: Slab<Extracted>,
    /// Keyvals made by the program.
    pub keyvals: BTreeMap<i32, Keyval>,
    keyval_next: i32,
    /// Copy and delete functions that run now.
    pub callbacks: Vec<Callback>,
}

impl Objects {
    /// No objects yet.
    pub const fn new() -> Self {
        Self {
            communicators: Slab::new(Kind::Communicator),
            world: 0,
            self_: 0,
            windows: Slab::new(Kind::Window),
            sessions: Slab::new(Kind::Session),
            groups: Slab::new(Kind::Group),
            datatypes: Slab::new(Kind::Datatype),
            predefined: Vec::new(),
            unnamed: BTreeMap::new(),
            operations: Slab::new(Kind::Operation),
            error_handlers: Slab::new(Kind::ErrorHandler),
            file_error_handler: MPI_ERRORS_RETURN,
            infos: Slab::new(Kind::Info),
            environment: OnceLock::new(),
            extracted: Slab::new(Kind::Message),
            keyvals: BTreeMap::new(),
            keyval_next: KEYVAL_FIRST,
            callbacks: Vec::new(),
        }
    }

    /// Makes the predefined datatypes.
    pub fn begin(&mut self) {
        if self.predefined.is_empty() {
            self.predefined = (TYPE_FIRST..TYPE_END).map(crate::predefined::datatype).collect();
        }
    }

    /// Makes the predefined communicators of a job of `members`, seen from rank `rank` of them.
    pub fn begin_world(&mut self, rank: u32, members: Vec<PeerId>) {
        let own = members[rank as usize];
        let communicator = |context, members, name: &str| {
            let group = Group::new(members, own);
            Communicator {
                context,
                addressed: Arc::clone(&group),
                group,
                inter: None,
                rank: 0,
                error_handler: MPI_ERRORS_ARE_FATAL,
                name: name.to_owned(),
                attributes: Vec::new(),
                info: Vec::new(),
                collectives: 0,
                buffer: Default::default(),
                topology: None,
                layout: OnceLock::new(),
                copies: OnceLock::new(),
                slot: None,
                multicast: Default::default(),
            }
        };
        let mut world = communicator(0, members, "MPI_COMM_WORLD");
        world.rank = rank;
        self.world = self.communicators.insert(world).unwrap_or(0);
        self.self_ = self.communicators.insert(communicator(CONTEXTS_EACH, vec![own], "MPI_COMM_SELF")).unwrap_or(0);
    }

    /// `MPI_COMM_WORLD`.
    pub fn world_mut(&mut self) -> Option<&mut Communicator> {
        self.communicators.get_mut(self.world)
    }

    /// The predefined communicators are gone.
    pub fn end_world(&mut self) {
        for handle in [self.world, self.self_] {
            if let Some(communicator) = self.communicators.remove(handle) {
                self.release_error_handler(communicator.error_handler);
            }
        }
    }

    /// The internal handle of a communicator: predefined ones stand in the same table.
    #[inline]
    fn communicator_key(&self, handle: usize) -> usize {
        match handle {
            MPI_COMM_WORLD => self.world,
            MPI_COMM_SELF => self.self_,
            other => other,
        }
    }

    /// The session of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`.
    pub fn session(&self, handle: usize) -> Result<&Session> {
        self.sessions.get(handle).ok_or_else(|| wrong_session(handle))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`.
    pub fn session_mut(&mut self, handle: usize) -> Result<&mut Session> {
        self.sessions.get_mut(handle).ok_or_else(|| wrong_session(handle))
    }

    /// The window of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    #[inline]
    pub fn window(&self, handle: usize) -> Result<&Window> {
        self.windows.get(handle).ok_or_else(|| wrong_window(handle))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    #[inline]
    pub fn window_mut(&mut self, handle: usize) -> Result<&mut Window> {
        self.windows.get_mut(handle).ok_or_else(|| wrong_window(handle))
    }

    /// Visits the buffers for buffered sends of all communicators and sessions.
    pub fn for_each_buffer(&mut self, visit: &mut dyn FnMut(&mut crate::buffered::Buffer)) {
        self.communicators.for_each_mut(&mut |communicator| visit(&mut communicator.buffer));
        self.sessions.for_each_mut(&mut |session| visit(&mut session.buffer));
    }

    /// The communicator of `handle`, if it is one.
    #[inline]
    pub fn find_communicator(&self, handle: usize) -> Option<&Communicator> {
        self.communicators.get(self.communicator_key(handle))
    }

    /// The communicator of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    #[inline]
    pub fn communicator(&self, handle: usize) -> Result<&Communicator> {
        let key = self.communicator_key(handle);
        self.communicators.get(key).ok_or_else(|| wrong_communicator(handle))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    #[inline]
    pub fn communicator_mut(&mut self, handle: usize) -> Result<&mut Communicator> {
        let key = self.communicator_key(handle);
        self.communicators.get_mut(key).ok_or_else(|| wrong_communicator(handle))
    }

    /// The datatype of `handle`, committed or not.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    #[inline]
    pub fn datatype(&self, handle: usize) -> Result<&Datatype> {
        let found = match handle {
            TYPE_FIRST..TYPE_END => self.predefined.get(handle - TYPE_FIRST).and_then(Option::as_ref),
            _ => self.datatypes.get(handle),
        };
        found.ok_or_else(|| wrong_type(handle))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    pub fn datatype_mut(&mut self, handle: usize) -> Result<&mut Datatype> {
        let found = match handle {
            TYPE_FIRST..TYPE_END => self.predefined.get_mut(handle - TYPE_FIRST).and_then(Option::as_mut),
            _ => self.datatypes.get_mut(handle),
        };
        found.ok_or_else(|| wrong_type(handle))
    }

    /// The datatype of `handle`, which must be committed since a message is to be made of it (MPI-5.0 §5.1.9).
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`.
    #[inline]
    pub fn committed(&self, handle: usize) -> Result<&Datatype> {
        let datatype = self.datatype(handle)?;
        if !datatype.committed {
            return Err(Error::new(
                MPI_ERR_TYPE,
                "the datatype is not committed: call MPI_Type_commit before it is used for communication",
            ));
        }
        Ok(datatype)
    }

    /// The group of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`.
    pub fn group(&self, handle: usize) -> Result<Arc<Group>> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(Arc::new(Group { members: Vec::new(), rank: None, session: None }));
        }
        let found = self.groups.get(handle).cloned();
        found.ok_or_else(|| wrong(handle, "group", MPI_ERR_GROUP, MPI_GROUP_NULL, "MPI_GROUP_NULL"))
    }

    /// The handle of a new group; the empty one has a handle of its own.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn add_group(&mut self, group: Arc<Group>) -> Result<usize> {
        if group.members.is_empty() {
            return Ok(MPI_GROUP_EMPTY);
        }
        self.groups.insert(group).ok_or_else(|| full("groups"))
    }

    /// The operation of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_OP`.
    pub fn operation(&self, handle: usize) -> Result<Operation> {
        if let Some(op) = crate::predefined::operation(handle) {
            return Ok(Operation::Predefined(op));
        }
        let found = self.operations.get(handle).map(|user| Operation::User(*user));
        found.ok_or_else(|| wrong(handle, "reduction operation", MPI_ERR_OP, MPI_OP_NULL, "MPI_OP_NULL"))
    }

    /// The info object of `handle`, `MPI_INFO_ENV` among them.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`.
    pub fn info(&self, handle: usize) -> Result<&Info> {
        if handle == MPI_INFO_ENV {
            return Ok(self.environment.get_or_init(|| crate::predefined::environment(&[])));
        }
        self.infos.get(handle).ok_or_else(|| wrong_info(handle))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`, also for `MPI_INFO_ENV`.
    pub fn info_mut(&mut self, handle: usize) -> Result<&mut Info> {
        self.infos.get_mut(handle).ok_or_else(|| wrong_info(handle))
    }

    /// Makes a keyval.
    pub fn add_keyval(&mut self, keyval: Keyval) -> i32 {
        let number = self.keyval_next;
        self.keyval_next += 1;
        self.keyvals.insert(number, keyval);
        number
    }

    /// The keyval `number`, if it is for objects of `class`.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`.
    pub fn keyval(&self, number: i32, class: Class) -> Result<Keyval> {
        match self.keyvals.get(&number) {
            Some(keyval) if keyval.class == class => Ok(*keyval),
            _ if number == MPI_KEYVAL_INVALID => Err(Error::new(MPI_ERR_KEYVAL, "the keyval is MPI_KEYVAL_INVALID")),
            _ => Err(Error::new(
                MPI_ERR_KEYVAL,
                crate::foreign::explain(number as u32 as usize, MPI_ERR_KEYVAL)
                    .unwrap_or_else(|| format!("{number} is no keyval for this kind of object")),
            )),
        }
    }

    /// The program gives up keyval `number`; attributes that use it keep it alive (MPI-5.0 §7.7.2).
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`, also when it has been freed already.
    pub fn free_keyval(&mut self, number: i32, class: Class) -> Result<()> {
        self.keyval(number, class)?;
        match self.keyvals.get_mut(&number) {
            Some(keyval) if !keyval.freed => keyval.freed = true,
            _ => return Err(Error::new(MPI_ERR_KEYVAL, format!("keyval {number} has been freed already"))),
        }
        self.release_keyval(number);
        Ok(())
    }

    /// An attribute uses keyval `number` from now on.
    pub fn retain_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references += 1;
        }
    }

    /// An attribute that uses keyval `number` is gone, or the program freed it.
    pub fn release_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references -= 1;
            if keyval.references == 0 {
                self.keyvals.remove(&number);
            }
        }
    }

    /// Whether this is a predefined error handler, or one that has been made and is still there.
    pub fn is_error_handler(&self, handle: usize) -> bool {
        is_predefined_handler(handle) || self.error_handlers.get(handle).is_some()
    }

    /// An object or handle refers to the error handler `handle` from now on.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER` when there is no such handler for objects of `class`.
    pub fn retain_error_handler(&mut self, handle: usize, class: Option<Class>) -> Result<()> {
        if is_predefined_handler(handle) {
            return Ok(());
        }
        match self.error_handlers.get_mut(handle) {
            Some(handler) if class.is_none_or(|class| class == handler.class) => {
                handler.references += 1;
                Ok(())
            }
            Some(_) => Err(Error::new(MPI_ERR_ERRHANDLER, "the error handler was made for another kind of object")),
            None => Err(wrong(handle, "error handler", MPI_ERR_ERRHANDLER, MPI_ERRHANDLER_NULL, "MPI_ERRHANDLER_NULL")),
        }
    }

    /// One reference less.
    pub fn release_error_handler(&mut self, handle: usize) {
        if let Some(handler) = self.error_handlers.get_mut(handle) {
            handler.references -= 1;
            if handler.references == 0 {
                self.error_handlers.remove(handle);
            }
        }
    }
}

impl Default for Objects {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `handle` is one of the standard's error handlers.
pub fn is_predefined_handler(handle: usize) -> bool {
    matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
}

/// The table of `what` is full.
pub fn full(what: &str) -> Error {
    Error::new(MPI_ERR_NO_MEM, format!("too many {what} exist (limit 16777216): free some first"))
}

#[cold]
fn wrong_communicator(handle: usize) -> Error {
    let name = match handle {
        MPI_COMM_WORLD => "MPI_COMM_WORLD",
        MPI_COMM_SELF => "MPI_COMM_SELF",
        _ => return wrong(handle, "communicator", MPI_ERR_COMM, MPI_COMM_NULL, "MPI_COMM_NULL"),
    };
    let sentence = format!(
        "{name} exists only from MPI_Init to MPI_Finalize: where only sessions are open, make a communicator by \
         MPI_Group_from_session_pset and MPI_Comm_create_from_group"
    );
    Error::new(MPI_ERR_COMM, sentence)
}

#[cold]
fn wrong_type(handle: usize) -> Error {
    wrong(handle, "datatype", MPI_ERR_TYPE, MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL")
}

#[cold]
fn wrong_window(handle: usize) -> Error {
    wrong(handle, "window", MPI_ERR_WIN, MPI_WIN_NULL, "MPI_WIN_NULL")
}

#[cold]
fn wrong_session(handle: usize) -> Error {
    wrong(handle, "session", MPI_ERR_SESSION, MPI_SESSION_NULL, "MPI_SESSION_NULL")
}

#[cold]
fn wrong_info(handle: usize) -> Error {
    if handle == MPI_INFO_ENV {
        return Error::new(MPI_ERR_INFO, "MPI_INFO_ENV can only be read");
    }
    wrong(handle, "info object", MPI_ERR_INFO, MPI_INFO_NULL, "MPI_INFO_NULL")
}

/// The sentence about a handle that is none.
#[cold]
pub(crate) fn wrong(handle: usize, what: &str, class: ErrorClass, null: usize, null_name: &str) -> Error {
    if handle == null {
        return Error::new(class, format!("the {what} is {null_name}"));
    }
    let sentence = crate::foreign::explain(handle, class);
    Error::new(class, sentence.unwrap_or_else(|| format!("{handle:#x} is no {what}, or one that has been freed")))
}
