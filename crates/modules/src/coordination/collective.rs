//! Collective operations of all instances of a module.

use euphrates_flow::metrics::InstanceState;
use euphrates_flow::{Ports, Result};

/// Waits for all instances, in any process, and returns the numbers that each contributed, by
/// instance.
pub(crate) fn all_gather(ports: &Ports, name: &str, numbers: &[usize]) -> Result<Vec<Vec<usize>>> {
    let value = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()).collect();
    let all = {
        let _state = ports.metrics().enter(InstanceState::Starved);
        ports.setup().all_gather(name, value)?
    };
    Ok(all.iter().map(|value| decode_counts(value)).collect())
}

/// Decodes the numbers that an instance contributed.
pub(crate) fn decode_counts(value: &[u8]) -> Vec<usize> {
    let numbers = value.as_chunks().0.iter().copied().map(u64::from_le_bytes);
    numbers.map(|number| number as usize).collect()
}
