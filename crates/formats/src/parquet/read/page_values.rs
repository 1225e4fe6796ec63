//! A cursor over the values in a data page of a flat column.

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use bytes::Bytes;
use euphrates_flow::{Error, Result};

use super::flat_layout::FlatLayout;
use super::flat_values::{FlatValues, StringDictionary, StringValues, is_text};
use super::hybrid_decoder::HybridDecoder;

/// Bytes of the length before a string.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The values of a page behind the cursor.
pub enum PageValues {
    /// Each value by itself; truth values are bits.
    Plain(Bytes),
    /// Truth values, as bits without or with runs.
    Bits(HybridDecoder),
    /// Codes of the dictionary.
    Codes(HybridDecoder),
}

/// The values that the codes of a column chunk stand for.
pub enum PageDictionary {
    /// Numbers of four bytes.
    Four(Vec<u32>),
    /// Numbers of eight bytes.
    Eight(Vec<u64>),
    /// Strings of a fixed number of bytes.
    Fixed(usize, Vec<u8>),
    /// Strings of any length.
    Strings(StringDictionary),
}

/// Which of the next rows, or values, to take.
#[derive(Clone, Copy)]
pub enum Selection<'a> {
    /// All of this many.
    All(usize),
    /// Those whose bit is set.
    Masked(&'a BooleanBuffer),
}

impl Selection<'_> {
    /// Number of rows, taken or not.
    pub fn len(&self) -> usize {
        match self {
            Selection::All(count) => *count,
            Selection::Masked(mask) => mask.len(),
        }
    }

    /// Number of rows taken.
    pub fn count(&self) -> usize {
        match self {
            Selection::All(count) => *count,
            Selection::Masked(mask) => mask.count_set_bits(),
        }
    }
}

impl PageDictionary {
    /// Decodes a dictionary page of `count` plain values.
    pub fn new(
        page: Bytes,
        count: usize,
        layout: FlatLayout,
        data_type: &DataType,
    ) -> Result<PageDictionary> {
        let least_bytes = match layout {
            FlatLayout::Bits => return Err(Error::corrupt("a dictionary of truth values")),
            FlatLayout::Four => size_of::<u32>(),
            FlatLayout::Eight => size_of::<u64>(),
            FlatLayout::Fixed(width) => width,
            FlatLayout::Strings => LENGTH_BYTES,
        };
        if count.checked_mul(least_bytes).is_none_or(|bytes| bytes > page.len()) {
            return Err(short());
        }
        let mut values = match layout {
            FlatLayout::Strings => {
                let mut strings = StringValues::default();
                strings.bytes.reserve_exact(page.len().saturating_sub(count * LENGTH_BYTES));
                FlatValues::Strings(strings)
            }
            layout => FlatValues::new(layout),
        };
        values.reserve(count);
        PageValues::Plain(page).append(Selection::All(count), &mut values, None)?;
        Ok(match values {
            FlatValues::Four(values) => PageDictionary::Four(values),
            FlatValues::Eight(values) => PageDictionary::Eight(values),
            FlatValues::Fixed(width, bytes) => PageDictionary::Fixed(width, bytes),
            FlatValues::Strings(strings) => {
                let strings = strings.into_array(None, is_text(data_type))?;
                let data_type = match data_type {
                    DataType::Dictionary(_, values) => values,
                    other => other,
                };
                let typed = cast(&strings, data_type)?;
                PageDictionary::Strings(StringDictionary { strings, typed })
            }
            _ => return Err(Error::corrupt("a dictionary of truth values")),
        })
    }

    /// Length of the longest string in bytes; of a number, that of all.
    pub fn longest_string(&self) -> usize {
        match self {
            PageDictionary::Four(_) | PageDictionary::Eight(_) => size_of::<u64>(),
            PageDictionary::Fixed(width, _) => *width,
            PageDictionary::Strings(StringDictionary { strings, .. }) => {
                let data = strings.to_data();
                let lengths = data.buffer::<i32>(0).windows(2).map(|ends| ends[1] - ends[0]);
                lengths.max().unwrap_or(0) as usize
            }
        }
    }

    /// The strings of any length; `None` for other values.
    pub fn strings(&self) -> Option<&StringDictionary> {
        match self {
            PageDictionary::Strings(strings) => Some(strings),
            _ => None,
        }
    }

    /// The values as an array of this type.
    pub fn array(&self, data_type: &DataType) -> Result<ArrayRef> {
        let values = match self {
            PageDictionary::Four(values) => FlatValues::Four(values.clone()),
            PageDictionary::Eight(values) => FlatValues::Eight(values.clone()),
            PageDictionary::Fixed(width, bytes) => FlatValues::Fixed(*width, bytes.clone()),
            PageDictionary::Strings(strings) => return Ok(strings.typed.clone()),
        };
        values.into_array(None, data_type, None)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            PageDictionary::Four(values) => values.len(),
            PageDictionary::Eight(values) => values.len(),
            PageDictionary::Fixed(width, bytes) => bytes.len() / width,
            PageDictionary::Strings(of) => of.strings.len(),
        }
    }

    /// The numbers of these codes, or strings of a fixed number of bytes.
    pub fn numbers(&self, codes: &[u32]) -> Result<FlatValues> {
        let mut numbers = match self {
            PageDictionary::Four(_) => FlatValues::Four(vec![]),
            PageDictionary::Eight(_) => FlatValues::Eight(vec![]),
            PageDictionary::Fixed(width, _) => FlatValues::Fixed(*width, vec![]),
            PageDictionary::Strings(_) => return Err(Error::corrupt("strings among numbers")),
        };
        self.append(codes, &mut numbers)?;
        Ok(numbers)
    }

    /// Appends the values of these codes.
    fn append(&self, codes: &[u32], out: &mut FlatValues) -> Result<()> {
        match (self, out) {
            (PageDictionary::Four(values), FlatValues::Four(out)) => look_up(values, codes, out),
            (PageDictionary::Eight(values), FlatValues::Eight(out)) => look_up(values, codes, out),
            (PageDictionary::Fixed(width, bytes), FlatValues::Fixed(_, out)) => {
                self.check(codes)?;
                for code in codes {
                    out.extend_from_slice(&bytes[*code as usize * width..][..*width]);
                }
                Ok(())
            }
            (PageDictionary::Strings(of), out) => {
                self.check(codes)?;
                of.append(codes, out.strings(None)?)
            }
            _ => Err(Error::corrupt("a dictionary of another type")),
        }
    }

    /// A corruption error if one of these codes is not of the dictionary.
    fn check(&self, codes: &[u32]) -> Result<()> {
        let most = codes.iter().max().map_or(0, |code| *code as usize + 1);
        if most <= self.len() { Ok(()) } else { Err(unknown_code()) }
    }
}

/// Appends the values of these codes.
fn look_up<T: Copy>(values: &[T], codes: &[u32], out: &mut Vec<T>) -> Result<()> {
    let last = match values.len().checked_sub(1) {
        Some(last) => last,
        None if codes.is_empty() => return Ok(()),
        None => return Err(unknown_code()),
    };
    // In one pass, which checks no bounds.
    let mut greatest = 0;
    out.extend(codes.iter().map(|code| {
        greatest = greatest.max(*code);
        values[(*code as usize).min(last)]
    }));
    if greatest as usize <= last { Ok(()) } else { Err(unknown_code()) }
}

fn unknown_code() -> Error {
    Error::corrupt("a code is not in the dictionary")
}

fn short() -> Error {
    Error::corrupt("a page has fewer values than its header says")
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
    let mut rest: &[u8] = page;
    let mut string = || {
        let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (string, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = behind;
        Some(string)
    };
    match selection {
        Selection::All(count) => {
            for _ in 0..count {
                out.push(string().ok_or_else(short)?)?;
            }
        }
        Selection::Masked(mask) => {
            let mut passed = 0;
            for at in mask.set_indices() {
                for _ in passed..at {
                    string().ok_or_else(short)?;
                }
                out.push(string().ok_or_else(short)?)?;
                passed = at + 1;
            }
            for _ in passed..mask.len() {
                string().ok_or_else(short)?;
            }
        }
    }
    let done = page.len() - rest.len();
    let _ = page.split_to(done);
    Ok(())
}
