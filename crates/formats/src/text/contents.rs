//! Tells what a file holds by its first bytes, for the errors of files that are named otherwise.

use euphrates_flow::{Error, Result};

use crate::text::compression::FileCodec;

/// Signatures of files that no format here reads, and what has them.
const FOREIGN: &[(&[u8], &str)] = &[
    (b"PK\x03\x04", "a ZIP archive, as workbooks of Excel are"),
    (b"\xd0\xcf\x11\xe0", "a document of Microsoft Office"),
    (b"SQLite f", "a database of SQLite"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF-", "a PDF"),
];

/// The binary format whose files begin so, if any: `parquet` or `arrow_ipc`. Eight bytes are
/// enough.
///
/// ```
/// use euphrates_formats::format_of_bytes;
///
/// assert_eq!(format_of_bytes(b"PAR1\x15\x04\x15\x10"), Some("parquet"));
/// assert_eq!(format_of_bytes(b"PAR1,PAR2\n"), None, "a header of CSV");
/// ```
pub fn format_of_bytes(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [b'P', b'A', b'R', b'1' | b'E', next, ..] if next.is_ascii_control() => {
            (!next.is_ascii_whitespace()).then_some("parquet")
        }
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, 0, ..] => Some("arrow_ipc"),
        // The marker of a message of a stream, and the length of its metadata.
        [0xff, 0xff, 0xff, 0xff, _, _, _, 0, ..] => Some("arrow_ipc"),
        _ => None,
    }
}

/// Fails if a file that is to be read as text begins like one of a binary format.
pub fn check_text(begin: &[u8]) -> Result<()> {
    match binary(begin) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The error of a file that begins like one of another format than `named`, which is binary;
/// `None` if nothing can be said of it.
pub fn other_than(named: &str, begin: &[u8]) -> Option<Error> {
    // A file that begins with the word of its format is damaged, whatever follows.
    if format_of_bytes(begin) == Some(named) || begin.starts_with(magic(named)) {
        return None;
    }
    if let Some(codec) = FileCodec::of_bytes(begin) {
        let error = Error::usage(format!("it is compressed with {}", codec.name()));
        return Some(error.remedy("text in it is read with `format=\"csv\"`; else decompress it"));
    }
    if let Some(error) = binary(begin) {
        return Some(error);
    }
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    match begin {
        [] => None,
        [b'{', ..] | [b'[', ..] if begin.iter().all(is_text) => {
            let message = format!("it looks like JSON, and not like {}", shown(named));
            Some(Error::usage(message).remedy("read it with `format=\"json_lines\"`"))
        }
        _ if begin.iter().all(is_text) => Some(
            // Damage cannot be told from a wrong name.
            Error::corrupt(format!("it is text, and not {}", shown(named)))
                .remedy("read it with `format=\"csv\"`, or its lines with `format=\"lines\"`"),
        ),
        _ => None,
    }
}

/// The word that files of a binary format begin with.
fn magic(format: &str) -> &'static [u8] {
    if format == "parquet" { b"PAR1" } else { b"ARROW1" }
}

/// The name of a binary format, for people.
fn shown(format: &str) -> &'static str {
    if format == "parquet" { "Parquet" } else { "Arrow IPC" }
}

fn binary(begin: &[u8]) -> Option<Error> {
    if let Some(name) = format_of_bytes(begin) {
        let error = Error::usage(format!("it begins like {}", shown(name)));
        return Some(error.remedy(format!("read it with `format=\"{name}\"`")));
    }
    let (_, what) = FOREIGN.iter().find(|(sign, _)| begin.starts_with(sign))?;
    // A word at the beginning of text may look like a signature of letters alone.
    let is_text = begin.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'));
    let error = Error::usage(format!("it is {what}"));
    (!is_text || begin.starts_with(b"%PDF-")).then(|| error.remedy("save it as CSV or Parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_are_no_text_and_the_error_names_their_format() {
        for (begin, said) in [
            (b"PAR1\x15\x00\x15\x10".as_slice(), "`format=\"parquet\"`"),
            (b"ARROW1\0\0", "`format=\"arrow_ipc\"`"),
            (b"\xff\xff\xff\xff\x10\x01\0\0", "`format=\"arrow_ipc\"`"),
            (b"PK\x03\x04\x14\0\x06\0", "a ZIP archive"),
        ] {
            let error = check_text(begin).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for text in [b"PAR1,PAR2".as_slice(), b"ORC;a;b\n", b"", b"PAR1\n1\n", b"ARROW1,a"] {
            assert!(check_text(text).is_ok());
        }
    }

    #[test]
    fn files_of_another_format_are_told_by_their_first_bytes() {
        for (named, begin, said) in [
            ("parquet", b"x,y,z\n1,".as_slice(), Some("`format=\"csv\"`")),
            ("parquet", b"{\"x\": 1}", Some("`format=\"json_lines\"`")),
            ("parquet", b"ARROW1\0\0", Some("`format=\"arrow_ipc\"`")),
            ("parquet", b"\x1f\x8b\x08\0\0\0\0\0", Some("compressed with gzip")),
            ("arrow_ipc", b"PAR1\x15\x00\x15\x10", Some("`format=\"parquet\"`")),
            ("parquet", b"PAR1\x15\x00\x15\x10", None),
            ("parquet", b"PAR1 and no more", None),
            ("parquet", b"damaged", Some("it is text, and not Parquet")),
            ("parquet", b"\x00\x01\x02\x03", None),
            ("parquet", b"", None),
        ] {
            let error = other_than(named, begin).map(|error| error.to_string());
            assert_eq!(error.is_some(), said.is_some(), "{begin:?}");
            assert!(error.unwrap_or_default().contains(said.unwrap_or_default()), "{begin:?}");
        }
    }
}
