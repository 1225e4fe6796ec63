//! Builds the page index of a column chunk: where its pages are and the bounds of their values, so
//! that readers skip pages.

use parquet::basic::BoundaryOrder;

use super::super::thrift::{
    BINARY, FALSE, I32, I64, LIST, STRUCT, put_bytes, put_i64, put_list, put_next,
};

/// What is known of the values of a page.
pub enum PageBounds {
    /// It has no value.
    Null,
    /// It has values, of which no bounds are known: they are NaN, or too long.
    Unknown,
    /// Its values are not below the first and not above the second.
    Known {
        /// As the column index has them: plain, strings truncated.
        stored: [Vec<u8>; 2],
        /// The same as bytes that compare like the values.
        ordered: [Vec<u8>; 2],
    },
}

/// Collects the pages of a column chunk.
pub struct PageIndexBuilder {
    pages: Vec<PagePlace>,
    rows: i64,
    nulls: Vec<i64>,
    /// Minimum and maximum of each page, `None` if it has no value; nothing at all if the bounds of
    /// some page are not known, as the chunk then has no column index.
    bounds: Option<Vec<Option<[Vec<u8>; 2]>>>,
    /// The bounds of the last page that has values, to be compared with the next.
    last: Option<[Vec<u8>; 2]>,
    is_ascending: bool,
    is_descending: bool,
}

/// A data page with its header.
#[derive(Clone, Copy)]
struct PagePlace {
    bytes: i64,
    /// The first row of the page in its row group.
    row: i64,
}

/// The page index of a column chunk.
pub struct PageIndex {
    pages: Vec<PagePlace>,
    /// The encoded column index, if there is one.
    pub column_index: Option<Vec<u8>>,
}

impl PageIndexBuilder {
    /// An index of no page.
    pub fn new() -> PageIndexBuilder {
        PageIndexBuilder {
            pages: vec![],
            rows: 0,
            nulls: vec![],
            bounds: Some(vec![]),
            last: None,
            is_ascending: true,
            is_descending: true,
        }
    }

    /// Appends a page: its bytes with the header, the number of its rows, and that of its entries
    /// without a value.
    pub fn append(&mut self, bytes: usize, rows: usize, nulls: usize, bounds: PageBounds) {
        self.pages.push(PagePlace { bytes: bytes as i64, row: self.rows });
        self.rows += rows as i64;
        self.nulls.push(nulls as i64);
        let Some(all) = &mut self.bounds else { return };
        match bounds {
            PageBounds::Null => all.push(None),
            PageBounds::Unknown => self.bounds = None,
            PageBounds::Known { stored, ordered } => {
                all.push(Some(stored));
                if let Some(last) = &self.last {
                    self.is_ascending &= last[0] <= ordered[0] && last[1] <= ordered[1];
                    self.is_descending &= last[0] >= ordered[0] && last[1] >= ordered[1];
                }
                self.last = Some(ordered);
            }
        }
    }

    /// The index of all pages.
    pub fn finish(self) -> PageIndex {
        let order = match (self.is_ascending, self.is_descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        };
        let column_index = self.bounds.map(|bounds| column_index(&bounds, order, &self.nulls));
        PageIndex { pages: self.pages, column_index }
    }
}

impl PageIndex {
    /// An index without bounds, of pages with these bytes and first rows.
    pub fn of_places(pages: impl Iterator<Item = (i64, i64)>) -> PageIndex {
        let pages = pages.map(|(bytes, row)| PagePlace { bytes, row }).collect();
        PageIndex { pages, column_index: None }
    }

    /// Appends the offset index of a chunk whose first data page is at `offset` of the file.
    pub fn put_offset_index(&self, mut offset: i64, out: &mut Vec<u8>) {
        put_next(out, LIST);
        put_list(out, self.pages.len() as u64, STRUCT);
        for page in &self.pages {
            put_next(out, I64);
            put_i64(out, offset);
            put_next(out, I32);
            put_i64(out, page.bytes);
            put_next(out, I64);
            put_i64(out, page.row);
            out.push(0);
            offset += page.bytes;
        }
        out.push(0);
    }
}

/// The column index in Thrift: null pages, minima, maxima, their order, and null counts.
fn column_index(bounds: &[Option<[Vec<u8>; 2]>], order: BoundaryOrder, nulls: &[i64]) -> Vec<u8> {
    let mut out = vec![];
    let pages = bounds.len() as u64;
    put_next(&mut out, LIST);
    put_list(&mut out, pages, FALSE);
    // In a list, 1 is true and 2 is false.
    out.extend(bounds.iter().map(|page| if page.is_none() { 1 } else { 2 }));
    for bound in 0..2 {
        put_next(&mut out, LIST);
        put_list(&mut out, pages, BINARY);
        let stored = bounds.iter().map(|page| page.as_ref().map_or(&[][..], |page| &page[bound]));
        stored.for_each(|bound| put_bytes(&mut out, bound));
    }
    put_next(&mut out, I32);
    put_i64(&mut out, order as i64);
    put_next(&mut out, LIST);
    put_list(&mut out, pages, I64);
    nulls.iter().for_each(|nulls| put_i64(&mut out, *nulls));
    out.push(0);
    out
}
