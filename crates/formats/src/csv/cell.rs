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
}

/// The text of a quoted field: a doubled quote is one quote, and a single quote ends the quoted
/// part.
pub fn unquoted(bytes: &[u8], quote: Option<u8>, escape: Option<u8>) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter().copied().peekable();
    let mut within = true;
    while let Some(byte) = bytes.next() {
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
    text
}

/// The text of an unquoted field: each escape is dropped.
pub fn unescaped(bytes: &[u8], escape: Option<u8>) -> Vec<u8> {
    unquoted(bytes, None, escape)
}
