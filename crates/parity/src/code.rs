//! The code of a stripe: encodes parity blocks, and recovers any blocks from enough others.

use crate::combination::Combination;
use crate::kernel::Kernel;
use crate::matrix::Matrix;

/// Blocks of a stripe, data and parity, at most: the elements of the field.
pub const BLOCKS_MAX: usize = 256;

/// Why blocks cannot be encoded or recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// A stripe has at least one data block, and at most [`BLOCKS_MAX`] blocks.
    Shape {
        /// Data blocks asked for.
        data: usize,
        /// Parity blocks asked for.
        parity: usize,
    },
    /// Another number of blocks was given than the stripe has.
    Count {
        /// Blocks expected.
        expected: usize,
        /// Blocks given.
        given: usize,
    },
    /// The blocks do not all have one length.
    Length,
    /// A block's number is not below the number of blocks, or is given twice.
    Number(usize),
    /// Fewer blocks are left than the stripe has data blocks.
    TooFew {
        /// Blocks needed.
        needed: usize,
        /// Blocks given.
        given: usize,
    },
}

/// A code with a number of data and parity blocks. Data blocks have the numbers from 0, parity
/// blocks those after them.
///
/// ```
/// use euphrates_parity::ErasureCode;
///
/// let code = ErasureCode::new(2, 1)?;
/// let mut parity = [0; 5];
/// code.encode(&[b"hello", b"world"], &mut [&mut parity])?;
/// let mut lost = [0; 5];
/// code.recover(&[(1, b"world"), (2, &parity)], &mut [(0, &mut lost)])?;
/// assert_eq!(&lost, b"hello");
/// # Ok::<(), euphrates_parity::CodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ErasureCode {
    generator: Matrix,
    data: usize,
    encoder: Combination,
    kernel: Kernel,
}

impl ErasureCode {
    /// A code with the fastest kernel of this processor. With one data block it is replication.
    ///
    /// # Errors
    /// [`CodeError::Shape`] for no data block, or more than [`BLOCKS_MAX`] blocks.
    pub fn new(data: usize, parity: usize) -> Result<ErasureCode, CodeError> {
        if data == 0 || data.saturating_add(parity) > BLOCKS_MAX {
            return Err(CodeError::Shape { data, parity });
        }
        let generator = Matrix::generator(data, parity);
        let rows = Matrix { rows: generator.rows[data..].to_vec() };
        let encoder = Combination::new(&rows, data);
        Ok(ErasureCode { generator, data, encoder, kernel: Kernel::fastest() })
    }

    /// The same code with a certain kernel, for tests and benchmarks. The kernel must be supported.
    pub fn with_kernel(self, kernel: Kernel) -> ErasureCode {
        assert!(kernel.is_supported(), "{kernel:?} cannot run on this processor");
        ErasureCode { kernel, ..self }
    }

    /// The number of data blocks: as many blocks are needed to recover others.
    pub fn data(&self) -> usize {
        self.data
    }

    /// The number of parity blocks: as many may be lost.
    pub fn parity(&self) -> usize {
        self.encoder.outputs
    }

    /// Overwrites the parity blocks with the parity of the data blocks.
    ///
    /// # Errors
    /// [`CodeError::Count`] and [`CodeError::Length`] if the blocks do not fit the code.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodeError> {
        expect_count(self.data, data.len())?;
        expect_count(self.parity(), parity.len())?;
        let lengths = parity.iter().map(|block| block.len());
        expect_one_length(data.iter().map(|block| block.len()).chain(lengths))?;
        self.kernel.run(&self.encoder, data, parity);
        Ok(())
    }

    /// Overwrites `missing` blocks, data or parity, with what they were, from the first of the
    /// blocks that are `left`. The matrix is inverted for every call, in time of the cube of the
    /// data blocks: little beside blocks of a megabyte.
    ///
    /// # Errors
    /// [`CodeError::TooFew`] with fewer blocks than data blocks, [`CodeError::Number`] for a number
    /// that the stripe does not have or that is given twice, and [`CodeError::Length`].
    pub fn recover(
        &self,
        left: &[(usize, &[u8])],
        missing: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodeError> {
        let mut seen = [false; BLOCKS_MAX];
        let numbers = left.iter().map(|&(number, _)| number);
        for number in numbers.chain(missing.iter().map(|&(number, _)| number)) {
            let is_known = number < self.generator.rows.len();
            if !is_known || std::mem::replace(&mut seen[number], true) {
                return Err(CodeError::Number(number));
            }
        }
        if left.len() < self.data {
            return Err(CodeError::TooFew { needed: self.data, given: left.len() });
        }
        let used = &left[..self.data];
        let lengths = missing.iter().map(|(_, block)| block.len());
        expect_one_length(used.iter().map(|(_, block)| block.len()).chain(lengths))?;
        let rows_of = |numbers: &mut dyn Iterator<Item = usize>| Matrix {
            rows: numbers.map(|number| self.generator.rows[number].clone()).collect(),
        };
        let to_data = rows_of(&mut used.iter().map(|&(number, _)| number)).inverse();
        let to_data = to_data.expect("any rows of the generator can be inverted");
        let rows = rows_of(&mut missing.iter().map(|&(number, _)| number)).times(&to_data);
        let inputs: Vec<&[u8]> = used.iter().map(|&(_, block)| block).collect();
        let mut outputs: Vec<&mut [u8]> =
            missing.iter_mut().map(|(_, block)| &mut **block).collect();
        self.kernel.run(&Combination::new(&rows, self.data), &inputs, &mut outputs);
        Ok(())
    }
}

fn expect_count(expected: usize, given: usize) -> Result<(), CodeError> {
    if expected == given { Ok(()) } else { Err(CodeError::Count { expected, given }) }
}

fn expect_one_length(mut lengths: impl Iterator<Item = usize>) -> Result<(), CodeError> {
    let first = lengths.next();
    let is_one = lengths.all(|length| Some(length) == first);
    if is_one { Ok(()) } else { Err(CodeError::Length) }
}
