//! The kernel for AVX2: 64 bytes of each input are multiplied by look-ups of half bytes.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::combination::Combination;

const STEP: usize = 64;

/// Computes the outputs from `first` on, and returns the bytes done: the length rounded down.
///
/// # Safety
/// The processor has AVX2, and all blocks have one length.
#[target_feature(enable = "avx2")]
pub unsafe fn run(
    sums: &Combination,
    first: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> usize {
    // SAFETY: as the caller promises; the number of outputs is that of the slice.
    unsafe {
        match outputs.len() {
            1 => rows::<1>(sums, first, inputs, outputs),
            2 => rows::<2>(sums, first, inputs, outputs),
            3 => rows::<3>(sums, first, inputs, outputs),
            _ => rows::<4>(sums, first, inputs, outputs),
        }
    }
}

#[target_feature(enable = "avx2")]
unsafe fn rows<const P: usize>(
    sums: &Combination,
    first: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> usize {
    let length = outputs[0].len();
    let to: [*mut u8; P] = std::array::from_fn(|p| outputs[p].as_mut_ptr());
    let low_half = _mm256_set1_epi8(15);
    let mut at = 0;
    while at + STEP <= length {
        let mut sum: [[__m256i; 2]; P] = [[_mm256_setzero_si256(); 2]; P];
        for (j, input) in inputs.iter().enumerate() {
            // SAFETY: `at + STEP` is within the length of every block.
            let x = unsafe {
                let from = input.as_ptr().add(at);
                [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())]
            };
            let low = [_mm256_and_si256(x[0], low_half), _mm256_and_si256(x[1], low_half)];
            let high = [
                _mm256_and_si256(_mm256_srli_epi64::<4>(x[0]), low_half),
                _mm256_and_si256(_mm256_srli_epi64::<4>(x[1]), low_half),
            ];
            let tables = &sums.nibbles[sums.at(j, first)..][..P];
            for (sum, table) in sum.iter_mut().zip(tables) {
                // SAFETY: a table has 32 bytes.
                let [of_low, of_high] = unsafe {
                    let table = table.as_ptr();
                    [_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())]
                };
                let of_low = _mm256_broadcastsi128_si256(of_low);
                let of_high = _mm256_broadcastsi128_si256(of_high);
                for half in 0..2 {
                    let low = _mm256_shuffle_epi8(of_low, low[half]);
                    let term = _mm256_xor_si256(low, _mm256_shuffle_epi8(of_high, high[half]));
                    sum[half] = _mm256_xor_si256(sum[half], term);
                }
            }
        }
        for (to, sum) in to.iter().zip(&sum) {
            // SAFETY: as above; the outputs are distinct, since they are exclusive borrows.
            unsafe {
                _mm256_storeu_si256(to.add(at).cast(), sum[0]);
                _mm256_storeu_si256(to.add(at + 32).cast(), sum[1]);
            }
        }
        at += STEP;
    }
    at
}
