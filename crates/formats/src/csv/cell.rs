//! A CSV field, and its text after quotes and escapes are removed.

use std::borrow::Cow;

/// A field: its text, and how the file writes it.
pub struct Cell<'a> {
    /// The text without quotes and escapes.
    pub text: Cow<'a, [u8]>,
    /// Whether the field begins with a quote.
    pub quoted: bool,
    /// The bytes in the file after the opening quote; also without the closing quote if the field
    /// has no quotes or escapes inside.
    pub written: &'a [u8],
    /// Whether a quoted field has more than blanks behind its closing quote.
    pub is_torn: bool,
}

/// The text of a quoted field: a doubled quote is one quote, and a single quote ends the quoted
/// part. The second value is [`Cell::is_torn`].
pub fn unquoted(bytes: &[u8], quote: Option<u8>, escape: Option<u8>) -> (Vec<u8>, bool) {
    let mut text = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter().copied().peekable();
    let (mut within, mut is_torn) = (true, false);
    while let Some(byte) = bytes.next() {
        is_torn |= !within && !matches!(byte, b' ' | b'\t');
        if Some(byte) == escape {
            // An escape that ends the field stands for itself.
            text.push(bytes.next().unwrap_or(byte));
        } else if within && Some(byte) == quote {
            match bytes.next_if(|next| Some(*next) == quote) {
                Some(quote) => text.push(quote),
                None => within = false,
            }
        } else {
            text.push(byte);
        }
    }
    (text, is_torn)
}

/// The text of an unquoted field: each escape is dropped.
pub fn unescaped(bytes: &[u8], escape: Option<u8>) -> Vec<u8> {
    unquoted(bytes, None, escape).0
}
