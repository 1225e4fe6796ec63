//! A cursor over the values in a data page of a flat column.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use euphrates_flow::{Error, Result};

use super::flat_values::{FlatValues, wide};
use super::hybrid_decoder::HybridDecoder;
use super::page_dictionary::PageDictionary;
use super::strings::{StringCursor, StringValues, short};

/// The values of a page behind the cursor.
pub enum PageValues {
    /// Each value by itself; truth values are bits.
    Plain(Bytes),
    /// Truth values, as bits without or with runs.
    Bits(HybridDecoder),
    /// Codes of the dictionary.
    Codes(HybridDecoder),
}

/// Which of the next rows, or values, to take.
#[derive(Clone, Copy)]
pub enum Selection<'a> {
    /// All of this many.
    All(usize),
    /// Those whose bit is set.
    Masked(&'a BooleanBuffer),
}

/// The inverse of the largest part of values that are left out of runs: where more are, taking
/// single values costs less.
const DENSE_INVERSE: usize = 4;

impl Selection<'_> {
    /// Number of rows, taken or not.
    pub fn len(&self) -> usize {
        match self {
            Selection::All(count) => *count,
            Selection::Masked(mask) => mask.len(),
        }
    }

    /// Whether so few are left out that runs of the others are long.
    fn is_dense(mask: &BooleanBuffer) -> bool {
        (mask.len() - mask.count_set_bits()) * DENSE_INVERSE <= mask.len()
    }

    /// Number of rows taken.
    pub fn count(&self) -> usize {
        match self {
            Selection::All(count) => *count,
            Selection::Masked(mask) => mask.count_set_bits(),
        }
    }
}

impl PageValues {
    /// Appends the selected values of those that follow, and moves behind them all.
    pub fn append(
        &mut self,
        selection: Selection<'_>,
        out: &mut FlatValues,
        dictionary: Option<&PageDictionary>,
    ) -> Result<()> {
        match (self, out) {
            (PageValues::Bits(bits), FlatValues::Bits(out)) => match selection {
                Selection::All(count) => bits.bits(count, out),
                Selection::Masked(mask) => {
                    let mut all = BooleanBufferBuilder::new(mask.len());
                    bits.bits(mask.len(), &mut all)?;
                    mask.set_indices().for_each(|at| out.append(all.get_bit(at)));
                    Ok(())
                }
            },
            (PageValues::Codes(codes), out) => {
                let dictionary =
                    dictionary.ok_or_else(|| Error::corrupt("codes without a dictionary"))?;
                let mut decode = |into: &mut Vec<u32>| match selection {
                    Selection::All(count) => codes.values(count, into),
                    Selection::Masked(mask) if Selection::is_dense(mask) => {
                        let before = into.len();
                        codes.values(mask.len(), into)?;
                        keep(into, before, mask);
                        Ok(())
                    }
                    Selection::Masked(mask) => codes.selected(mask, into),
                };
                if let FlatValues::Codes(kept) = out {
                    let before = kept.len();
                    decode(kept)?;
                    return dictionary.check(&kept[before..]);
                }
                let mut all = vec![];
                decode(&mut all)?;
                dictionary.append(&all, out)
            }
            (PageValues::Plain(page), FlatValues::Four(out)) => {
                numbers(page, selection, out, u32::from_le_bytes)
            }
            (PageValues::Plain(page), FlatValues::Eight(out)) => {
                numbers(page, selection, out, u64::from_le_bytes)
            }
            (PageValues::Plain(page), FlatValues::Decimals(out)) => {
                numbers(page, selection, out, wide)
            }
            (PageValues::Plain(page), FlatValues::Fixed(width, out)) => {
                fixed(page, *width, selection, out)
            }
            (PageValues::Plain(page), out) => {
                let strings = out.strings(dictionary.and_then(PageDictionary::strings))?;
                append_strings(page, selection, strings)
            }
            _ => Err(Error::corrupt("a page of another type than its column")),
        }
    }
}

/// Of the codes from position `begin` on, keeps those whose bit is set.
fn keep(codes: &mut Vec<u32>, begin: usize, mask: &BooleanBuffer) {
    let mut end = begin;
    for (from, to) in mask.set_slices() {
        codes.copy_within(begin + from..begin + to, end);
        end += to - from;
    }
    codes.truncate(end);
}

/// The bytes of the next `count` values of `width` bytes.
fn next(page: &mut Bytes, count: usize, width: usize) -> Result<Bytes> {
    let bytes = count.checked_mul(width).filter(|bytes| *bytes <= page.len());
    Ok(page.split_to(bytes.ok_or_else(short)?))
}

fn numbers<T, const WIDTH: usize>(
    page: &mut Bytes,
    selection: Selection<'_>,
    out: &mut Vec<T>,
    of_bytes: impl Fn([u8; WIDTH]) -> T,
) -> Result<()> {
    let bytes = next(page, selection.len(), WIDTH)?;
    let (values, _) = bytes.as_chunks::<WIDTH>();
    match selection {
        Selection::All(_) => out.extend(values.iter().map(|value| of_bytes(*value))),
        Selection::Masked(mask) if Selection::is_dense(mask) => {
            for (begin, end) in mask.set_slices() {
                out.extend(values[begin..end].iter().map(|value| of_bytes(*value)));
            }
        }
        Selection::Masked(mask) => {
            out.extend(mask.set_indices().map(|at| of_bytes(values[at])));
        }
    }
    Ok(())
}

fn fixed(
    page: &mut Bytes,
    width: usize,
    selection: Selection<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let bytes = next(page, selection.len(), width)?;
    match selection {
        Selection::All(_) => out.extend_from_slice(&bytes),
        Selection::Masked(mask) => {
            for (begin, end) in mask.set_slices() {
                out.extend_from_slice(&bytes[begin * width..end * width]);
            }
        }
    }
    Ok(())
}

fn append_strings(
    page: &mut Bytes,
    selection: Selection<'_>,
    out: &mut StringValues,
) -> Result<()> {
    let mut strings = StringCursor::new(page);
    match selection {
        Selection::All(count) => {
            for _ in 0..count {
                out.push_next(&mut strings)?;
            }
        }
        Selection::Masked(mask) => {
            let mut passed = 0;
            for at in mask.set_indices() {
                if at > passed {
                    strings.nth(at - passed - 1).ok_or_else(short)?;
                }
                out.push_next(&mut strings)?;
                passed = at + 1;
            }
            if passed < mask.len() {
                strings.nth(mask.len() - passed - 1).ok_or_else(short)?;
            }
        }
    }
    let done = page.len() - strings.rest.len();
    let _ = page.split_to(done);
    Ok(())
}
