//! MPI's opaque objects except requests: their contents, and the tables that find them by handle (MPI-5.0
//! §2.5.1). Nearly every call looks up its objects here, under the process lock.

mod communicator;
mod error_handlers;
mod keyvals;
mod wrong;

use std::sync::{Arc, OnceLock};
use weft_ordered::Map;

use crate::constants::*;
use crate::context::CONTEXTS_EACH;
pub use crate::description::{Attributes, Constituent, Datatype, Description, Info, Recipe};
use crate::error::{Error, Result};
use crate::file::File;
use crate::handle::{Kind, Slab};
use crate::predefined::{TYPE_END, TYPE_FIRST};
use crate::session::Session;
use crate::window::Window;
pub use weft_engine::arguments::{Operation, UserOperation};
pub use weft_engine::group::{Group, PeerId};

pub use communicator::{Communicator, Inter, Revocation};
pub use error_handlers::{ErrorHandler, is_predefined_handler};
pub use keyvals::{Callback, Copying, Keyval};
pub use wrong::full;
pub(crate) use wrong::wrong;

use keyvals::KEYVAL_FIRST;
use wrong::{wrong_communicator, wrong_file, wrong_info, wrong_session, wrong_type, wrong_window};

/// The kind of object that an error handler or keyval is for.
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

/// A message taken out of the matcher by `MPI_Mprobe` (MPI-5.0 §3.8.2).
#[derive(Clone, Copy)]
pub struct Extracted {
    /// The envelope of the message.
    pub envelope: weft_core::matching::Envelope,
    /// The place of the message in the message layer.
    pub unexpected: usize,
    /// The handle of the communicator on which it was probed.
    pub communicator: usize,
}

/// All objects of the process except requests.
pub struct Objects {
    /// Communicators; the first two are `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub communicators: Slab<Communicator>,
    world: usize,
    self_: usize,
    /// Windows.
    pub windows: Slab<Window>,
    /// Open files.
    pub files: Slab<File>,
    /// Open sessions.
    pub sessions: Slab<Session>,
    /// Groups made by the program.
    pub groups: Slab<Arc<Group>>,
    /// Datatypes made by the program.
    pub datatypes: Slab<Datatype>,
    predefined: Vec<Option<Datatype>>,
    /// Predefined datatypes without names (MPI-5.0 §19.1.9): by combiner and arguments.
    pub(crate) unnamed: Map<(i32, i32, i32), usize>,
    /// Reduction operations made by the program.
    pub operations: Slab<UserOperation>,
    /// Error handlers made by the program.
    pub error_handlers: Slab<ErrorHandler>,
    /// The error handler of `MPI_FILE_NULL`, which files get when they are opened (MPI-5.0 §14.7).
    pub file_error_handler: usize,
    /// Info objects.
    pub infos: Slab<Info>,
    /// The contents of `MPI_INFO_ENV`, once the program has asked for them.
    environment: OnceLock<Info>,
    /// Messages taken by `MPI_Mprobe`.
    pub extracted: Slab<Extracted>,
    /// Keyvals made by the program.
    pub keyvals: Map<i32, Keyval>,
    keyval_next: i32,
    /// The copy and delete functions that run now.
    pub callbacks: Vec<Callback>,
}

impl Objects {
    /// A table without objects.
    pub const fn new() -> Self {
        Self {
            communicators: Slab::new(Kind::Communicator),
            world: 0,
            self_: 0,
            windows: Slab::new(Kind::Window),
            files: Slab::new(Kind::File),
            sessions: Slab::new(Kind::Session),
            groups: Slab::new(Kind::Group),
            datatypes: Slab::new(Kind::Datatype),
            predefined: Vec::new(),
            unnamed: Map::new(),
            operations: Slab::new(Kind::Operation),
            error_handlers: Slab::new(Kind::ErrorHandler),
            file_error_handler: MPI_ERRORS_RETURN,
            infos: Slab::new(Kind::Info),
            environment: OnceLock::new(),
            extracted: Slab::new(Kind::Message),
            keyvals: Map::new(),
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

    /// Makes the predefined communicators of a job of `members`, seen from rank `rank` of them. They have
    /// this predefined error handler.
    pub fn begin_world(&mut self, rank: u32, members: Vec<PeerId>, error_handler: usize) {
        let own = members[rank as usize];
        let communicator = |context, members, name: &str| {
            let group = Group::new(members, own);
            Communicator {
                context,
                addressed: Arc::clone(&group),
                group,
                inter: None,
                rank: 0,
                error_handler,
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
                acknowledged: 0,
                revocation: None,
            }
        };
        let mut world = communicator(0, members, "MPI_COMM_WORLD");
        world.rank = rank;
        self.world = self.communicators.insert(world).unwrap_or(0);
        self.self_ = self.communicators.insert(communicator(CONTEXTS_EACH, vec![own], "MPI_COMM_SELF")).unwrap_or(0);
    }

    /// The communicator `MPI_COMM_WORLD`, to change it.
    pub fn world_mut(&mut self) -> Option<&mut Communicator> {
        self.communicators.get_mut(self.world)
    }

    /// Removes the predefined communicators.
    pub fn end_world(&mut self) {
        for handle in [self.world, self.self_] {
            if let Some(communicator) = self.communicators.remove(handle) {
                self.release_error_handler(communicator.error_handler);
            }
        }
    }

    /// The internal handle of a communicator: predefined ones are in the same table as others.
    #[inline]
    fn communicator_key(&self, handle: usize) -> usize {
        match handle {
            MPI_COMM_WORLD => self.world,
            MPI_COMM_SELF => self.self_,
            other => other,
        }
    }

    /// The session with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`.
    pub fn session(&self, handle: usize) -> Result<&Session> {
        self.sessions.get(handle).ok_or_else(|| wrong_session(handle))
    }

    /// The session with this handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`.
    pub fn session_mut(&mut self, handle: usize) -> Result<&mut Session> {
        self.sessions.get_mut(handle).ok_or_else(|| wrong_session(handle))
    }

    /// The window with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    #[inline]
    pub fn window(&self, handle: usize) -> Result<&Window> {
        self.windows.get(handle).ok_or_else(|| wrong_window(handle))
    }

    /// The window with this handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`.
    #[inline]
    pub fn window_mut(&mut self, handle: usize) -> Result<&mut Window> {
        self.windows.get_mut(handle).ok_or_else(|| wrong_window(handle))
    }

    /// The file with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`.
    #[inline]
    pub fn file(&self, handle: usize) -> Result<&File> {
        self.files.get(handle).ok_or_else(|| wrong_file(handle))
    }

    /// The file with this handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`.
    #[inline]
    pub fn file_mut(&mut self, handle: usize) -> Result<&mut File> {
        self.files.get_mut(handle).ok_or_else(|| wrong_file(handle))
    }

    /// Visits the buffers for buffered sends of all communicators and sessions.
    pub fn for_each_buffer(&mut self, visit: &mut dyn FnMut(&mut crate::buffered::Buffer)) {
        self.communicators.for_each_mut(&mut |communicator| visit(&mut communicator.buffer));
        self.sessions.for_each_mut(&mut |session| visit(&mut session.buffer));
    }

    /// Visits the groups of all communicators, and those that the program has made.
    pub(crate) fn for_each_group(&self, mut visit: impl FnMut(&Group)) {
        for (_, communicator) in self.communicators.iter() {
            visit(&communicator.group);
            visit(&communicator.addressed);
        }
        self.groups.iter().for_each(|(_, group)| visit(group));
    }

    /// The communicator with this handle, if there is one.
    #[inline]
    pub fn find_communicator(&self, handle: usize) -> Option<&Communicator> {
        self.communicators.get(self.communicator_key(handle))
    }

    /// The communicator with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    #[inline]
    pub fn communicator(&self, handle: usize) -> Result<&Communicator> {
        let key = self.communicator_key(handle);
        self.communicators.get(key).ok_or_else(|| wrong_communicator(handle))
    }

    /// The communicator with this handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    #[inline]
    pub fn communicator_mut(&mut self, handle: usize) -> Result<&mut Communicator> {
        let key = self.communicator_key(handle);
        self.communicators.get_mut(key).ok_or_else(|| wrong_communicator(handle))
    }

    /// The datatype with this handle, committed or not.
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

    /// The datatype with this handle, to change it.
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

    /// The datatype with this handle. It must be committed, since a message will be made of it (MPI-5.0
    /// §5.1.9).
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

    /// The group with this handle.
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

    /// Adds a group, and returns its handle; the empty group has a handle of its own.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn add_group(&mut self, group: Arc<Group>) -> Result<usize> {
        if group.members.is_empty() {
            return Ok(MPI_GROUP_EMPTY);
        }
        self.groups.insert(group).ok_or_else(|| full("groups"))
    }

    /// The operation with this handle.
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

    /// The info object with this handle, also `MPI_INFO_ENV`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`.
    pub fn info(&self, handle: usize) -> Result<&Info> {
        if handle == MPI_INFO_ENV {
            return Ok(self.environment.get_or_init(|| crate::predefined::environment(&[])));
        }
        self.infos.get(handle).ok_or_else(|| wrong_info(handle))
    }

    /// The info object with this handle, to change it.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`, also for `MPI_INFO_ENV`.
    pub fn info_mut(&mut self, handle: usize) -> Result<&mut Info> {
        self.infos.get_mut(handle).ok_or_else(|| wrong_info(handle))
    }
}

impl Default for Objects {
    fn default() -> Self {
        Self::new()
    }
}
