//! The labels that messages carry with `WEFT_CHECK=1`, and the labels that are under way. [`crate::check`]
//! compares them. The boundary makes labels for point-to-point calls.

use std::sync::Arc;
use weft_ordered::Map;

use crate::memory::{LABEL_WORDS, Label};
use crate::object::Description;
use crate::signature::{ITEMS, Items, NAME, Signature, items, put_items, put_text, text};

/// The first word of a label. A message of a process without `WEFT_CHECK` hardly begins with it.
const MARK: i64 = 0x4c61_6265_6c20_5765;

const _: () = assert!(LABEL_WORDS == 1 + ITEMS + NAME);

/// The contents of a message, as the side that makes the label describes them.
pub struct Labelled {
    /// Handle of the datatype.
    pub(crate) handle: usize,
    /// The description of that datatype.
    pub(crate) description: Arc<Description>,
    /// The number of items, and their kind.
    pub(crate) items: Items,
    /// The call of this side, if it is known.
    pub(crate) call: String,
}

impl Labelled {
    /// The label with these contents.
    pub fn label(&self) -> Label {
        let mut words = vec![MARK];
        put_items(&mut words, Some(&self.items));
        put_text(&mut words, NAME, &self.call);
        Label::new(std::array::from_fn(|at| words[at]))
    }

    /// Returns whether this receive may take a message of `sent`: the message must be the beginning of what
    /// is expected.
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
    /// The items and the sender's call in the label that has come; `None` if it is no label.
    pub(crate) fn said(&self) -> Option<(Items, String)> {
        let words = self.label.words();
        let found = items(&words[1..=ITEMS]).filter(|_| words[0] == MARK)?;
        Some((found, text(&words[1 + ITEMS..])))
    }
}

/// The labels of messages that are under way.
#[derive(Default)]
pub struct Labels {
    /// Labels of sends, and of receives that the program has freed, by their requests.
    pub(crate) kept: Vec<(usize, Label)>,
    /// Receives that wait for a label, by the program's requests.
    pub(crate) expected: Map<usize, Expected>,
    /// The number of labels at which it is time to drop the unused ones.
    pub(crate) sweep_at: usize,
}

impl Labels {
    /// A table without labels.
    pub const fn new() -> Self {
        Self { kept: Vec::new(), expected: Map::new(), sweep_at: 0 }
    }

    /// Returns whether the receives of the persistent request `handle` have room for a label.
    pub(crate) fn expects(&self, handle: usize) -> bool {
        self.expected.contains_key(&handle)
    }
}
