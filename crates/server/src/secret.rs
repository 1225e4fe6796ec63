//! Random secrets, and bytes as hexadecimal text.

use euphrates_flow::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};

/// A random secret of 256 bits, as hexadecimal text.
pub fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::resource("the system has no random numbers"))?;
    Ok(hex(&bytes))
}

/// Bytes as hexadecimal text in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
