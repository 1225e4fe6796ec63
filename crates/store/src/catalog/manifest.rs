//! The manifest: the description of one version of a collection, in one checksummed JSON document.
//!
//! `{"format":1,"crc32c":"xxxxxxxx","manifest":{…}}`; the checksum covers the whole text with eight
//! zeros for the checksum, so a manifest that was torn or changed anywhere is detected.

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
pub enum Existence {
    /// The collection can be read.
    Live,
    /// The collection has been removed.
    Removed,
}

/// The placement of a collection's copies on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyLayout {
    /// One copy of each segment.
    #[default]
    Plain,
    /// Mirrors on the next disks of a ring: chained declustering.
    Chained,
    /// Mirrors of a disk's segments spread evenly over all other disks.
    Spread,
}

impl CopyLayout {
    /// The word for it in manifests and options.
    ///
    /// ```
    /// use euphrates_store::catalog::CopyLayout;
    ///
    /// let word = serde_json::to_value(CopyLayout::Chained)?;
    /// assert_eq!(word, CopyLayout::Chained.word(), "as in a manifest");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            CopyLayout::Plain => "plain",
            CopyLayout::Chained => "chained",
            CopyLayout::Spread => "spread",
        }
    }
}

/// One version of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The collection's name in the catalog.
    pub name: String,
    /// From 1, without gaps.
    pub version: u64,
    /// Whether the collection exists in this version.
    pub life: Existence,
    /// The run that wrote this version.
    pub run_id: String,
    /// The time of writing, in seconds since 1970.
    pub created: u64,
    /// Name and type of each column, for people.
    pub columns: Vec<ColumnEntry>,
    /// The schema's IPC message in hexadecimal, for programs.
    pub schema: String,
    /// The placement of the copies on disks.
    pub layout: CopyLayout,
    /// Whether its segments are a stream: consecutive, unless they are interleaved.
    pub ordered: bool,
    /// Whether a stream's blocks are spread over all segments; then the tables of contents give the
    /// number of each.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interleaved: bool,
    /// The columns by which it is sorted, if they are known.
    pub sort_keys: Vec<String>,
    /// Rows of all segments.
    pub rows: u64,
    /// Bytes of all segments, one copy of each.
    pub bytes: u64,
    /// The segments, in the order of the collection.
    pub segments: Vec<SegmentEntry>,
    /// Least and greatest values of the columns for which they were cheap to compute.
    pub statistics: BTreeMap<String, ColumnStatistics>,
    /// The layout of a striped file; `None` for a collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileEntry>,
}

/// The layout of a striped file. The first of its manifest's segments is its map, of which each
/// disk has a copy; the others contain its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Data blocks of a stripe.
    pub data: usize,
    /// Parity blocks of a stripe: as many disks may be lost.
    pub parity: usize,
    /// Length of each block of a full stripe, in bytes.
    pub block_bytes: u64,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// The disks over which stripes are spread, by name.
    pub disks: Vec<String>,
}

impl FileEntry {
    /// Bytes of the file in a full stripe.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        self.block_bytes * self.data as u64
    }
}

/// Name and type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// The column's name in the schema.
    pub name: String,
    /// The type, in Arrow's notation.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// Location and size of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEntry {
    /// The disk of the primary copy, by name.
    pub disk: String,
    /// The file, relative to the disk's folder.
    pub path: String,
    /// Rows of all its blocks.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Number of its blocks.
    pub blocks: u64,
    /// CRC-32C of its table of contents.
    pub toc_crc: u32,
    /// Its other copies, which have the same bytes and the same table of contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<CopyEntry>,
}

/// The location of a copy of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyEntry {
    /// The disk of the copy, by name.
    pub disk: String,
    /// The file, relative to the disk's folder.
    pub path: String,
}

impl SegmentEntry {
    /// All copies, the primary first.
    ///
    /// ```
    /// use euphrates_store::catalog::{CopyEntry, SegmentEntry};
    ///
    /// let at = |disk: &str| CopyEntry { disk: disk.into(), path: "sales/0.arrow".into() };
    /// let CopyEntry { disk, path } = at("d0");
    /// let (rows, bytes, blocks, toc_crc) = (10, 1000, 1, 7);
    /// let mirrors = vec![at("d1")];
    /// let segment = SegmentEntry { disk, path, rows, bytes, blocks, toc_crc, mirrors };
    /// assert_eq!(segment.copies(), [at("d0"), at("d1")], "the primary first");
    /// ```
    pub fn copies(&self) -> Vec<CopyEntry> {
        let primary = CopyEntry { disk: self.disk.clone(), path: self.path.clone() };
        [primary].into_iter().chain(self.mirrors.iter().cloned()).collect()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Manifest {
    /// What it describes, for messages.
    pub fn title(&self) -> String {
        let kind = if self.file.is_some() { "striped file" } else { "collection" };
        format!("{kind} `{}`", self.name)
    }

    /// Fails if it describes a striped file.
    pub fn expect_collection(&self) -> Result<()> {
        match (&self.file, self.life) {
            (Some(_), Existence::Live) => {
                let error = Error::usage(format!("`{}` is a striped file", self.name));
                Err(error.remedy("use `euphrates file`, or `open_striped` in Python"))
            }
            _ => Ok(()),
        }
    }

    /// Fails if it describes a collection.
    pub fn expect_file(&self) -> Result<()> {
        match (&self.file, self.life) {
            (None, Existence::Live) => {
                let error = Error::usage(format!("`{}` is a collection", self.name));
                Err(error.remedy("choose another name for the striped file"))
            }
            _ => Ok(()),
        }
    }

    /// The number of copies of each segment.
    pub fn copies(&self) -> usize {
        self.segments.iter().map(|segment| 1 + segment.mirrors.len()).max().unwrap_or(1)
    }

    /// The names of the disks that hold its copies.
    pub fn disks(&self) -> BTreeSet<&str> {
        let primary = self.segments.iter().map(|segment| segment.disk.as_str());
        let mirrors = self.segments.iter().flat_map(|segment| &segment.mirrors);
        primary.chain(mirrors.map(|mirror| mirror.disk.as_str())).collect()
    }

    /// Decodes the schema. Fails if the text is no schema message.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        let digit = |at: usize| self.schema.get(at..at + 2);
        let byte = |at| digit(at).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..self.schema.len()).step_by(2).map(byte).collect();
        schema_of_message(&bytes.ok_or_else(|| damaged("its schema is not hexadecimal"))?)
    }

    /// Sets the schema and the columns that describe it.
    pub fn set_schema(&mut self, schema: &Schema) -> Result<()> {
        let message = message_of_schema(schema)?;
        self.schema = String::with_capacity(message.len() * 2);
        for byte in message {
            write!(self.schema, "{byte:02x}").expect("a string");
        }
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| ColumnEntry {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
        };
        self.columns = schema.fields().iter().map(column).collect();
        Ok(())
    }

    /// Decodes the manifest if it is whole, unchanged, and of this name and version.
    pub(super) fn decode_as(text: &[u8], name: &str, version: u64) -> Result<Manifest> {
        let manifest = Manifest::decode(text)?;
        if manifest.name != name || manifest.version != version {
            return Err(Error::corrupt("the manifest is that of another version"));
        }
        Ok(manifest)
    }

    /// The stand-in for a version that cannot be read: a collection without contents.
    pub(super) fn unreadable(name: &str, version: u64) -> Manifest {
        Manifest {
            name: name.to_string(),
            version,
            life: Existence::Live,
            run_id: String::new(),
            created: 0,
            columns: vec![],
            schema: String::new(),
            layout: CopyLayout::Plain,
            ordered: false,
            interleaved: false,
            sort_keys: vec![],
            rows: 0,
            bytes: 0,
            segments: vec![],
            statistics: BTreeMap::new(),
            file: None,
        }
    }

    /// The text to store, with its checksum.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("strings and numbers");
        let zeros = "0".repeat(CRC_DIGITS);
        let text = format!("{BEFORE_CRC}{zeros}{BEHIND_CRC}{body}}}\n");
        let crc = format!("{:08x}", crc_fast::crc32_iscsi(text.as_bytes()));
        let (start, end) = crc_range();
        format!("{}{crc}{}", &text[..start], &text[end..]).into_bytes()
    }

    /// Decodes a manifest; fails with `Corrupt` unless the text is whole and unchanged.
    ///
    /// ```
    /// use euphrates_flow::Kind;
    /// use euphrates_store::catalog::Manifest;
    ///
    /// let mut text = br#"{"name": "sales", "version": 1"#.to_vec();
    /// let error = Manifest::decode(&text).unwrap_err();
    /// assert_eq!(error.kind(), Kind::Corrupt, "it is cut off");
    /// text.push(b'}');
    /// assert!(Manifest::decode(&text).is_err(), "it has no checksum");
    /// ```
    pub fn decode(text: &[u8]) -> Result<Manifest> {
        let (start, end) = crc_range();
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

fn crc_range() -> (usize, usize) {
    (BEFORE_CRC.len(), BEFORE_CRC.len() + CRC_DIGITS)
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the manifest is damaged: {why}"))
}
