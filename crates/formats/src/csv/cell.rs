//! A field of CSV: what it says once it is freed of quotes and escapes.

use std::borrow::Cow;

/// A field: what it says, and how it is written.
pub struct Cell<'a> {
    /// What it says.
    pub text: Cow<'a, [u8]>,
    /// Whether it begins with a quote.
    pub quoted: bool,
    /// As it is written, but for quotes around it.
    pub written: &'a [u8],
}

/// What stands between quotes: two of them are one, and a single one is where they end.
pub fn unquoted(bytes: &[u8], quote: Option<u8>, escape: Option<u8>) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter().copied().peekable();
    let mut within = true;
    while let Some(byte) = bytes.next() {
        if Some(byte) == escape {
            // An escape at the very end is itself.
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

/// The same outside of quotes.
pub fn unescaped(bytes: &[u8], escape: Option<u8>) -> Vec<u8> {
    unquoted(bytes, None, escape)
}
