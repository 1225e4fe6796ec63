//! Bounds the memory for decompressed pages of a row group, and keeps the first error of its
//! columns.
//!
//! A page is decoded whole, and a page of a few kilobytes may decompress to a gigabyte; so pages
//! are counted when their headers are read, before they are decompressed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use parking_lot::Mutex;

use super::thrift::{DICTIONARY_PAGE, PageHeader};

/// The budget of the columns of a row group that are read together.
pub struct Allowance {
    bytes_max: u64,
    held: AtomicU64,
    /// The first error, unchanged: the crate converts errors to text.
    fault: Mutex<Option<Error>>,
}

/// Bytes held by one column: its dictionary and its current page.
#[derive(Clone, Copy, Default)]
pub struct ColumnMemory {
    dictionary: u64,
    page: u64,
}

impl Allowance {
    /// A budget of `bytes_max` for all pages that are decompressed at the same time.
    pub fn new(bytes_max: usize) -> Allowance {
        Allowance { bytes_max: bytes_max as u64, held: AtomicU64::new(0), fault: Mutex::default() }
    }

    /// The budget in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Counts the page of this header in place of the page the column held before. A resource error
    /// if the sum exceeds the budget.
    pub fn take(&self, held: &mut ColumnMemory, header: &PageHeader) -> Result<()> {
        let packed = if header.bytes == header.unpacked_bytes { 0 } else { header.bytes as u64 };
        let bytes = header.unpacked_bytes as u64 + packed;
        let held = match header.kind {
            DICTIONARY_PAGE => &mut held.dictionary,
            _ => &mut held.page,
        };
        let before = std::mem::replace(held, bytes);
        let others = self.held.fetch_sub(before, Relaxed) - before;
        self.held.fetch_add(bytes, Relaxed);
        if others + bytes <= self.bytes_max {
            return Ok(());
        }
        let message = format!(
            "a page takes {} in memory and those of the other columns {}, more than the {} that \
             reading may take",
            mebibytes(bytes),
            mebibytes(others),
            mebibytes(self.bytes_max)
        );
        Err(Error::resource(message).remedy(
            "give the flow more memory, read fewer columns, or read in one instance (`count=1`)",
        ))
    }

    /// Keeps an error, unless one is kept already.
    pub fn keep_error(&self, error: &Error) {
        self.fault.lock().get_or_insert_with(|| error.clone());
    }

    /// Removes and returns the first error that was kept; `None` if there is none.
    pub fn fault(&self) -> Option<Error> {
        self.fault.lock().take()
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    fn page(kind: i32, bytes: i32, unpacked_bytes: i32) -> PageHeader {
        PageHeader { kind, bytes, unpacked_bytes, ..PageHeader::default() }
    }

    #[test]
    fn column_holds_one_page_and_a_dictionary() {
        let allowance = Allowance::new(100);
        let (mut one, mut other) = (ColumnMemory::default(), ColumnMemory::default());
        allowance.take(&mut one, &page(DICTIONARY_PAGE, 30, 30)).unwrap();
        for _ in 0..5 {
            allowance.take(&mut one, &page(0, 10, 20)).unwrap();
        }
        allowance.take(&mut other, &page(3, 40, 40)).unwrap();
        let error = allowance.take(&mut one, &page(0, 1, 31)).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource, "{error}");
    }
}
