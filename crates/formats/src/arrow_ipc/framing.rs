//! Magic bytes and end markers around the messages of Arrow IPC files and streams.

/// The magic that begins and ends a file; at the beginning, padding to 8 bytes follows.
pub const MAGIC: &[u8; 6] = b"ARROW1";
/// The magic padded to 8 bytes, which begins a file.
pub const HEAD: &[u8; 8] = b"ARROW1\0\0";

/// Marks the end of the messages, before the footer.
pub const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
