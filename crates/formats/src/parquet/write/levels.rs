//! The definition and repetition levels of a column's entries, and where its records begin.

use arrow::array::NullBufferBuilder;
use arrow::buffer::{Buffer, NullBuffer};
use parquet::schema::types::ColumnDescriptor;

use super::super::rle_bit_packing::{bit_width, encode_levels, validity_levels};

/// The levels of the entries of a column: a flat column has one entry for each row.
#[derive(Clone, Debug)]
pub enum Levels {
    /// The validity of rows; `None` if no row is null.
    Flat(Option<NullBuffer>),
    /// The levels of a leaf within lists or structs.
    Nested(NestedLevels),
}

/// Levels of a byte each.
#[derive(Clone, Debug)]
pub struct NestedLevels {
    /// How many of the optional and repeated fields of the path an entry has.
    pub definition: Buffer,
    /// In which list an entry continues, 0 if it begins a record; `None` if there is no list.
    pub repetition: Option<Buffer>,
    /// The definition level of the entries that have a value.
    pub of_values: u8,
}

impl Levels {
    /// How many of the first `entries` have a value.
    pub fn values_in(&self, entries: usize) -> usize {
        match self {
            Levels::Flat(None) => entries,
            Levels::Flat(Some(nulls)) => entries - nulls.slice(0, entries).null_count(),
            Levels::Nested(levels) => {
                let levels_of_values = levels.definition[..entries].iter();
                levels_of_values.filter(|level| **level == levels.of_values).count()
            }
        }
    }

    /// The entry of the value with this index.
    pub fn entry_of(&self, value: usize) -> Option<usize> {
        match self {
            Levels::Flat(None) => Some(value),
            Levels::Flat(Some(nulls)) => nulls.valid_indices().nth(value),
            Levels::Nested(levels) => {
                let entries = levels.definition.iter().enumerate();
                let mut entries = entries.filter(|(_, level)| **level == levels.of_values);
                entries.nth(value).map(|(entry, _)| entry)
            }
        }
    }

    /// The last record that begins at or before an entry, which may be the end of all.
    pub fn record_at(&self, entry: usize) -> usize {
        match self.repetition() {
            Some(levels) if entry < levels.len() => {
                levels[..=entry].iter().rposition(|level| *level == 0).unwrap_or(0)
            }
            _ => entry,
        }
    }

    /// Where the record after the first begins.
    pub fn first_record_end(&self) -> usize {
        let levels = self.repetition();
        levels.map_or(1, |levels| {
            let next = levels.iter().skip(1).position(|level| *level == 0);
            next.map_or(levels.len(), |next| next + 1)
        })
    }

    /// The levels of some of the entries.
    pub fn slice(&self, from: usize, entries: usize) -> Levels {
        match self {
            Levels::Flat(nulls) => {
                Levels::Flat(nulls.as_ref().map(|nulls| nulls.slice(from, entries)))
            }
            Levels::Nested(levels) => {
                let slice = |levels: &Buffer| levels.slice_with_length(from, entries);
                Levels::Nested(NestedLevels {
                    definition: slice(&levels.definition),
                    repetition: levels.repetition.as_ref().map(slice),
                    of_values: levels.of_values,
                })
            }
        }
    }

    fn repetition(&self) -> Option<&Buffer> {
        match self {
            Levels::Flat(_) => None,
            Levels::Nested(levels) => levels.repetition.as_ref(),
        }
    }
}

/// The levels of a page under construction.
pub struct PageLevels {
    entries: usize,
    /// Of a flat column.
    nulls: NullBufferBuilder,
    /// Of a nested column.
    definition: Vec<u8>,
    repetition: Vec<u8>,
}

impl PageLevels {
    /// Levels of no entry.
    pub fn new() -> PageLevels {
        let nulls = NullBufferBuilder::new(0);
        PageLevels { entries: 0, nulls, definition: vec![], repetition: vec![] }
    }

    /// Number of entries, nulls and empty lists included.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Number of rows, which are records.
    pub fn rows(&self) -> usize {
        match self.repetition.is_empty() {
            true => self.entries,
            false => self.repetition.iter().filter(|level| **level == 0).count(),
        }
    }

    /// Memory in bytes that levels of a nested column take.
    pub fn held_bytes(&self) -> usize {
        self.definition.capacity() + self.repetition.capacity()
    }

    /// Appends the levels of this many entries.
    pub fn append(&mut self, levels: &Levels, entries: usize) {
        self.entries += entries;
        match levels {
            Levels::Flat(None) => self.nulls.append_n_non_nulls(entries),
            Levels::Flat(Some(nulls)) => self.nulls.append_buffer(nulls),
            Levels::Nested(levels) => {
                self.definition.extend_from_slice(&levels.definition);
                self.repetition.extend_from_slice(levels.repetition.as_deref().unwrap_or(&[]));
            }
        }
    }

    /// The levels as they begin a data page of version 1; nothing if the column has none.
    pub fn encode(mut self, descr: &ColumnDescriptor) -> Vec<u8> {
        let mut out = vec![];
        if descr.max_rep_level() > 0 {
            put_levels(&self.repetition, descr.max_rep_level(), &mut out);
        }
        if descr.max_def_level() == 0 {
            return out;
        }
        match self.definition.is_empty() {
            true => {
                let nulls = self.nulls.finish().filter(|nulls| nulls.null_count() > 0);
                out.extend(validity_levels(self.entries, nulls.as_ref()));
            }
            false => put_levels(&self.definition, descr.max_def_level(), &mut out),
        }
        out
    }
}

/// Appends levels after the length of their encoding.
fn put_levels(levels: &[u8], max: i16, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend([0; size_of::<u32>()]);
    encode_levels(levels, bit_width(max as usize + 1), out);
    let bytes = (out.len() - begin - size_of::<u32>()) as u32;
    out[begin..begin + size_of::<u32>()].copy_from_slice(&bytes.to_le_bytes());
}
