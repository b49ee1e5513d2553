//! The description of a datatype (MPI-5.0 §5), and other state that objects carry. `object.rs` keeps them;
//! operations hold a reference while they run.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weft_core::layout::{Element, Layout};
use weft_engine::arguments;
use weft_plan::collective::ElementShape;

/// Key-value pairs of an info object, in order of insertion (MPI-5.0 §10).
pub type Info = Vec<(String, String)>;

/// Cached attributes: keyval and value (MPI-5.0 §7.7).
pub type Attributes = Vec<(i32, usize)>;

/// The construction of a datatype, as `MPI_Type_get_envelope` and `MPI_Type_get_contents` tell it (MPI-5.0
/// §5.1.13).
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// `MPI_COMBINER_*`.
    pub combiner: i32,
    /// Integers, as counts.
    pub integers: Vec<i64>,
    /// Addresses of the small form (`MPI_Aint`).
    pub addresses: Vec<i64>,
    /// Counts of the large form.
    pub counts: Vec<i64>,
    /// The large-count form of the constructor was called.
    pub large: bool,
    /// Constituents.
    pub types: Vec<Constituent>,
    /// The depth to which constituents are nested in it; 0 for predefined types.
    pub nesting: u32,
}

/// A datatype that is part of another.
#[derive(Clone)]
pub enum Constituent {
    /// A predefined datatype, by its handle.
    Predefined(usize),
    /// A derived datatype.
    Derived(Arc<Description>),
}

impl std::fmt::Debug for Constituent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Predefined(handle) => write!(f, "Predefined({handle:#x})"),
            Self::Derived(_) => f.write_str("Derived"),
        }
    }
}

/// The part of a datatype that never changes; operations that use it keep it alive.
pub struct Description {
    /// The places of its bytes.
    pub layout: Layout,
    /// The element of a predefined type.
    pub element: Option<Element>,
    /// The construction of the datatype.
    pub recipe: Recipe,
    /// Handle at the time of the operation, for reduction functions of the program.
    pub handle: AtomicUsize,
}

impl Description {
    /// The facts that the collective algorithms need.
    pub fn shape(&self) -> ElementShape {
        let layout = &self.layout;
        ElementShape {
            extent: layout.extent(),
            true_lb: layout.true_lb(),
            true_extent: layout.true_extent(),
            size: layout.size(),
            contiguous: layout.is_contiguous(2),
        }
    }
}

impl arguments::Datatype for Description {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Option<Element> {
        self.element
    }

    fn handle(&self) -> &AtomicUsize {
        &self.handle
    }
}

/// A datatype (MPI-5.0 §5).
pub struct Datatype {
    /// The description of the datatype.
    pub description: Arc<Description>,
    /// `MPI_Type_commit` was called, or it is predefined.
    pub committed: bool,
    /// Set by `MPI_Type_set_name`.
    pub name: String,
    /// Cached by the program.
    pub attributes: Attributes,
}

/// A datatype that another is made of, or that describes data.
#[derive(Clone)]
pub struct Old {
    /// The layout of that datatype.
    pub layout: Layout,
    /// The datatype as the recipe records it.
    pub constituent: Constituent,
}
