//! Where all instances of a module wait for each other.

use euphrates_flow::metrics::State;
use euphrates_flow::{Ports, Result};

/// Waits for all instances, wherever they are, and gives what each has brought.
pub fn meet(ports: &Ports, name: &str, numbers: &[usize]) -> Result<Vec<Vec<usize>>> {
    let value = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()).collect();
    let all = {
        let _state = ports.metrics().enter(State::Starved);
        ports.setup().gather(name, value)?
    };
    Ok(all.iter().map(|value| brought(value)).collect())
}

/// The numbers that an instance has brought.
pub fn brought(value: &[u8]) -> Vec<usize> {
    let numbers = value.as_chunks().0.iter().copied().map(u64::from_le_bytes);
    numbers.map(|number| number as usize).collect()
}
