//! Shared secrets of flows and clusters, and the keys derived from them.
//!
//! Each flow and each cluster has one secret. It is never sent over a connection: each use has a
//! separate key, derived from the secret.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use euphrates_flow::{Error, Result};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// The length of a secret, in bytes.
pub(crate) const SECRET_BYTES: usize = 32;
/// The permission bits that a secret's file must not have: those of group and others.
const OTHERS: u32 = 0o077;

/// 256 random bits that the ends of a flow share.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Generates a secret from the system's source of randomness.
    pub fn random() -> Result<Secret> {
        random_bytes().map(Secret)
    }

    /// Parses 64 hexadecimal digits.
    ///
    /// ```
    /// use euphrates_wire::Secret;
    ///
    /// assert!(Secret::parse(&"0f".repeat(32)).is_ok());
    /// assert!(Secret::parse("0f").is_err(), "64 digits");
    /// ```
    pub fn parse(text: &str) -> Result<Secret> {
        secret_of(text).ok_or_else(|| malformed("the token"))
    }

    /// Formats the secret as [`Secret::parse`] reads it.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a secret from a file; fails if others than its owner can read it.
    pub fn read(path: &Path) -> Result<Secret> {
        let mut file = File::open(path).map_err(|error| {
            Error::os("read the token in", path, &error).remedy("check the path of the token")
        })?;
        let looked = file.metadata();
        let mode = looked.map_err(|error| Error::os("look at", path, &error))?.permissions().mode();
        if mode & OTHERS != 0 {
            let message = format!("the token in {path:?} may be read by others");
            let remedy = format!("chmod 600 {path:?}, and have a new token made if need be");
            return Err(Error::usage(message).remedy(remedy));
        }
        let mut text = String::new();
        let read = (&mut file).take(1024).read_to_string(&mut text);
        read.map_err(|error| Error::os("read the token in", path, &error))?;
        secret_of(text.trim()).ok_or_else(|| malformed(&format!("the token in {path:?}")))
    }

    /// Writes the secret to a new file that only its owner can read; fails if the file exists.
    ///
    /// ```
    /// use euphrates_wire::Secret;
    /// use std::fs::{Permissions, set_permissions};
    /// use std::os::unix::fs::PermissionsExt;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("token");
    /// let secret = Secret::random()?;
    /// secret.write(&path)?;
    /// assert!(secret.write(&path).is_err(), "the file exists");
    /// assert_eq!(Secret::read(&path)?.to_text(), secret.to_text());
    /// set_permissions(&path, Permissions::from_mode(0o644))?;
    /// assert!(Secret::read(&path).is_err(), "others can read it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self, path: &Path) -> Result<()> {
        let fresh = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = fresh.map_err(|error| {
            Error::os("make the token's file", path, &error)
                .remedy("choose a path where there is no file yet")
        })?;
        let written = writeln!(file, "{}", self.to_text()).and_then(|()| file.sync_all());
        written.map_err(|error| Error::os("write the token to", path, &error))
    }

    /// Derives a key for one purpose (HKDF-SHA256), which reveals nothing about this secret.
    ///
    /// ```
    /// use euphrates_wire::Secret;
    ///
    /// let cluster = Secret::random()?;
    /// let same = Secret::parse(&cluster.to_text())?;
    /// assert!(cluster.derive("flow 1").to_text() == same.derive("flow 1").to_text());
    /// assert!(cluster.derive("flow 1").to_text() != cluster.derive("flow 2").to_text());
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn derive(&self, purpose: &str) -> Secret {
        let key = Salt::new(HKDF_SHA256, b"euphrates").extract(&self.0);
        let mut derived = [0; SECRET_BYTES];
        key.expand(&[purpose.as_bytes()], HKDF_SHA256)
            .and_then(|stream| stream.fill(&mut derived))
            .expect("as many bytes as the hash has");
        Secret(derived)
    }

    /// The raw bytes, for key derivation only.
    pub(crate) fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

fn secret_of(text: &str) -> Option<Secret> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut secret = [0; SECRET_BYTES];
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| (pair[at] as char).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(Secret(secret))
}

fn malformed(token: &str) -> Error {
    Error::usage(format!("{token} is not 64 hexadecimal digits"))
        .remedy("use the token as it was printed, or have a new one made")
}

/// Bytes from the system's source of randomness.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::resource("the system gives no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    #[test]
    fn secrets_roundtrip_and_debug_output_hides_them() {
        let secret = Secret::random().unwrap();
        assert_eq!(Secret::parse(&secret.to_text()).unwrap().to_text(), secret.to_text());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_ne!(Secret::random().unwrap().to_text(), secret.to_text());
        for text in ["", "12", &"g".repeat(64), &"é".repeat(32), &"0".repeat(65)] {
            assert_eq!(Secret::parse(text).unwrap_err().kind(), Kind::Usage, "{text}");
        }
    }

    #[test]
    fn derived_keys_differ_by_purpose_and_are_deterministic() {
        let secret = Secret::parse(&"07".repeat(32)).unwrap();
        assert_ne!(secret.derive("ca").to_text(), secret.derive("greeting").to_text());
        let again = Secret::parse(&secret.to_text()).unwrap();
        assert_eq!(secret.derive("ca").to_text(), again.derive("ca").to_text());
    }

    #[test]
    fn file_readable_by_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let secret = Secret::random().unwrap();
        secret.write(&path).unwrap();
        assert_eq!(Secret::read(&path).unwrap().to_text(), secret.to_text());
        assert!(secret.write(&path).is_err(), "it is there already");
        for mode in [0o640, 0o604, 0o660, 0o620] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let error = Secret::read(&path).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.advice().unwrap().contains("chmod 600"), "{error}");
        }
        assert_eq!(Secret::read(&folder.path().join("none")).unwrap_err().kind(), Kind::Usage);
    }
}
