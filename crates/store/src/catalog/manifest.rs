//! A manifest: everything about one version of a collection, in one checksummed JSON document.
//!
//! `{"format":1,"crc32c":"xxxxxxxx","manifest":{…}}`; the checksum is that of the whole text with
//! eight zeros in its place, so a manifest that was torn or changed anywhere is known as such.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use arrow::datatypes::{Schema, SchemaRef};
use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use super::statistics::ColumnStatistics;
use crate::segment::{message_of_schema, schema_of_message};

const BEFORE_CRC: &str = "{\"format\":1,\"crc32c\":\"";
const BEHIND_CRC: &str = "\",\"manifest\":";
const CRC_DIGITS: usize = 8;

/// Whether the collection exists in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It can be read.
    Live,
    /// It has been removed.
    Removed,
}

/// How a collection lies on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Each segment once.
    #[default]
    Plain,
    /// Mirrors on the next disks of a ring.
    Chained,
    /// Mirrors of a disk's segments on all other disks, evenly.
    Spread,
}

impl Layout {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Chained => "chained",
            Layout::Spread => "spread",
        }
    }
}

/// One version of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Its name.
    pub name: String,
    /// From 1, without gaps.
    pub version: u64,
    /// Whether it exists.
    pub life: Life,
    /// The run that made this version.
    pub run_id: String,
    /// When, in seconds since 1970.
    pub created: u64,
    /// Name and type of each column, for people.
    pub columns: Vec<Column>,
    /// The schema's IPC message in hexadecimal, for programs.
    pub schema: String,
    /// How it lies on disks.
    pub layout: Layout,
    /// Whether its segments are a stream: one after the other, unless they are interleaved.
    pub ordered: bool,
    /// Whether a stream's blocks were dealt to all segments at once; then the tables of contents
    /// say the number of each.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interleaved: bool,
    /// The columns it is sorted by, if that is known.
    pub sort_keys: Vec<String>,
    /// Rows of all segments.
    pub rows: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// The segments, in order.
    pub segments: Vec<SegmentEntry>,
    /// Least and greatest value of columns where that was cheap to learn.
    pub statistics: BTreeMap<String, ColumnStatistics>,
}

/// Name and type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type, as Arrow writes it.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// Where a segment is and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEntry {
    /// The disk's name.
    pub disk: String,
    /// The file, from the disk's folder on.
    pub path: String,
    /// Rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// CRC-32C of its table of contents.
    pub toc_crc: u32,
    /// Its other copies, which have the same bytes and the same table of contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<CopyEntry>,
}

/// Where a mirror is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyEntry {
    /// The disk's name.
    pub disk: String,
    /// The file, from the disk's folder on.
    pub path: String,
}

impl SegmentEntry {
    /// All copies, the primary first.
    pub fn copies(&self) -> Vec<CopyEntry> {
        let primary = CopyEntry { disk: self.disk.clone(), path: self.path.clone() };
        [primary].into_iter().chain(self.mirrors.iter().cloned()).collect()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Manifest {
    /// Copies of each segment.
    pub fn copies(&self) -> usize {
        self.segments.iter().map(|segment| 1 + segment.mirrors.len()).max().unwrap_or(1)
    }

    /// The disks it is on, by name.
    pub fn disks(&self) -> BTreeSet<&str> {
        let primary = self.segments.iter().map(|segment| segment.disk.as_str());
        let mirrors = self.segments.iter().flat_map(|segment| &segment.mirrors);
        primary.chain(mirrors.map(|mirror| mirror.disk.as_str())).collect()
    }

    /// The schema.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        let digit = |at: usize| self.schema.get(at..at + 2);
        let byte = |at| digit(at).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..self.schema.len()).step_by(2).map(byte).collect();
        schema_of_message(&bytes.ok_or_else(|| damaged("its schema is not hexadecimal"))?)
    }

    /// Sets schema and columns.
    pub fn set_schema(&mut self, schema: &Schema) -> Result<()> {
        let message = message_of_schema(schema)?;
        self.schema = String::with_capacity(message.len() * 2);
        for byte in message {
            write!(self.schema, "{byte:02x}").expect("a string");
        }
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| Column {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
        };
        self.columns = schema.fields().iter().map(column).collect();
        Ok(())
    }

    /// The manifest of this text, if it is whole, unchanged, and that of this version.
    pub(super) fn decode_as(text: &[u8], name: &str, version: u64) -> Result<Manifest> {
        let manifest = Manifest::decode(text)?;
        if manifest.name != name || manifest.version != version {
            return Err(Error::corrupt("the manifest is that of another version"));
        }
        Ok(manifest)
    }

    /// In place of a version that cannot be read: a collection of which nothing is known.
    pub(super) fn unreadable(name: &str, version: u64) -> Manifest {
        Manifest {
            name: name.to_string(),
            version,
            life: Life::Live,
            run_id: String::new(),
            created: 0,
            columns: vec![],
            schema: String::new(),
            layout: Layout::Plain,
            ordered: false,
            interleaved: false,
            sort_keys: vec![],
            rows: 0,
            bytes: 0,
            segments: vec![],
            statistics: BTreeMap::new(),
        }
    }

    /// The text as it is kept.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("strings and numbers");
        let zeros = "0".repeat(CRC_DIGITS);
        let text = format!("{BEFORE_CRC}{zeros}{BEHIND_CRC}{body}}}\n");
        let crc = format!("{:08x}", crc_fast::crc32_iscsi(text.as_bytes()));
        let (start, end) = crc_place();
        format!("{}{crc}{}", &text[..start], &text[end..]).into_bytes()
    }

    /// The manifest of this text, if it is whole and unchanged.
    pub fn decode(text: &[u8]) -> Result<Manifest> {
        let (start, end) = crc_place();
        let written = text.get(start..end).ok_or_else(|| damaged("it is cut"))?;
        let mut zeroed = text.to_vec();
        zeroed[start..end].fill(b'0');
        let crc = format!("{:08x}", crc_fast::crc32_iscsi(&zeroed));
        if crc.as_bytes() != written {
            return Err(damaged("its checksum is wrong"));
        }
        if !text.starts_with(BEFORE_CRC.as_bytes()) {
            return Err(
                damaged("its format is unknown").remedy("read it with the release that wrote it")
            );
        }
        let body = text.get(end + BEHIND_CRC.len()..text.len() - "}\n".len());
        serde_json::from_slice(body.unwrap_or_default()).map_err(damaged)
    }
}

fn crc_place() -> (usize, usize) {
    (BEFORE_CRC.len(), BEFORE_CRC.len() + CRC_DIGITS)
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the manifest is damaged: {why}"))
}
