//! Digests of text and bytes, in hexadecimal digits.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use md5::{Digest as _, Md5};
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::row_functions::ArgumentKind::Bytes;
use super::row_functions::{Computed, ResultKind, RowFunction, each};

pub(super) const FUNCTIONS: [RowFunction; 3] = [
    of_bytes(&["md5"], |args| digests(args, |bytes| Md5::digest(bytes).to_vec())),
    of_bytes(&["sha1"], |args| digests(args, |bytes| of_ring(&SHA1_FOR_LEGACY_USE_ONLY, bytes))),
    of_bytes(&["sha256"], |args| digests(args, |bytes| of_ring(&SHA256, bytes))),
];

const fn of_bytes(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Bytes], optional: 0, returns: ResultKind::Text, compute }
}

fn of_ring(algorithm: &'static Algorithm, bytes: &[u8]) -> Vec<u8> {
    digest(algorithm, bytes).as_ref().to_vec()
}

fn digests(args: &[ArrayRef], of: impl Fn(&[u8]) -> Vec<u8>) -> Computed<ArrayRef> {
    let bytes = args[0].as_binary::<i32>();
    let digits = |bytes: &[u8]| of(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let found = each(args, |row| Ok(Some(digits(bytes.value(row)))))?;
    let found: Vec<Option<String>> = found;
    Ok(Arc::new(StringArray::from(found)))
}
