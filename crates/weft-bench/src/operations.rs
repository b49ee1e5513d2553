//! Collective operations, as command lines name them.

use weft_mpi::algorithms::choice::Operation;

/// The operations of these names, or all.
///
/// # Errors
/// A sentence, if a name is no operation's.
pub fn operations(names: &[String]) -> Result<Vec<Operation>, String> {
    let find = |name: &String| {
        let all = || Operation::ALL.map(Operation::name).join(", ");
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| format!("there is no operation {name}: it may be {}", all()))
    };
    if names.is_empty() { Ok(Operation::ALL.to_vec()) } else { names.iter().map(find).collect() }
}
