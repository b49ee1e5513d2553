//! Views against a naive list: each byte of the data by itself, in tiles that are written out.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A view as a list: the offset of each byte of the data, for some tiles.
struct Listed {
    bytes: Vec<u64>,
    etype: u64,
}

impl Listed {
    fn new(displacement: u64, etype: &Layout, filetype: &Layout, tiles: u64) -> Self {
        let mut bytes = Vec::new();
        for tile in 0..tiles {
            filetype.runs(1, 0..filetype.size(), &mut |offset, length| {
                let first = displacement + tile * filetype.extent() as u64 + offset as u64;
                bytes.extend(first..first + length as u64);
            });
        }
        Self { bytes, etype: etype.size() }
    }

    /// The number of the first etype that begins at `size` or later.
    fn end_of_file(&self, size: u64) -> Option<u64> {
        self.bytes.iter().step_by(self.etype as usize).position(|at| *at >= size).map(|at| at as u64)
    }
}

fn byte() -> Layout {
    Layout::element(Element::Byte)
}

fn ints() -> Layout {
    Layout::element(Element::Int32)
}

/// Blocks of 4 bytes at increasing displacements, with an extent of their own.
fn filetypes() -> impl Strategy<Value = Layout> {
    let gaps = prop::collection::vec((0_u64..4, 1_u64..4), 1..6);
    (gaps, 0_u64..40, any::<bool>()).prop_map(|(gaps, more, interleaves)| {
        let mut at = 0;
        let mut blocks = Vec::new();
        for (gap, length) in gaps {
            at += gap * 4;
            blocks.push((at as i64, length));
            at += length * 4;
        }
        let layout = Layout::indexed(&blocks, &ints()).unwrap();
        let extent = if interleaves { 4 + more } else { at + more };
        Layout::resized(&layout, 0, extent as i64).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A range of the data of a random view.   Expect: the bytes of the list, the span around them, the same
    /// end of file, and an overlap where a tile of the list has a byte twice.
    #[test]
    fn a_view_is_its_list(filetype in filetypes(), displacement in 0_u64..50, from in 0_u64..60, length in 0_u64..60,
                          size in 0_u64..400, whole in any::<bool>()) {
        let etype = if whole { filetype.clone() } else { ints() };
        let view = View::new(displacement as i64, &etype, &filetype).unwrap();
        let listed = Listed::new(displacement, &etype, &filetype, 120);
        let range = from..from + length;
        let mut seen = Vec::new();
        view.runs(range.clone(), &mut |offset, bytes| seen.extend(offset..offset + bytes));
        prop_assert_eq!(&seen[..], &listed.bytes[from as usize..(from + length) as usize]);
        let span = view.check(range).unwrap();
        if let (Some(low), Some(high)) = (seen.iter().min(), seen.iter().max()) {
            prop_assert!(span.start <= *low && span.end > *high, "{:?} around {}..={}", span, low, high);
        }
        prop_assert_eq!(view.byte_offset(from).unwrap(), listed.bytes[from as usize]);
        if let Some(end) = listed.end_of_file(size) {
            prop_assert_eq!(view.end_of_file(size), end);
        }
        if view.is_ordered() {
            let before = listed.bytes.iter().filter(|at| **at < size).count() as u64;
            prop_assert_eq!(view.data_before(size), before);
            prop_assert!(listed.bytes.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let mut bytes = listed.bytes.clone();
        bytes.truncate(filetype.size() as usize);
        bytes.sort_unstable();
        bytes.dedup();
        prop_assert_eq!(view.overlaps(), (bytes.len() as u64) < filetype.size());
    }
}

/// The view of a new file.   Expect: every byte is its own offset, up to 2^63 - 1 and no further.
#[test]
fn the_default_view_is_the_file() {
    let view = View::default();
    assert_eq!(view.byte_offset(1 << 40), Ok(1 << 40));
    assert_eq!(view.check(5..9), Ok(5..9));
    assert_eq!(view.check(OFFSET_MAX - 1..OFFSET_MAX), Ok(OFFSET_MAX - 1..OFFSET_MAX));
    assert_eq!(view.check(5..OFFSET_MAX + 1), Err(OutOfView::TooFar));
    assert_eq!(view.end_of_file(77), 77);
    assert!(view.is_contiguous() && !view.overlaps());
}

/// Tiles of a terabyte, and runs of more than 4 GiB.   Expect: offsets without an expansion, and a refusal
/// where the last tile leaves the file.
#[test]
fn offsets_of_64_bits() {
    let block = Layout::contiguous(5 << 30, &byte()).unwrap();
    let filetype = Layout::resized(&block, 0, 1 << 40).unwrap();
    let view = View::new(1 << 20, &byte(), &filetype).unwrap();
    let mut seen = Vec::new();
    view.runs((5 << 30) - 1..(10 << 30) + 1, &mut |offset, bytes| seen.push((offset, bytes)));
    let tile = |tile: u64| (1 << 20) + (tile << 40);
    assert_eq!(seen, [(tile(0) + (5 << 30) - 1, 1), (tile(1), 5 << 30), (tile(2), 1)]);
    let last_tile = (1 << 23) - 1;
    assert!(view.check(last_tile * (5 << 30) - 1..last_tile * (5 << 30)).is_ok());
    assert_eq!(view.check(0..(5 << 30) * (1 << 23) + 1), Err(OutOfView::TooFar));
    assert_eq!(view.end_of_file(tile(3) + 7), 3 * (5 << 30) + 7);
    assert_eq!(view.end_of_file(tile(3) + (6 << 30)), 4 * (5 << 30));
}

/// Each rule of the standard is broken once.   Expect: the reason for it.
#[test]
fn wrong_views_are_refused() {
    let at = |blocks: &[(i64, u64)]| Layout::indexed(blocks, &byte()).unwrap();
    let wrong = |displacement, etype: &Layout, filetype: &Layout| View::new(displacement, etype, filetype).unwrap_err();
    assert_eq!(wrong(-1, &byte(), &byte()), WrongView::Displacement(-1));
    assert_eq!(wrong(0, &ints(), &at(&[(0, 6)])), WrongView::NotWhole { etype: 4, filetype: 6 });
    assert_eq!(wrong(0, &byte(), &at(&[(-3, 1), (4, 2)])), WrongView::BeforeOrigin(-3));
    assert_eq!(wrong(0, &byte(), &at(&[(8, 1), (4, 2)])), WrongView::GoesBack(4));
    let back = Layout::vector(3, 1, -8, &byte()).unwrap();
    let back = Layout::indexed(&[(16, 1)], &back).unwrap();
    assert_eq!(wrong(0, &byte(), &back), WrongView::GoesBack(8));
    let none = Layout::resized(&byte(), 0, 0).unwrap();
    assert_eq!(wrong(0, &byte(), &none), WrongView::Extent(0));
    assert_eq!(wrong(i64::MAX, &byte(), &byte()), WrongView::TooFar);
    for wrong in [WrongView::Displacement(-1), WrongView::NotWhole { etype: 4, filetype: 6 }, WrongView::GoesBack(3)] {
        assert!(!alloc::format!("{wrong}").is_empty());
    }
}

/// A filetype without data, as a process that takes no part has it.   Expect: a view in which nothing can be
/// visited, and whose end is at 0.
#[test]
fn a_view_without_data() {
    let empty = Layout::contiguous(0, &byte()).unwrap();
    let view = View::new(40, &byte(), &empty).unwrap();
    assert_eq!((view.check(0..0), view.check(0..1)), (Ok(40..40), Err(OutOfView::NoData)));
    assert_eq!((view.end_of_file(100), view.byte_offset(3)), (0, Ok(40)));
    assert!(View::new(0, &empty, &empty).is_ok());
}
