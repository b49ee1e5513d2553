//! The basic elements of a type map, in order, without their displacements (MPI-5.0 §5.1.11).

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::element::Element;
use super::{Layout, Overflow};

/// The elements of one item.
#[derive(Clone, Debug)]
pub(super) struct Census {
    bytes: u64,
    elements: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Nothing,
    /// Only this element, any number of times.
    Uniform(Element),
    /// A mixed type again and again.
    Repeat(Layout),
    /// Blocks of different types.
    Sequence(Arc<[Member]>),
}

#[derive(Clone, Debug)]
struct Member {
    /// Packed bytes before it.
    start: u64,
    /// Basic elements before it.
    elements_before: u64,
    of: Layout,
}

impl Census {
    pub(super) fn of_element(element: Element) -> Census {
        let content = Content::Uniform(element);
        Census { bytes: element.size() as u64, elements: element.basic_elements(), content }
    }

    pub(super) fn repeated(times: u64, of: &Layout) -> Result<Census, Overflow> {
        let inner = &of.0.census;
        let content = match &inner.content {
            _ if times == 0 => Content::Nothing,
            Content::Nothing | Content::Uniform(_) => inner.content.clone(),
            Content::Repeat(innermost) => Content::Repeat(innermost.clone()),
            Content::Sequence(_) => Content::Repeat(of.clone()),
        };
        let bytes = inner.bytes.checked_mul(times).filter(|&bytes| i64::try_from(bytes).is_ok());
        let elements = inner.elements.checked_mul(times);
        Ok(Census { bytes: bytes.ok_or(Overflow::Bytes)?, elements: elements.ok_or(Overflow::Bytes)?, content })
    }

    pub(super) fn sequence(blocks: &[(i64, u64, Layout)]) -> Result<Census, Overflow> {
        let mut total = Census { bytes: 0, elements: 0, content: Content::Nothing };
        let mut members = Vec::with_capacity(blocks.len());
        let mut uniform = true;
        for (_, times, of) in blocks {
            let block = Census::repeated(*times, of)?;
            if block.bytes == 0 {
                continue;
            }
            uniform &= match (total.homogeneous(), block.homogeneous()) {
                (_, None) => false,
                (None, _) => total.bytes == 0,
                (Some(before), Some(now)) => before == now,
            };
            members.push(Member { start: total.bytes, elements_before: total.elements, of: of.clone() });
            let bytes = total.bytes.checked_add(block.bytes).filter(|&bytes| i64::try_from(bytes).is_ok());
            total.bytes = bytes.ok_or(Overflow::Bytes)?;
            total.elements = total.elements.checked_add(block.elements).ok_or(Overflow::Bytes)?;
            if members.len() == 1 {
                total.content = block.content;
            }
        }
        if members.len() > 1 && !uniform {
            total.content = Content::Sequence(members.into());
        }
        Ok(total)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    pub(super) fn is_flat(&self) -> bool {
        matches!(self.content, Content::Nothing | Content::Uniform(_))
    }

    pub(super) fn homogeneous(&self) -> Option<Element> {
        match self.content {
            Content::Uniform(element) => Some(element),
            _ => None,
        }
    }

    /// Basic elements in the first `bytes` packed bytes of endlessly many items.
    pub(super) fn elements_in(&self, bytes: u64) -> Option<u64> {
        match &self.content {
            Content::Nothing => (bytes == 0).then_some(0),
            Content::Uniform(element) => {
                let size = element.size() as u64;
                let whole = (bytes / size).checked_mul(element.basic_elements())?;
                Some(whole + element.basic_elements_in(bytes % size)?)
            }
            Content::Repeat(of) => of.0.census.elements_in(bytes),
            Content::Sequence(members) => {
                let (items, rest) = (bytes / self.bytes, bytes % self.bytes);
                let whole = items.checked_mul(self.elements)?;
                let member = &members[members.partition_point(|member| member.start <= rest) - 1];
                let inside = member.of.0.census.elements_in(rest - member.start)?;
                whole.checked_add(member.elements_before)?.checked_add(inside)
            }
        }
    }
}
