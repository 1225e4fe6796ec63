//! The kernel for GFNI with AVX-512: 128 bytes of each input are multiplied for up to four outputs.

use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::combination::Combination;

const STEP: usize = 128;

/// Computes the outputs from `first` on, and returns the bytes done: the length rounded down.
///
/// # Safety
/// The processor has GFNI, AVX-512F and AVX-512BW, and all blocks have one length.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
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

#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn rows<const P: usize>(
    sums: &Combination,
    first: usize,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> usize {
    let length = outputs[0].len();
    let to: [*mut u8; P] = std::array::from_fn(|p| outputs[p].as_mut_ptr());
    let mut at = 0;
    while at + STEP <= length {
        let mut sum: [[__m512i; 2]; P] = [[_mm512_setzero_si512(); 2]; P];
        for (j, input) in inputs.iter().enumerate() {
            // SAFETY: `at + STEP` is within the length of every block.
            let x = unsafe {
                let from = input.as_ptr().add(at);
                [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast())]
            };
            let matrices = &sums.affine[sums.at(j, first)..][..P];
            for (sum, &matrix) in sum.iter_mut().zip(matrices) {
                let matrix = _mm512_set1_epi64(matrix as i64);
                for (sum, &x) in sum.iter_mut().zip(&x) {
                    *sum = _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(x, matrix));
                }
            }
        }
        for (to, sum) in to.iter().zip(&sum) {
            // SAFETY: as above; the outputs are distinct, since they are exclusive borrows.
            unsafe {
                _mm512_storeu_si512(to.add(at).cast(), sum[0]);
                _mm512_storeu_si512(to.add(at + 64).cast(), sum[1]);
            }
        }
        at += STEP;
    }
    at
}
