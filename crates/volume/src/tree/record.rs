//! The records of the log: each is one change of the tree, as a whole or not at all.

use super::codec::{BytesIn, BytesOut};

/// One change of the tree. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord<'a> {
    /// Makes an inode with its first name.
    Create {
        number: u64,
        parent: u64,
        name: &'a [u8],
        mode: u32,
        owner: (u32, u32),
        device: u32,
        /// Of a symbolic link.
        target: &'a [u8],
        time: i64,
    },
    /// Gives an inode another name.
    Link { number: u64, parent: u64, name: &'a [u8], time: i64 },
    /// Removes a name: that of an empty folder, or of anything else.
    Remove { parent: u64, name: &'a [u8], is_folder: bool, time: i64 },
    /// Moves a name, in place of one that exists. Exchanges both with `exchange`.
    Rename {
        parent: u64,
        name: &'a [u8],
        to_parent: u64,
        to_name: &'a [u8],
        exchange: bool,
        time: i64,
    },
    /// Changes mode, owner and times.
    Change { number: u64, change: AttributeChange, time: i64 },
    /// Cuts a file, or makes it longer.
    Truncate { number: u64, bytes: u64, time: i64 },
    /// Makes a range a hole. With `extends` the file is then at least that long.
    Zero { number: u64, offset: u64, bytes: u64, extends: bool, time: i64 },
    /// Writes bytes.
    Write { number: u64, offset: u64, time: i64, data: &'a [u8] },
    /// Stores bytes of a file again that it has there: the cleaner empties a segment.
    Move { number: u64, offset: u64, data: &'a [u8] },
    /// Sets an extended attribute.
    SetAttribute { number: u64, name: &'a [u8], value: &'a [u8], time: i64 },
    /// Removes an extended attribute.
    RemoveAttribute { number: u64, name: &'a [u8], time: i64 },
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Permissions.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The owner's group.
    pub gid: Option<u32>,
    /// The time of the last access.
    pub accessed: Option<i64>,
    /// The time of the last change of the content.
    pub modified: Option<i64>,
}

impl<'a> LogRecord<'a> {
    /// Appends the record with its length. The data of a write are its last bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        let mut out = BytesOut(std::mem::take(to));
        out.u32(0);
        self.encode_body(&mut out);
        *to = out.0;
        let bytes = (to.len() - start - 4) as u32;
        to[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
    }

    fn encode_body(&self, out: &mut BytesOut) {
        match *self {
            LogRecord::Create { number, parent, name, mode, owner, device, target, time } => {
                out.u8(0);
                out.u64(number);
                out.u64(parent);
                out.bytes(name);
                for one in [mode, owner.0, owner.1, device] {
                    out.u32(one);
                }
                out.bytes(target);
                out.i64(time);
            }
            LogRecord::Link { number, parent, name, time } => {
                out.u8(1);
                out.u64(number);
                out.u64(parent);
                out.bytes(name);
                out.i64(time);
            }
            LogRecord::Remove { parent, name, is_folder, time } => {
                out.u8(2);
                out.u64(parent);
                out.bytes(name);
                out.u8(u8::from(is_folder));
                out.i64(time);
            }
            LogRecord::Rename { parent, name, to_parent, to_name, exchange, time } => {
                out.u8(3);
                out.u64(parent);
                out.bytes(name);
                out.u64(to_parent);
                out.bytes(to_name);
                out.u8(u8::from(exchange));
                out.i64(time);
            }
            LogRecord::Change { number, change, time } => {
                out.u8(4);
                out.u64(number);
                let AttributeChange { mode, uid, gid, accessed, modified } = change;
                for one in [mode, uid, gid] {
                    out.optional(one.map(i64::from));
                }
                for one in [accessed, modified] {
                    out.optional(one);
                }
                out.i64(time);
            }
            LogRecord::Truncate { number, bytes, time } => {
                out.u8(5);
                out.u64(number);
                out.u64(bytes);
                out.i64(time);
            }
            LogRecord::Zero { number, offset, bytes, extends, time } => {
                out.u8(6);
                for one in [number, offset, bytes] {
                    out.u64(one);
                }
                out.u8(u8::from(extends));
                out.i64(time);
            }
            LogRecord::Write { number, offset, time, data } => {
                out.u8(7);
                out.u64(number);
                out.u64(offset);
                out.i64(time);
                out.bytes(data);
            }
            LogRecord::Move { number, offset, data } => {
                out.u8(8);
                out.u64(number);
                out.u64(offset);
                out.bytes(data);
            }
            LogRecord::SetAttribute { number, name, value, time } => {
                out.u8(9);
                out.u64(number);
                out.bytes(name);
                out.bytes(value);
                out.i64(time);
            }
            LogRecord::RemoveAttribute { number, name, time } => {
                out.u8(10);
                out.u64(number);
                out.bytes(name);
                out.i64(time);
            }
        }
    }

    /// Reads the next record and the offset behind it, relative to the decoder's bytes; `None` if
    /// it is malformed.
    pub fn decode(from: &mut BytesIn<'a>) -> Option<(LogRecord<'a>, usize)> {
        let body = from.bytes()?;
        let end = from.at();
        let mut body = BytesIn::new(body);
        let record = LogRecord::decode_body(&mut body)?;
        body.is_empty().then_some((record, end))
    }

    fn decode_body(from: &mut BytesIn<'a>) -> Option<LogRecord<'a>> {
        let number = |from: &mut BytesIn<'a>| from.u64();
        let small = |number: i64| u32::try_from(number).ok();
        Some(match from.u8()? {
            0 => LogRecord::Create {
                number: number(from)?,
                parent: from.u64()?,
                name: from.bytes()?,
                mode: from.u32()?,
                owner: (from.u32()?, from.u32()?),
                device: from.u32()?,
                target: from.bytes()?,
                time: from.i64()?,
            },
            1 => LogRecord::Link {
                number: number(from)?,
                parent: from.u64()?,
                name: from.bytes()?,
                time: from.i64()?,
            },
            2 => LogRecord::Remove {
                parent: from.u64()?,
                name: from.bytes()?,
                is_folder: from.u8()? == 1,
                time: from.i64()?,
            },
            3 => LogRecord::Rename {
                parent: from.u64()?,
                name: from.bytes()?,
                to_parent: from.u64()?,
                to_name: from.bytes()?,
                exchange: from.u8()? == 1,
                time: from.i64()?,
            },
            4 => {
                let number = number(from)?;
                let [mode, uid, gid] = [from.optional()?, from.optional()?, from.optional()?];
                let change = AttributeChange {
                    mode: mode.and_then(small),
                    uid: uid.and_then(small),
                    gid: gid.and_then(small),
                    accessed: from.optional()?,
                    modified: from.optional()?,
                };
                LogRecord::Change { number, change, time: from.i64()? }
            }
            5 => {
                LogRecord::Truncate { number: number(from)?, bytes: from.u64()?, time: from.i64()? }
            }
            6 => LogRecord::Zero {
                number: number(from)?,
                offset: from.u64()?,
                bytes: from.u64()?,
                extends: from.u8()? == 1,
                time: from.i64()?,
            },
            7 => LogRecord::Write {
                number: number(from)?,
                offset: from.u64()?,
                time: from.i64()?,
                data: from.bytes()?,
            },
            8 => {
                LogRecord::Move { number: number(from)?, offset: from.u64()?, data: from.bytes()? }
            }
            9 => LogRecord::SetAttribute {
                number: number(from)?,
                name: from.bytes()?,
                value: from.bytes()?,
                time: from.i64()?,
            },
            10 => LogRecord::RemoveAttribute {
                number: number(from)?,
                name: from.bytes()?,
                time: from.i64()?,
            },
            _ => return None,
        })
    }

    /// The bytes of data, which a record ends with.
    pub fn data_bytes(&self) -> usize {
        match self {
            LogRecord::Write { data, .. } | LogRecord::Move { data, .. } => data.len(),
            _ => 0,
        }
    }
}
