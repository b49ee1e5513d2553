//! Batches of one-sided operations, and the datatypes that they describe.

use weft_core::layout::{Element, Layout};
use weft_core::one_sided::{Items, Record, Records, TargetLocation};
use weft_core::reduce::Op;
use weft_engine::memory::SharedBuffer;

/// Bytes of the window.
const WINDOW_BYTES: i64 = 4096;

/// Reads a batch, and walks over the bytes of a window that its datatypes touch, as far as they lie inside.
pub(crate) fn batch(bytes: &[u8]) {
    let window = SharedBuffer::new(WINDOW_BYTES as usize);
    let mut layouts: Vec<Layout> = Vec::new();
    for record in Records::new(bytes).map_while(Result::ok) {
        let mut again = Vec::new();
        record.write(&mut again);
        assert_eq!(Records::new(&again).next(), Some(Ok(record)));
        match record {
            Record::Put { location: TargetLocation { offset, items: Some(Items { layout, count, skip }) }, data } => {
                let Some(layout) = layouts.get(layout as usize) else { continue };
                let (Ok(total), Ok(offset)) = (layout.packed_size(count), i64::try_from(offset)) else { continue };
                let touched = layout.touched(count);
                let (low, high) = (offset.saturating_add(touched.start), offset.saturating_add(touched.end));
                let fits = skip.checked_add(data.len() as u64).is_some_and(|end| end <= total);
                if fits && 0 <= low && high <= WINDOW_BYTES && offset <= WINDOW_BYTES {
                    // The buffer checks every write against its bounds.
                    window.describe(offset as usize, count, layout).write(skip, data);
                }
            }
            Record::Layout { description, .. } => layouts.extend(Layout::from_description(description)),
            _ => {}
        }
    }
}

pub(crate) fn batch_seeds() -> Vec<Vec<u8>> {
    let int = Layout::element(Element::Int32);
    let column = Layout::vector(8, 1, 64, &int).expect("a column");
    let mixed = Layout::structure(&[(0, 1, column.clone()), (1000, 3, int)]).expect("a structure");
    let mut seed = Vec::new();
    for (number, layout) in [column, mixed].iter().enumerate() {
        let mut description = Vec::new();
        layout.describe(&mut description);
        Record::Layout { number: number as u32, description: &description }.write(&mut seed);
        let location = TargetLocation { offset: 16, items: Some(Items { layout: number as u32, count: 2, skip: 4 }) };
        Record::Put { location, data: &[7; 24] }.write(&mut seed);
        Record::Accumulate { location, op: Op::Sum, element: Element::Int32, data: &[1; 16] }.write(&mut seed);
    }
    Record::CompareAndSwap { offset: 8, element: Element::Int64, reply: 1, data: &[0; 16] }.write(&mut seed);
    Record::Flush { reply: 2 }.write(&mut seed);
    vec![seed]
}
