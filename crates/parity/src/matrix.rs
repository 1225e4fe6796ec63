//! Matrices over GF(2^8): the generator of a code, products, and inverses.

use crate::field::{inverse, power, product};

/// A matrix, by rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub rows: Vec<Vec<u8>>,
}

impl Matrix {
    /// The generator of a code: `data` rows of the identity, then `parity` rows. Any `data` rows
    /// can be inverted, because that holds for a Vandermonde matrix of distinct elements, and a
    /// product with an invertible matrix keeps it.
    pub fn generator(data: usize, parity: usize) -> Matrix {
        let row = |at: usize| (0..data).map(|column| power(at as u8, column)).collect();
        let all = Matrix { rows: (0..data + parity).map(row).collect() };
        let top = Matrix { rows: all.rows[..data].to_vec() };
        all.times(&top.inverse().expect("distinct elements"))
    }

    /// The product with another matrix, whose height is the width of this one.
    pub fn times(&self, other: &Matrix) -> Matrix {
        let width = other.rows.first().map_or(0, Vec::len);
        let of_row = |row: &Vec<u8>| {
            let mut sums = vec![0; width];
            for (&factor, other) in row.iter().zip(&other.rows) {
                sums.iter_mut().zip(other).for_each(|(sum, &x)| *sum ^= product(factor, x));
            }
            sums
        };
        Matrix { rows: self.rows.iter().map(of_row).collect() }
    }

    /// The inverse of a square matrix by Gauss and Jordan; `None` if it has none.
    pub fn inverse(&self) -> Option<Matrix> {
        let size = self.rows.len();
        let mut left = self.rows.clone();
        let unit = |at: usize| (0..size).map(|column| u8::from(column == at)).collect();
        let mut right: Vec<Vec<u8>> = (0..size).map(unit).collect();
        for column in 0..size {
            let pivot = (column..size).find(|&row| left[row][column] != 0)?;
            left.swap(column, pivot);
            right.swap(column, pivot);
            let scale = inverse(left[column][column]);
            for x in left[column].iter_mut().chain(&mut right[column]) {
                *x = product(*x, scale);
            }
            let (pivot_left, pivot_right) = (left[column].clone(), right[column].clone());
            for row in (0..size).filter(|&row| row != column) {
                let factor = left[row][column];
                let subtract = |row: &mut Vec<u8>, pivot: &[u8]| {
                    row.iter_mut().zip(pivot).for_each(|(x, &p)| *x ^= product(factor, p));
                };
                subtract(&mut left[row], &pivot_left);
                subtract(&mut right[row], &pivot_right);
            }
        }
        Some(Matrix { rows: right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_undoes_a_matrix_and_a_singular_one_has_none() {
        let parity = Matrix { rows: Matrix::generator(5, 5).rows[5..].to_vec() };
        let unit = Matrix { rows: Matrix::generator(5, 0).rows };
        assert_eq!(parity.times(&parity.inverse().unwrap()), unit);
        assert_eq!(Matrix { rows: vec![vec![1, 2], vec![1, 2]] }.inverse(), None);
    }

    #[test]
    fn code_of_one_data_block_is_replication() {
        assert_eq!(Matrix::generator(1, 3).rows, vec![vec![1]; 4]);
    }
}
