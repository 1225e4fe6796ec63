//! The dictionary of a column chunk: the values that its codes stand for.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use bytes::Bytes;
use euphrates_device::buffer::copy_freely;
use euphrates_flow::{Error, Result};

use super::flat_layout::FlatLayout;
use super::flat_values::{FlatValues, wide};
use super::strings::{StringDictionary, short};

/// The values that the codes of a column chunk stand for, as the dictionary page has them.
pub enum PageDictionary {
    /// Numbers of four bytes.
    Four(Bytes),
    /// Numbers of eight bytes.
    Eight(Bytes),
    /// Strings of a fixed number of bytes.
    Fixed(usize, Bytes),
    /// Strings of any length.
    Strings(StringDictionary),
}

impl PageDictionary {
    /// The `count` values of a plain dictionary page.
    pub fn new(
        page: Bytes,
        count: usize,
        layout: FlatLayout,
        data_type: &DataType,
    ) -> Result<PageDictionary> {
        let least_bytes = match layout {
            FlatLayout::Bits => return Err(Error::corrupt("a dictionary of truth values")),
            FlatLayout::Four => size_of::<u32>(),
            FlatLayout::Eight | FlatLayout::EightOfDecimals => size_of::<u64>(),
            FlatLayout::Fixed(width) => width,
            // The length of each.
            FlatLayout::Strings => size_of::<u32>(),
        };
        let bytes = count.checked_mul(least_bytes).filter(|bytes| *bytes <= page.len());
        let values = page.slice(..bytes.ok_or_else(short)?);
        Ok(match layout {
            FlatLayout::Bits => return Err(Error::corrupt("a dictionary of truth values")),
            FlatLayout::Four => PageDictionary::Four(values),
            FlatLayout::Eight | FlatLayout::EightOfDecimals => PageDictionary::Eight(values),
            FlatLayout::Fixed(width) => PageDictionary::Fixed(width, values),
            FlatLayout::Strings => {
                PageDictionary::Strings(StringDictionary::new(page, count, data_type)?)
            }
        })
    }

    /// Length of the longest string in bytes, if strings may have any length; otherwise 0.
    pub fn longest_string(&self) -> usize {
        self.strings().map_or(0, StringDictionary::longest)
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
            PageDictionary::Four(page) => FlatValues::Four(all(page, u32::from_le_bytes)),
            PageDictionary::Eight(page) => FlatValues::Eight(all(page, u64::from_le_bytes)),
            PageDictionary::Fixed(width, page) => FlatValues::Fixed(*width, page.to_vec()),
            PageDictionary::Strings(strings) => return strings.array(),
        };
        values.into_array(None, data_type, None)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            PageDictionary::Four(page) => page.len() / size_of::<u32>(),
            PageDictionary::Eight(page) => page.len() / size_of::<u64>(),
            PageDictionary::Fixed(width, page) => page.len() / width,
            PageDictionary::Strings(strings) => strings.len(),
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
    pub fn append(&self, codes: &[u32], out: &mut FlatValues) -> Result<()> {
        match (self, out) {
            (PageDictionary::Four(page), FlatValues::Four(out)) => {
                look_up(page, codes, out, u32::from_le_bytes)
            }
            (PageDictionary::Eight(page), FlatValues::Eight(out)) => {
                look_up(page, codes, out, u64::from_le_bytes)
            }
            (PageDictionary::Eight(page), FlatValues::Decimals(out)) => {
                look_up(page, codes, out, wide)
            }
            (PageDictionary::Fixed(width, page), FlatValues::Fixed(_, out)) => {
                self.check(codes)?;
                let begin = out.len();
                out.resize(begin + codes.len() * width, 0);
                for (row, code) in codes.iter().enumerate() {
                    let at = *code as usize * width;
                    copy_freely(page, at, out, begin + row * width, *width);
                }
                Ok(())
            }
            (PageDictionary::Strings(of), out) => {
                self.check(codes)?;
                of.append(codes.iter().map(|code| *code as usize), out.strings(None)?)
            }
            _ => Err(Error::corrupt("a dictionary of another type")),
        }
    }

    /// A corruption error if one of these codes is not of the dictionary.
    pub fn check(&self, codes: &[u32]) -> Result<()> {
        let most = codes.iter().max().map_or(0, |code| *code as usize + 1);
        if most <= self.len() { Ok(()) } else { Err(unknown_code()) }
    }
}

fn all<T, const WIDTH: usize>(page: &[u8], of_bytes: impl Fn([u8; WIDTH]) -> T) -> Vec<T> {
    page.as_chunks::<WIDTH>().0.iter().map(|value| of_bytes(*value)).collect()
}

/// Appends the values of these codes.
fn look_up<T, const WIDTH: usize>(
    page: &[u8],
    codes: &[u32],
    out: &mut Vec<T>,
    of_bytes: impl Fn([u8; WIDTH]) -> T,
) -> Result<()> {
    let (values, _) = page.as_chunks::<WIDTH>();
    let last = match values.len().checked_sub(1) {
        Some(last) => last,
        None if codes.is_empty() => return Ok(()),
        None => return Err(unknown_code()),
    };
    // In one pass, which checks no bounds.
    let mut greatest = 0;
    out.extend(codes.iter().map(|code| {
        greatest = greatest.max(*code);
        of_bytes(values[(*code as usize).min(last)])
    }));
    if greatest as usize <= last { Ok(()) } else { Err(unknown_code()) }
}

fn unknown_code() -> Error {
    Error::corrupt("a code is not in the dictionary")
}
