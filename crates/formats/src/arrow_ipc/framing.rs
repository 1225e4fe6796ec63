//! The bytes around the messages of Arrow IPC files and streams.

/// What a file begins and ends with, and how it begins on an 8-byte border.
pub const MAGIC: &[u8; 6] = b"ARROW1";
pub const HEAD: &[u8; 8] = b"ARROW1\0\0";

/// Marks the end of the batches, in front of the footer.
pub const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
