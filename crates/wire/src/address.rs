//! Socket addresses: their text form, and what is wrong with a text that is none.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use euphrates_flow::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The prefix of a unix socket's address.
const UNIX: &str = "unix:";

/// An address to listen at or to dial. As text: `unix:/path`, `host:port`, `[::1]:7`.
///
/// ```
/// use euphrates_wire::Address;
///
/// let address: Address = "[::1]:7000".parse()?;
/// assert_eq!(address.to_string(), "[::1]:7000");
/// assert!(matches!("unix:/run/w0".parse()?, Address::Unix(path) if path.ends_with("w0")));
/// assert!("localhost".parse::<Address>().unwrap_err().to_string().contains("no port"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A socket in the file system of this machine.
    Unix(PathBuf),
    /// Host and port, as in `node7:4400`, with an IPv6 address in brackets.
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{UNIX}{}", path.display()),
            Address::Tcp(host_port) => f.write_str(host_port),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let wrong = |why: &str| {
            Error::usage(format!("`{text}` is no address: {why}"))
                .remedy("write `host:port`, `[::1]:port`, or `unix:/path/of/a/socket`")
        };
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path {
                "" => Err(wrong("it has no path")),
                _ if path.contains('\0') => Err(wrong("its path has a zero byte")),
                _ => Ok(Address::Unix(path.into())),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        if port.is_empty()
            || !port.bytes().all(|b| b.is_ascii_digit())
            || port.parse::<u16>().is_err()
        {
            return Err(wrong("its port is not a number below 65536"));
        }
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bracketed {
            Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_err() => {
                Err(wrong("what stands in brackets is no IPv6 address"))
            }
            None if host.is_empty() => Err(wrong("it has no host")),
            None if host.contains([':', '[', ']', '/', ' ']) || host.contains(char::is_control) => {
                Err(wrong("its host is neither a name nor a number"))
            }
            _ => Ok(Address::Tcp(text.to_string())),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_roundtrip_as_text_and_json() {
        for text in ["unix:/run/e u/w2", "node7:4400", "127.0.0.1:0", "[::1]:7", "a.b-c:65535"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
        }
    }

    #[test]
    fn invalid_address_names_the_valid_forms() {
        for text in [
            "",
            "unix:",
            "host",
            ":7",
            "host:",
            "host:65536",
            "host:+7",
            "::1:7",
            "[::1:7",
            "[x]:7",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.advice().unwrap().contains("host:port"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_refused(text in "\\PC{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}
