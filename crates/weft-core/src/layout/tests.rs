//! Tests of layouts: against a naive expansion of the type map, and the standard's own examples.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::Element::*;
use super::*;

/// A datatype as the program describes it.
#[derive(Clone, Debug)]
enum Recipe {
    Basic(Element),
    Vector(u64, u64, i64, Box<Recipe>),
    Indexed(Vec<(i64, u64)>, Box<Recipe>),
    Structure(Vec<(i64, u64, Recipe)>),
    Resized(i64, i64, Box<Recipe>),
}

/// An entry of a type map (MPI-5.0 §5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// (offset, size, alignment)
    Data(i64, i64, i64),
    /// Markers, from `MPI_Type_create_resized`.
    Lower(i64),
    Upper(i64),
    /// Bounds of something inside that has no markers.
    Span(i64, i64),
}

impl Entry {
    fn shifted(self, by: i64) -> Entry {
        match self {
            Entry::Data(at, size, alignment) => Entry::Data(at + by, size, alignment),
            Entry::Lower(at) => Entry::Lower(at + by),
            Entry::Upper(at) => Entry::Upper(at + by),
            Entry::Span(from, to) => Entry::Span(from + by, to + by),
        }
    }
}

/// The naive model: the type map itself, and the definitions of §5.1.6 word by word, where ε is that of
/// structures only.
fn type_map(recipe: &Recipe) -> Vec<Entry> {
    let copies = |of: &[Entry], count: u64, step: i64, out: &mut Vec<Entry>, at: i64| {
        for index in 0..count as i64 {
            out.extend(of.iter().map(|entry| entry.shifted(at + index * step)));
        }
    };
    let mut map = Vec::new();
    match recipe {
        Recipe::Basic(element) => {
            match element.pair() {
                None => map.push(Entry::Data(0, element.size() as i64, element.alignment() as i64)),
                Some(pair) => {
                    let alignment = element.alignment() as i64;
                    map.push(Entry::Data(0, pair.value_size as i64, alignment));
                    map.push(Entry::Data(pair.index_offset as i64, pair.index_size as i64, alignment));
                }
            }
            map.push(Entry::Span(0, element.extent() as i64));
        }
        Recipe::Vector(count, length, stride, of) => {
            let of = type_map(of);
            for block in 0..*count as i64 {
                copies(&of, *length, extent(&of), &mut map, block * stride);
            }
        }
        Recipe::Indexed(blocks, of) => {
            let of = type_map(of);
            for &(at, length) in blocks {
                copies(&of, length, extent(&of), &mut map, at);
            }
        }
        Recipe::Structure(blocks) => {
            for (at, length, of) in blocks {
                let of = type_map(of);
                copies(&of, *length, extent(&of), &mut map, *at);
            }
            let (low, mut high) = bounds_of(&map);
            let alignment =
                map.iter().filter_map(|entry| if let Entry::Data(_, _, by) = entry { Some(*by) } else { None });
            let alignment = alignment.max().unwrap_or(1);
            while (high - low) % alignment != 0 {
                high += 1;
            }
            map.push(Entry::Span(low, high));
        }
        Recipe::Resized(lb, extent, of) => {
            map = type_map(of);
            map.retain(|entry| matches!(entry, Entry::Data(..)));
            map.push(Entry::Lower(*lb));
            map.push(Entry::Upper(lb + extent));
        }
    }
    if data(&map).next().is_none() {
        map.retain(|entry| !matches!(entry, Entry::Span(..)));
    }
    map
}

fn data(map: &[Entry]) -> impl Iterator<Item = (i64, i64)> {
    map.iter().filter_map(|entry| if let Entry::Data(at, size, _) = *entry { Some((at, size)) } else { None })
}

fn true_bounds(map: &[Entry]) -> (i64, i64) {
    let low = data(map).map(|(at, _)| at).min().unwrap_or(0);
    (low, data(map).map(|(at, size)| at + size).max().unwrap_or(0))
}

fn bounds_of(map: &[Entry]) -> (i64, i64) {
    let lowest = map.iter().filter_map(|entry| if let Entry::Lower(at) = entry { Some(*at) } else { None }).min();
    let highest = map.iter().filter_map(|entry| if let Entry::Upper(at) = entry { Some(*at) } else { None }).max();
    if let (Some(lowest), Some(highest)) = (lowest, highest) {
        return (lowest, highest);
    }
    let spans =
        || map.iter().filter_map(|entry| if let Entry::Span(from, to) = entry { Some((*from, *to)) } else { None });
    (spans().map(|span| span.0).min().unwrap_or(0), spans().map(|span| span.1).max().unwrap_or(0))
}

fn extent(map: &[Entry]) -> i64 {
    let (lb, ub) = bounds_of(map);
    ub - lb
}

fn build(recipe: &Recipe) -> Layout {
    match recipe {
        Recipe::Basic(element) => Layout::element(*element),
        Recipe::Vector(count, length, stride, of) => Layout::vector(*count, *length, *stride, &build(of)).unwrap(),
        Recipe::Indexed(blocks, of) => Layout::indexed(blocks, &build(of)).unwrap(),
        Recipe::Structure(blocks) => {
            let blocks: Vec<_> = blocks.iter().map(|(at, length, of)| (*at, *length, build(of))).collect();
            Layout::structure(&blocks).unwrap()
        }
        Recipe::Resized(lb, extent, of) => Layout::resized(&build(of), *lb, *extent).unwrap(),
    }
}

/// The offset of every packed byte of `count` items.
fn naive_bytes(map: &[Entry], count: u64) -> Vec<i64> {
    let step = extent(map);
    let mut bytes = Vec::new();
    for item in 0..count as i64 {
        for (at, size) in data(map) {
            bytes.extend((0..size).map(|byte| item * step + at + byte));
        }
    }
    bytes
}

fn bytes_of(layout: &Layout, count: u64, range: Range<u64>) -> Vec<i64> {
    let mut bytes = Vec::new();
    layout.runs(count, range, &mut |offset, length| {
        assert!(length > 0, "an empty run");
        // Bytes that touch would have been joined.
        assert_ne!(bytes.last().map(|last| last + 1), Some(offset), "adjacent runs were not joined");
        bytes.extend((0..length as i64).map(|byte| offset + byte));
    });
    bytes
}

fn check(recipe: &Recipe, count: u64, cuts: &[u64]) {
    let map = type_map(recipe);
    let layout = build(recipe);
    let size = data(&map).map(|(_, size)| size as u64).sum::<u64>();
    assert_eq!(layout.size(), size);
    assert_eq!((layout.lb(), layout.ub()), bounds_of(&map));
    assert_eq!(layout.extent(), extent(&map));
    let (low, high) = true_bounds(&map);
    assert_eq!((layout.true_lb(), layout.true_extent()), (low, high - low));
    assert_eq!(layout.elements(), data(&map).count() as u64);

    let bytes = naive_bytes(&map, count);
    assert_eq!(layout.packed_size(count), Ok(bytes.len() as u64));
    assert_eq!(bytes_of(&layout, count, 0..u64::MAX), bytes);
    let touched = layout.touched(count);
    assert_eq!(touched.start, bytes.iter().copied().min().unwrap_or(0));
    assert_eq!(touched.end, bytes.iter().map(|byte| byte + 1).max().unwrap_or(0));

    let one_run = bytes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let single = layout.single_run(count);
    assert_eq!(layout.is_contiguous(count), single.is_some());
    if let Some((offset, length)) = single {
        assert!(one_run && length == bytes.len() as u64, "{single:?} is no single run");
        assert!(bytes.is_empty() || bytes[0] == offset);
    } else {
        // A single run may be missed only where items of irregular shape happen to fit into one another.
        assert!(!one_run || count > 1, "single run not seen");
    }

    // Any two cuts, and all the pieces between them.
    let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut % (bytes.len() as u64 + 1)).collect();
    cuts.sort_unstable();
    for (index, &from) in cuts.iter().enumerate() {
        for &to in &cuts[index..] {
            assert_eq!(bytes_of(&layout, count, from..to), bytes[from as usize..to as usize], "{from}..{to}");
        }
    }
    let ends: Vec<u64> = data(&map).scan(0, |end, (_, size)| (*end += size as u64, Some(*end)).1).collect();
    for cut in cuts {
        check_elements(&layout, &ends, size, cut);
    }
}

fn check_elements(layout: &Layout, ends: &[u64], size: u64, bytes: u64) {
    let expected = match bytes.checked_rem(size) {
        _ if bytes == 0 => Some(0),
        None => None,
        Some(rest) => {
            let inside = if rest == 0 { Some(0) } else { ends.iter().position(|&end| end == rest).map(|at| at + 1) };
            inside.map(|inside| bytes / size * ends.len() as u64 + inside as u64)
        }
    };
    assert_eq!(layout.elements_in(bytes), expected, "elements in {bytes} bytes");
    assert_eq!(
        layout.items_in(bytes),
        if bytes.checked_rem(size).unwrap_or(bytes) == 0 { Some(bytes.checked_div(size).unwrap_or(0)) } else { None }
    );
}

fn elements() -> impl Strategy<Value = Element> {
    prop::sample::select(vec![
        Int8,
        Int16,
        Int32,
        Float64,
        LongDouble,
        Byte,
        ComplexFloat32,
        ShortInt,
        DoubleInt,
        LongDoubleInt,
        TwoInt,
    ])
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let offset = prop_oneof![(-5i64..6).prop_map(|at| at * 8), -40i64..40];
    elements().prop_map(Recipe::Basic).prop_recursive(4, 24, 3, move |inner| {
        let blocks = prop::collection::vec((offset.clone(), 0u64..4), 0..5);
        let members = prop::collection::vec((offset.clone(), 0u64..3, inner.clone()), 0..4);
        let tight = (0u64..4, 0u64..4, inner.clone()).prop_map(|(count, length, of)| {
            // A stride that makes blocks touch.
            let stride = extent(&type_map(&of)) * length as i64;
            Recipe::Vector(count, length, stride, Box::new(of))
        });
        prop_oneof![
            (0u64..4, 0u64..4, offset.clone(), inner.clone()).prop_map(|(count, length, stride, of)| Recipe::Vector(
                count,
                length,
                stride,
                Box::new(of)
            )),
            tight,
            (blocks, inner.clone()).prop_map(|(blocks, of)| Recipe::Indexed(blocks, Box::new(of))),
            members.prop_map(Recipe::Structure),
            (-16i64..16, -16i64..64, inner).prop_map(|(lb, extent, of)| Recipe::Resized(lb, extent, Box::new(of))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_type_map(recipe in recipes(), count in 0u64..4, cuts in prop::collection::vec(any::<u64>(), 6)) {
        check(&recipe, count, &cuts);
    }
}

/// The facts of one predefined type, as a C compiler on x86-64 has them.
#[test]
fn predefined_types() {
    let table: [(Element, u64, i64, i64, usize); 35] = [
        (Int8, 1, 1, 1, 1),
        (Int16, 2, 2, 2, 2),
        (Int32, 4, 4, 4, 4),
        (Int64, 8, 8, 8, 8),
        (Int128, 16, 16, 16, 16),
        (UInt8, 1, 1, 1, 1),
        (UInt16, 2, 2, 2, 2),
        (UInt32, 4, 4, 4, 4),
        (UInt64, 8, 8, 8, 8),
        (Float16, 2, 2, 2, 2),
        (Float32, 4, 4, 4, 4),
        (Float64, 8, 8, 8, 8),
        (LongDouble, 16, 16, 16, 16),
        (ComplexFloat16, 4, 4, 4, 2),
        (ComplexFloat32, 8, 8, 8, 4),
        (ComplexFloat64, 16, 16, 16, 8),
        (ComplexLongDouble, 32, 32, 32, 16),
        (Bool, 1, 1, 1, 1),
        (Logical8, 1, 1, 1, 1),
        (Logical16, 2, 2, 2, 2),
        (Logical32, 4, 4, 4, 4),
        (Logical64, 8, 8, 8, 8),
        (Logical128, 16, 16, 16, 16),
        (Byte, 1, 1, 1, 1),
        (Char, 1, 1, 1, 1),
        (WChar, 4, 4, 4, 4),
        (Packed, 1, 1, 1, 1),
        (FloatInt, 8, 8, 8, 4),
        (DoubleInt, 12, 16, 12, 8),
        (LongInt, 12, 16, 12, 8),
        (TwoInt, 8, 8, 8, 4),
        (ShortInt, 6, 8, 8, 4),
        (LongDoubleInt, 20, 32, 20, 16),
        (TwoFloat32, 8, 8, 8, 4),
        (TwoFloat64, 16, 16, 16, 8),
    ];
    for (position, (element, size, extent, true_extent, alignment)) in table.into_iter().enumerate() {
        assert_eq!(Element::ALL[position], element);
        assert_eq!(element as usize, position);
        let layout = Layout::element(element);
        assert_eq!((layout.size(), layout.extent(), layout.true_extent()), (size, extent, true_extent), "{element:?}");
        assert_eq!((layout.lb(), layout.true_lb(), element.alignment()), (0, 0, alignment), "{element:?}");
        assert_eq!((element.size() as u64, element.extent() as i64), (size, extent));
        assert_eq!(layout.homogeneous(), Some(element));
        check(&Recipe::Basic(element), 3, &[0, 1, size, 2 * size]);
    }
}

/// MPI-5.0 §5.1.1, example 5.1: {(double, 0), (char, 8)} has extent 16.
#[test]
fn extent_is_rounded_up_to_the_alignment() {
    let layout = Layout::structure(&[(0, 1, Layout::element(Float64)), (8, 1, Layout::element(Char))]).unwrap();
    assert_eq!((layout.size(), layout.extent(), layout.true_extent()), (9, 16, 9));
    assert_eq!(layout.homogeneous(), None);
    assert_eq!(layout.alignment(), 8);
}

/// Only structures are rounded: other types have the bounds of the types inside, with their padding.
#[test]
fn only_structures_are_padded() {
    let double = Layout::element(Float64);
    let crooked = Layout::vector(3, 4, 6 * 8 + 1, &double).unwrap();
    assert_eq!((crooked.lb(), crooked.extent(), crooked.true_extent()), (0, 130, 130));
    assert_eq!(Layout::structure(&[(0, 1, crooked)]).unwrap().extent(), 136);
    let padded = Layout::structure(&[(0, 1, double.clone()), (8, 1, Layout::element(Char))]).unwrap();
    let two = Layout::vector(2, 1, 20, &padded).unwrap();
    assert_eq!((two.extent(), two.true_extent()), (36, 29));
    let long = Layout::indexed(&[(40, 1), (-16, 2)], &padded).unwrap();
    assert_eq!((long.lb(), long.ub(), long.true_lb(), long.true_extent()), (-16, 56, -16, 65));
}

/// MPI-5.0 §5.1.11, example 5.13: Type2 = 2 × REAL, Type3 of them; 2 and then 3 elements.
#[test]
fn get_elements_counts_basic_elements() {
    let pair = Layout::contiguous(2, &Layout::element(Float32)).unwrap();
    assert_eq!((pair.items_in(8), pair.elements_in(8)), (Some(1), Some(2)));
    assert_eq!((pair.items_in(12), pair.elements_in(12)), (None, Some(3)));
    assert_eq!(pair.elements_in(13), None);
}

#[test]
fn a_matrix_column_is_one_batch() {
    let column = Layout::vector(1000, 1, 8000, &Layout::element(Float64)).unwrap();
    let mut batches = Vec::new();
    column.batches(1, 0..8000, &mut |batch| batches.push(batch));
    assert_eq!(batches, [Batch { offset: 0, length: 8, step: 8000, count: 1000 }]);
    // Cut in the middle of two elements.
    batches.clear();
    column.batches(1, 12..7996, &mut |batch| batches.push(batch));
    assert_eq!(
        batches,
        [
            Batch { offset: 8004, length: 4, step: 0, count: 1 },
            Batch { offset: 16000, length: 8, step: 8000, count: 997 },
            Batch { offset: 999 * 8000, length: 4, step: 0, count: 1 },
        ]
    );
    // Columns side by side.
    let next_to = Layout::resized(&column, 0, 8).unwrap();
    batches.clear();
    next_to.batches(3, 0..24000, &mut |batch| batches.push(batch));
    assert_eq!(batches.len(), 3);
    assert_eq!(batches[2], Batch { offset: 16, length: 8, step: 8000, count: 1000 });
}

#[test]
fn what_is_contiguous_is_seen() {
    let double = Layout::element(Float64);
    let rows = Layout::vector(10, 5, 40, &double).unwrap();
    assert_eq!(rows.single_run(7), Some((0, 7 * 400)));
    let blocks = Layout::indexed(&[(8, 2), (24, 0), (24, 3)], &double).unwrap();
    assert_eq!(blocks.single_run(1), Some((8, 40)));
    assert_eq!(blocks.single_run(4), Some((8, 160)));
    let record = [(0, 1, Layout::element(Int32)), (4, 1, Layout::element(Float32)), (8, 2, double.clone())];
    assert_eq!(Layout::structure(&record).unwrap().single_run(3), Some((0, 72)));
    let spaced = Layout::resized(&double, 0, 16).unwrap();
    assert_eq!((spaced.single_run(1), spaced.single_run(2)), (Some((0, 8)), None));
    assert_eq!(Layout::structure(&[]).unwrap().single_run(5), Some((0, 0)));
    // Backwards is not a run, however tight.
    assert_eq!(Layout::vector(4, 1, -8, &double).unwrap().single_run(1), None);
}

#[test]
fn seeking_is_exact_in_huge_types() {
    // 2^40 blocks of 3 doubles, 1 KiB apart.
    let huge = Layout::vector(1 << 40, 3, 1024, &Layout::element(Float64)).unwrap();
    let middle = (1u64 << 39) * 24 + 20;
    let mut runs = Vec::new();
    huge.runs(1, middle..middle + 10, &mut |offset, length| runs.push((offset, length)));
    let block = (1i64 << 39) * 1024;
    assert_eq!(runs, [(block + 20, 4), (block + 1024, 6)]);
}

#[test]
fn overflow_is_an_error() {
    let double = Layout::element(Float64);
    let big = i64::MAX as u64;
    assert_eq!(Layout::contiguous(big, &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::contiguous(u64::MAX, &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::vector(3, 1, i64::MAX, &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::vector(3, 1, i64::MIN, &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::vector(u64::MAX, u64::MAX, 0, &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::indexed(&[(i64::MAX, 1)], &double).err(), Some(Overflow::Bytes));
    assert_eq!(Layout::indexed(&[(0, big / 8), (0, big / 8)], &double).err(), Some(Overflow::Bytes));
    assert_eq!(
        Layout::structure(&[(i64::MIN, 1, double.clone()), (0, 1, double.clone())]).err(),
        Some(Overflow::Bytes)
    );
    assert_eq!(Layout::resized(&double, i64::MAX, 1).err(), Some(Overflow::Bytes));
    assert_eq!(double.packed_size(big), Err(Overflow::Bytes));
    // The largest that fits.
    let largest = Layout::contiguous(big, &Layout::element(Byte)).unwrap();
    assert_eq!((largest.size(), largest.extent()), (big, i64::MAX));
    // Any number of empty items, anywhere, is empty.
    assert_eq!(Layout::vector(u64::MAX, 0, i64::MAX, &double).map(|none| none.size()), Ok(0));
}

#[test]
fn depth_has_a_limit() {
    let mut tower = Layout::structure(&[(0, 1, Layout::element(Char)), (4, 1, Layout::element(Int32))]).unwrap();
    let mut levels = 1;
    let error = loop {
        match Layout::structure(&[(3, 1, tower.clone()), (64, 1, Layout::element(Char))]) {
            Ok(higher) => tower = higher,
            Err(error) => break error,
        }
        levels += 1;
        assert!(levels <= DEPTH_MAX, "no limit met");
    };
    assert_eq!((error, levels), (Overflow::Depth, DEPTH_MAX));
    // The tallest tower can be walked: 5 bytes at the bottom, a char on each floor.
    let size = u64::from(DEPTH_MAX - 1) + 5;
    let mut seen = 0;
    tower.runs(2, 0..u64::MAX, &mut |_, length| seen += length as u64);
    assert_eq!((seen, tower.size()), (2 * size, size));
    assert_eq!(tower.elements_in(size), Some(u64::from(DEPTH_MAX) + 1));
}

/// Regular nesting is folded away and costs no depth.
#[test]
fn nested_contiguous_types_are_flat() {
    let mut layout = Layout::element(Int32);
    for _ in 0..DEPTH_MAX * 4 {
        layout = Layout::contiguous(1, &layout).unwrap();
    }
    assert_eq!(Layout::contiguous(6, &layout).unwrap().single_run(1), Some((0, 24)));
}
