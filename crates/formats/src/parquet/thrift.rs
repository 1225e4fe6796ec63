//! Encodes and parses Thrift's compact protocol, as far as page headers and the footer need it, and
//! validates structures: every declared length must fit the bytes.

use parquet::basic::Encoding;

use super::page_codec::Packed;

/// The deepest accepted nesting of structures, which bounds recursion on crafted input.
pub const DEPTH_MAX: usize = 64;

/// Type ids of the compact protocol.
const TRUE: u8 = 1;
/// A truth value: one that is false, or any in a list.
pub const FALSE: u8 = 2;
const BYTE: u8 = 3;
/// A zigzag varint of 32 bits.
pub const I32: u8 = 5;
/// A zigzag varint of 64 bits.
pub const I64: u8 = 6;
const DOUBLE: u8 = 7;
/// Bytes after their length as a varint.
pub const BINARY: u8 = 8;
/// A list: size and element type, then elements.
pub const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
/// Fields up to a stop byte.
pub const STRUCT: u8 = 12;

/// The header of a page, as far as it is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageHeader {
    /// 0 is a data page, 2 a dictionary page, 3 a data page of version 2.
    pub kind: i32,
    /// Bytes of the page before compression.
    pub unpacked_bytes: i32,
    /// Bytes of the page in the file.
    pub bytes: i32,
    /// CRC-32 of the page's bytes in the file.
    pub crc: Option<u32>,
    /// Number of values, nulls included.
    pub values: i32,
    /// The encoding's id; 0 is plain.
    pub encoding: i32,
    /// Version 2: bytes of the levels before the values.
    pub levels_bytes: i32,
    /// Bytes of the header itself.
    pub header_bytes: usize,
}

/// `PageHeader::kind` of a data page of version 1.
pub const DATA_PAGE: i32 = 0;
/// `PageHeader::kind` of a dictionary page.
pub const DICTIONARY_PAGE: i32 = 2;

impl PageHeader {
    /// Parses the header at the beginning of `bytes`; `None` if it is malformed or incomplete.
    pub fn parse(bytes: &[u8]) -> Option<PageHeader> {
        let mut header = PageHeader::default();
        let mut input = ThriftCursor { bytes, at: 0 };
        let mut seen = 0;
        input.fields(|input, id, kind| {
            let target = match (id, kind) {
                (1, I32) => &mut header.kind,
                (2, I32) => &mut header.unpacked_bytes,
                (3, I32) => &mut header.bytes,
                (4, I32) => {
                    header.crc = Some(input.i32()? as u32);
                    return Some(());
                }
                (5 | 7 | 8, STRUCT) => return header.inner(input, id),
                _ => return input.skip(kind, DEPTH_MAX),
            };
            *target = input.i32()?;
            seen += 1;
            Some(())
        })?;
        header.header_bytes = input.at;
        let is_whole = seen == 3 && header.bytes >= 0 && header.unpacked_bytes >= 0;
        (is_whole && header.values >= 0).then_some(header)
    }

    /// Parses the part of the header that depends on the page's kind.
    fn inner(&mut self, input: &mut ThriftCursor, page: i16) -> Option<()> {
        let is_v2 = page == 8;
        input.fields(|input, id, kind| match (id, kind) {
            (1, I32) => {
                self.values = input.i32()?;
                Some(())
            }
            (2, I32) if !is_v2 => {
                self.encoding = input.i32()?;
                Some(())
            }
            (4, I32) if is_v2 => {
                self.encoding = input.i32()?;
                Some(())
            }
            (5 | 6, I32) if is_v2 => {
                self.levels_bytes = self.levels_bytes.checked_add(input.i32()?)?;
                Some(())
            }
            _ => input.skip(kind, DEPTH_MAX),
        })
    }

    /// Encodes the header of a data page of version 1, with the page's checksum.
    pub fn data(values: usize, encoding: Encoding, page: &Packed) -> Vec<u8> {
        let levels = Encoding::RLE as i32;
        let inner = [values as i32, encoding as i32, levels, levels];
        PageHeader::bytes_of(DATA_PAGE, page, 1, &inner)
    }

    /// Encodes the header of a plain dictionary page, with the page's checksum.
    pub fn dictionary(values: usize, page: &Packed) -> Vec<u8> {
        let inner = [values as i32, Encoding::PLAIN as i32];
        PageHeader::bytes_of(DICTIONARY_PAGE, page, 3, &inner)
    }

    /// Encodes a header whose structure of `inner` numbers has a field id `step` above the
    /// checksum's.
    fn bytes_of(kind: i32, page: &Packed, step: u8, inner: &[i32]) -> Vec<u8> {
        let mut crc = crc32fast::Hasher::new();
        page.parts.iter().for_each(|part| crc.update(part));
        let (unpacked_bytes, bytes) = (page.unpacked_bytes as i32, page.bytes as i32);
        let mut out = Vec::with_capacity(40);
        for value in [kind, unpacked_bytes, bytes, crc.finalize() as i32] {
            put_next(&mut out, I32);
            put_i32(&mut out, value);
        }
        out.push(step << 4 | STRUCT);
        for value in inner {
            put_next(&mut out, I32);
            put_i32(&mut out, *value);
        }
        out.extend([0, 0]);
        out
    }
}

/// Inserts a checksum into a header; `None` if it has one already or is malformed.
pub fn with_crc(header: &[u8], crc: u32) -> Option<Vec<u8>> {
    let mut input = ThriftCursor { bytes: header, at: 0 };
    for _ in 0..3 {
        (input.byte()? == 1 << 4 | I32).then_some(())?;
        input.i32()?;
    }
    let head = input.at;
    let next = input.byte()?;
    // Field ids are deltas: the next one now counts from the checksum, which is one closer.
    (next >> 4 > 1).then_some(())?;
    let mut out = header[..head].to_vec();
    put_next(&mut out, I32);
    put_i32(&mut out, crc as i32);
    out.push(next - (1 << 4));
    out.extend_from_slice(&header[input.at..]);
    Some(out)
}

/// Length of the structure at the beginning of `bytes`; `None` if it is malformed.
pub fn struct_bytes(bytes: &[u8]) -> Option<usize> {
    let mut input = ThriftCursor { bytes, at: 0 };
    input.skip(STRUCT, DEPTH_MAX)?;
    Some(input.at)
}

/// Writes a field header whose id is one above the previous field's.
pub fn put_next(out: &mut Vec<u8>, kind: u8) {
    put_field(out, 0, 1, kind);
}

/// Writes a field header; `last` is the id of the previous field, or 0.
pub fn put_field(out: &mut Vec<u8>, last: i16, id: i16, kind: u8) {
    match i32::from(id) - i32::from(last) {
        delta @ 1..=15 => out.push((delta as u8) << 4 | kind),
        _ => {
            out.push(kind);
            put_i32(out, id.into());
        }
    }
}

/// Writes a list header: the number of elements and their type.
pub fn put_list(out: &mut Vec<u8>, size: u64, kind: u8) {
    match size {
        0..15 => out.push((size as u8) << 4 | kind),
        _ => {
            out.push(15 << 4 | kind);
            put_varint(out, size as u32);
        }
    }
}

fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_i64(out, value.into());
}

/// Writes a zigzag varint, of 32 or 64 bits.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Writes bytes after their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes an unsigned varint: seven bits at a time, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, value: impl Into<u64>) {
    let mut value = value.into();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A cursor over encoded bytes; methods return `None` where these are malformed.
pub struct ThriftCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ThriftCursor<'a> {
    /// A cursor at the first byte.
    pub fn new(bytes: &'a [u8]) -> ThriftCursor<'a> {
        ThriftCursor { bytes, at: 0 }
    }

    /// Number of bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes read since position `at`.
    pub fn since(&self, at: usize) -> &'a [u8] {
        &self.bytes[at..self.at]
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn i64(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a zigzag varint of 32 bits.
    pub fn i32(&mut self) -> Option<i32> {
        self.i64()?.try_into().ok()
    }

    fn jump(&mut self, bytes: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        (at <= self.bytes.len()).then(|| self.at = at)
    }

    /// Calls `each` with the id and type of every field of a structure; it must read the value.
    pub fn fields(&mut self, mut each: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        let mut id: i16 = 0;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Some(());
            }
            id = match byte >> 4 {
                0 => self.i64()?.try_into().ok()?,
                delta => id.checked_add(delta.into())?,
            };
            each(self, id, byte & 0xf)?;
        }
    }

    /// Calls `each` at the beginning of every structure of a list; it must read the structure.
    pub fn structs(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let (size, kind) = self.list()?;
        (kind == STRUCT || size == 0).then_some(())?;
        (0..size).try_for_each(|_| each(self))
    }

    /// Reads a list header: the number of elements and their type.
    pub fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let size = match byte >> 4 {
            15 => self.varint()?,
            size => size.into(),
        };
        Some((size, byte & 0xf))
    }

    /// Skips a value of this type, with at most `depth` levels of nesting.
    pub fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.jump(1),
            4..=I64 => self.varint().map(drop),
            DOUBLE => self.jump(8),
            BINARY => {
                let bytes = self.varint()?;
                self.jump(bytes)
            }
            LIST | SET => {
                let (size, kind) = self.list()?;
                self.elements(size, &[kind], depth)
            }
            MAP => {
                let size = self.varint()?;
                let kinds = if size > 0 { self.byte()? } else { 0 };
                self.elements(size, &[kinds >> 4, kinds & 0xf], depth)
            }
            STRUCT => self.fields(|input, _, kind| input.skip(kind, depth)),
            _ => None,
        }
    }

    fn elements(&mut self, size: u64, kinds: &[u8], depth: usize) -> Option<()> {
        // Every element takes at least one byte.
        (size <= (self.bytes.len() - self.at) as u64).then_some(())?;
        for _ in 0..size {
            for &kind in kinds {
                match kind {
                    TRUE | FALSE => self.jump(1)?,
                    kind => self.skip(kind, depth)?,
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize, unpacked_bytes: usize) -> Packed {
        Packed { parts: vec![vec![7u8; bytes].into()], bytes, unpacked_bytes }
    }

    #[test]
    fn header_survives_and_accepts_a_checksum() {
        for (values, bytes, unpacked) in [(1, 0, 0), (11_650, 90, 1 << 20), (7, 1 << 20, 1 << 20)] {
            let page = page(bytes, unpacked);
            let header = PageHeader::data(values, Encoding::PLAIN, &page);
            let crc = crc32fast::hash(&page.parts[0]);
            let parsed = PageHeader::parse(&header).unwrap();
            let expected = PageHeader {
                kind: DATA_PAGE,
                unpacked_bytes: unpacked as i32,
                bytes: bytes as i32,
                crc: Some(crc),
                values: values as i32,
                header_bytes: header.len(),
                ..PageHeader::default()
            };
            assert_eq!(parsed, expected);
            assert_eq!(struct_bytes(&header), Some(header.len()));
            assert_eq!(with_crc(&header, 1), None, "it has one");
            // The header without its checksum, as the crate writes it: field 5 follows field 3.
            let mut bare = vec![];
            for value in [DATA_PAGE, unpacked as i32, bytes as i32] {
                put_next(&mut bare, I32);
                put_i32(&mut bare, value);
            }
            bare.push(2 << 4 | STRUCT);
            let inner = header.iter().rposition(|byte| *byte == (1 << 4 | STRUCT)).unwrap() + 1;
            bare.extend_from_slice(&header[inner..]);
            assert_eq!(with_crc(&bare, crc).unwrap(), header);
        }
    }

    #[test]
    fn dictionary_header_survives() {
        let header = PageHeader::dictionary(300, &page(1000, 1200));
        let parsed = PageHeader::parse(&header).unwrap();
        assert_eq!(
            (parsed.kind, parsed.values, parsed.unpacked_bytes),
            (DICTIONARY_PAGE, 300, 1200)
        );
        assert_eq!((parsed.bytes, parsed.encoding), (1000, Encoding::PLAIN as i32));
        assert_eq!(struct_bytes(&header), Some(header.len()));
    }

    #[test]
    fn damaged_structures_are_rejected_cheaply() {
        let header = PageHeader::data(5, Encoding::PLAIN, &page(500, 500));
        for end in 0..header.len() {
            assert_eq!(PageHeader::parse(&header[..end]), None);
        }
        // A list of 2^40 structures in ten bytes.
        let list = [1 << 4 | LIST, 0xf0 | STRUCT, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0];
        assert_eq!(struct_bytes(&list), None);
        let deep = [1 << 4 | STRUCT; 1000];
        assert_eq!(struct_bytes(&deep), None);
    }
}
