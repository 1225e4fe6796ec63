//! The kernel for any processor: doubles the bytes of an input eight times, and adds what the bits
//! of each factor select. It has no tables and no branches, so the compiler makes vectors of it.

use crate::combination::{Combination, OUTPUTS_MAX, double_all};

const STEP: usize = 64;

/// Computes the outputs from `first` on, from byte `done` to their end.
pub fn run(
    sums: &Combination,
    first: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    done: usize,
) {
    let length = outputs.first().map_or(0, |output| output.len());
    for at in (done..length).step_by(STEP) {
        let bytes = STEP.min(length - at);
        let mut sum = [[0u8; STEP]; OUTPUTS_MAX];
        for (j, input) in inputs.iter().enumerate() {
            let mut x = [0u8; STEP];
            x[..bytes].copy_from_slice(&input[at..at + bytes]);
            let factors = &sums.factors[sums.at(j, first)..][..outputs.len()];
            for bit in 0..8 {
                for (sum, factor) in sum.iter_mut().zip(factors) {
                    let mask = (factor >> bit & 1).wrapping_neg();
                    sum.iter_mut().zip(&x).for_each(|(sum, x)| *sum ^= x & mask);
                }
                double_all(&mut x);
            }
        }
        for (output, sum) in outputs.iter_mut().zip(&sum) {
            output[at..at + bytes].copy_from_slice(&sum[..bytes]);
        }
    }
}
