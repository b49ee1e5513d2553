//! What messages say of themselves with `WEFT_CHECK=1`, and which labels are under way; [`crate::check`]
//! compares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::memory::{LABEL_WORDS, Label};
use crate::object::Description;
use crate::signature::{ITEMS, Items, NAME, Signature, items, put_items, put_text, text};

/// The first word of a label: a message of a process without `WEFT_CHECK` hardly begins with it.
const MARK: i64 = 0x4c61_6265_6c20_5765;

const _: () = assert!(LABEL_WORDS == 1 + ITEMS + NAME);

/// What a message consists of, as the side sees it that makes a label.
pub struct Labelled {
    /// Handle of the datatype.
    pub(crate) handle: usize,
    /// What that describes.
    pub(crate) description: Arc<Description>,
    /// How many, and what they are.
    pub(crate) items: Items,
    /// Its call, if that can be told.
    pub(crate) call: String,
}

impl Labelled {
    /// The label that says so.
    pub fn label(&self) -> Label {
        let mut words = vec![MARK];
        put_items(&mut words, Some(&self.items));
        put_text(&mut words, NAME, &self.call);
        Label::new(std::array::from_fn(|at| words[at]))
    }

    /// Whether a message of `sent` may be received as this: all of it is the beginning of what is expected.
    pub(crate) fn takes(&self, sent: &Signature) -> bool {
        let expected = &self.items.signature;
        if sent.is_opaque || expected.is_opaque {
            return sent.bytes <= expected.bytes;
        }
        let front = Signature::front_of(self.handle, &self.description, self.items.count, sent.length);
        front.agrees_with(sent)
    }
}

/// A receive of the program that waits for a label.
pub(crate) struct Expected {
    pub(crate) label: Label,
    pub(crate) what: Labelled,
}

impl Expected {
    /// What the label says that has come, and by which call it was sent; none if it is no label.
    pub(crate) fn said(&self) -> Option<(Items, String)> {
        let words = self.label.words();
        let found = items(&words[1..=ITEMS]).filter(|_| words[0] == MARK)?;
        Some((found, text(&words[1 + ITEMS..])))
    }
}

/// The labels of messages that are under way.
#[derive(Default)]
pub struct Labels {
    /// Of sends, and of receives that the program has freed, by their requests.
    pub(crate) kept: Vec<(usize, Label)>,
    /// By the program's requests.
    pub(crate) expected: BTreeMap<usize, Expected>,
    /// With so many of them it is time to look which are not needed any more.
    pub(crate) sweep_at: usize,
}

impl Labels {
    /// None.
    pub const fn new() -> Self {
        Self { kept: Vec::new(), expected: BTreeMap::new(), sweep_at: 0 }
    }

    /// Whether the receives of the persistent request `handle` have room for one.
    pub(crate) fn expects(&self, handle: usize) -> bool {
        self.expected.contains_key(&handle)
    }
}
