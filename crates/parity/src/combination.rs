//! Coefficients of linear combinations of blocks, in the forms that the kernels multiply with.

use crate::field::{POLYNOMIAL, double, product};
use crate::matrix::Matrix;

/// Outputs that a kernel computes in one pass over the inputs, at most: their sums stay in
/// registers.
pub const OUTPUTS_MAX: usize = 4;

/// The sums that a kernel computes: output `p` is the sum over all inputs `j` of coefficient
/// `(p, j)` times input `j`. Coefficients are stored by input, then by output.
#[derive(Clone, Debug)]
pub struct Combination {
    pub inputs: usize,
    pub outputs: usize,
    pub factors: Vec<u8>,
    /// Multiplication by each factor as a matrix of bits, for GFNI.
    pub affine: Vec<u64>,
    /// The products of each factor with the low, then with the high half of a byte.
    pub nibbles: Vec<[u8; 32]>,
}

impl Combination {
    /// One output for each row of a matrix.
    pub fn new(matrix: &Matrix, inputs: usize) -> Combination {
        let by_input = (0..inputs).flat_map(|j| matrix.rows.iter().map(move |row| row[j]));
        let factors: Vec<u8> = by_input.collect();
        Combination {
            inputs,
            outputs: matrix.rows.len(),
            affine: factors.iter().map(|&factor| affine(factor)).collect(),
            nibbles: factors.iter().map(|&factor| nibbles(factor)).collect(),
            factors,
        }
    }

    /// Where the coefficients of one input for the outputs from `first` begin.
    pub fn at(&self, input: usize, first: usize) -> usize {
        input * self.outputs + first
    }
}

/// Multiplication by `factor` as the matrix of `gf2p8affineqb`: byte `7 - i` selects the bits of
/// the operand whose sum is bit `i` of the product. The instruction's own field has another
/// polynomial, but a matrix expresses any linear map.
fn affine(factor: u8) -> u64 {
    let (mut matrix, mut column) = ([0u8; 8], factor);
    for bit in 0..8 {
        for (i, row) in matrix.iter_mut().rev().enumerate() {
            *row |= (column >> i & 1) << bit;
        }
        column = double(column);
    }
    u64::from_le_bytes(matrix)
}

fn nibbles(factor: u8) -> [u8; 32] {
    std::array::from_fn(|at| {
        let low = (at % 16) as u8;
        product(factor, if at < 16 { low } else { low << 4 })
    })
}

/// Doubles each byte of a vector in the field, without branches.
pub fn double_all<const N: usize>(bytes: &mut [u8; N]) {
    for byte in bytes {
        let carry = ((*byte as i8) >> 7) as u8 & POLYNOMIAL;
        *byte = (*byte << 1) ^ carry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_multiply_as_the_field_does() {
        for factor in 0..=255 {
            let (matrix, table) = (affine(factor).to_le_bytes(), nibbles(factor));
            for x in 0..=255u8 {
                let bit = |i: usize| ((matrix[7 - i] & x).count_ones() as u8 & 1) << i;
                assert_eq!((0..8).map(bit).sum::<u8>(), product(factor, x));
                let halves = table[usize::from(x & 15)] ^ table[16 + usize::from(x >> 4)];
                assert_eq!(halves, product(factor, x));
            }
        }
        let mut all: [u8; 256] = std::array::from_fn(|x| x as u8);
        double_all(&mut all);
        assert!((0..=255).all(|x| all[usize::from(x)] == product(2, x)));
    }
}
