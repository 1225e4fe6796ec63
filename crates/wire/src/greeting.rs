//! The greeting of a connection: names, flow, limits and abilities of an end.
//!
//! It is decoded before the other end is authenticated, so both its text and its decoded size are
//! bounded: a list of short names takes more memory than its text.

use std::fmt;
use std::time::Duration;

use euphrates_flow::{Error, Result};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::frame::{Caps, GREETING_BYTES_MAX};

/// Abilities in a greeting, at most.
pub(crate) const ABILITIES_MAX: usize = 64;
/// The longest name, in bytes: with a flow's number and a domain it fits in a certificate's label.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// An end's description of itself and of the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The end's name: letters, digits, `-`, `_` and `.`, as in `w2`.
    pub name: String,
    /// The purpose of the connection: "control", "batches", "join", …
    pub purpose: String,
    /// The flow; 0 for the cluster itself.
    pub flow: u64,
    /// The attempt at the flow.
    pub epoch: u32,
    /// The number of this connection among those between the same two ends.
    pub lane: u32,
    /// The version of Euphrates.
    pub program: String,
    /// The heartbeat timeout that this end advertises, in milliseconds: longer than the default
    /// where it has only part of a processor.
    #[serde(default)]
    pub silence_ms: u32,
    /// What this end accepts in one frame; after the handshake, what both accept.
    pub caps: Caps,
    /// Optional features of this end; after the handshake, those of both.
    #[serde(deserialize_with = "few")]
    pub abilities: Vec<String>,
}

impl Greeting {
    /// This greeting for another connection between the same ends.
    pub fn on_lane(self, lane: usize) -> Greeting {
        Greeting { lane: lane as u32, ..self }
    }

    /// This greeting with an advertised timeout of `silence` or longer.
    pub fn silent_for(self, silence: Option<Duration>) -> Greeting {
        let silence_ms = silence.map_or(0, |silence| silence.as_millis() as u32);
        Greeting { silence_ms: self.silence_ms.max(silence_ms), ..self }
    }

    /// Encodes the greeting as JSON; fails if it exceeds its bounds.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        serde_json::to_vec(self).map_err(Error::failed)
    }

    /// Decodes a greeting; fails if it is malformed or exceeds its bounds.
    ///
    /// ```
    /// use euphrates_wire::{Caps, Greeting};
    ///
    /// let greeting = Greeting {
    ///     name: "w0".into(),
    ///     purpose: "batches".into(),
    ///     flow: 7,
    ///     epoch: 1,
    ///     lane: 0,
    ///     program: "0.1.0".into(),
    ///     silence_ms: 0,
    ///     caps: Caps::KNOWN,
    ///     abilities: vec!["lz4".into()],
    /// };
    /// assert_eq!(Greeting::decode(&greeting.encode()?)?.abilities, ["lz4"]);
    /// assert!(Greeting { name: "../w0".into(), ..greeting }.encode().is_err(), "no name");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn decode(bytes: &[u8]) -> Result<Greeting> {
        let greeting: Greeting = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt(format!("no greeting that can be read: {error}")))?;
        greeting.check().map(|()| greeting)
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_label = |label: &str| !label.is_empty();
        if name.len() > NAME_BYTES_MAX
            || !name.bytes().all(allowed)
            || !name.split('.').all(is_label)
        {
            let message = format!("{name:?} is not a name for an end of a connection");
            return Err(Error::usage(message)
                .remedy("use at most 63 letters, digits, `-` and `_`, with single dots between"));
        }
        let words = [&self.purpose, &self.program].into_iter().chain(&self.abilities);
        let bytes: usize = words.map(String::len).sum();
        // Half of the bound: the other half is for keys and quotes.
        if bytes > GREETING_BYTES_MAX as usize / 2 || self.abilities.len() > ABILITIES_MAX {
            return Err(Error::usage("an end says too much of itself in its greeting"));
        }
        Ok(())
    }

    /// Combines both greetings: the other end's, with the caps and abilities of both. Fails if the
    /// versions of Euphrates differ, since their messages may differ, too.
    pub(crate) fn agree(&self, other: Greeting) -> Result<Greeting> {
        if other.program != self.program {
            let versions = format!("`{}` runs Euphrates {}", other.name, other.program);
            let here = format!("`{}` runs {}", self.name, self.program);
            return Err(Error::usage(format!("{versions}, but {here}"))
                .remedy("install the same version of Euphrates on every machine"));
        }
        let mut abilities = other.abilities;
        abilities.retain(|ability| self.abilities.contains(ability));
        Ok(Greeting { caps: self.caps.both(other.caps), abilities, ..other })
    }
}

/// Decodes a list of abilities, and stops at the first one too many.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {ABILITIES_MAX} abilities")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
            let mut few = Vec::new();
            while let Some(item) = items.next_element()? {
                if few.len() == ABILITIES_MAX {
                    return Err(serde::de::Error::invalid_length(few.len() + 1, &self));
                }
                few.push(item);
            }
            Ok(few)
        }
    }
    deserializer.deserialize_seq(Few)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn greeting(name: &str) -> Greeting {
        Greeting {
            name: name.into(),
            purpose: "batches".into(),
            flow: 7,
            epoch: 1,
            lane: 0,
            program: "0.1.0".into(),
            silence_ms: 0,
            caps: Caps::KNOWN,
            abilities: vec!["a".into(), "b".into()],
        }
    }

    #[test]
    fn agreement_keeps_common_abilities_and_smaller_caps() {
        let other = Greeting {
            caps: Caps { meta_bytes_max: 9, body_bytes_max: u64::MAX },
            abilities: vec!["c".into(), "b".into()],
            ..greeting("w2")
        };
        let agreed = greeting("w1").agree(other).unwrap();
        assert_eq!(agreed.name, "w2");
        assert_eq!(agreed.caps.meta_bytes_max, 9);
        assert_eq!(agreed.caps.body_bytes_max, Caps::KNOWN.body_bytes_max);
        assert_eq!(agreed.abilities, ["b"]);
    }

    #[test]
    fn other_version_is_refused_and_both_are_named() {
        let other = Greeting { program: "0.2.0".into(), ..greeting("w2") };
        let error = greeting("w1").agree(other).unwrap_err().to_string();
        assert!(error.contains("`w2` runs Euphrates 0.2.0, but `w1` runs 0.1.0"), "{error}");
        assert!(error.contains("remedy: install the same version"), "{error}");
    }

    #[test]
    fn invalid_names_and_large_greetings_are_refused() {
        for name in ["", ".", "a..b", "a b", "é", "a\n", &"n".repeat(64)] {
            assert!(greeting(name).encode().is_err(), "{name:?}");
        }
        let many = Greeting { abilities: vec![String::new(); 65], ..greeting("w1") };
        assert!(many.encode().is_err());
        assert!(Greeting::decode(&serde_json::to_vec(&many).unwrap()).is_err());
        let long = Greeting { purpose: "p".repeat(5000), ..greeting("w1") };
        assert!(long.encode().is_err());
        // A later version may add fields.
        let mut later = serde_json::to_value(greeting("w1")).unwrap();
        later["more"] = true.into();
        assert!(Greeting::decode(&serde_json::to_vec(&later).unwrap()).is_ok());
    }

    proptest! {
        #[test]
        fn greetings_roundtrip(
            (flow, epoch, lane) in any::<(u64, u32, u32)>(),
            name in "[a-z0-9_-]{1,63}",
            abilities in prop::collection::vec("\\PC{0,8}", 0..64),
        ) {
            let greeting_sent = Greeting { name, flow, epoch, lane, abilities, ..greeting("") };
            let bytes = greeting_sent.encode().unwrap();
            prop_assert!(bytes.len() < GREETING_BYTES_MAX as usize);
            prop_assert_eq!(Greeting::decode(&bytes).unwrap(), greeting_sent);
        }

        #[test]
        fn any_bytes_are_a_greeting_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = Greeting::decode(&bytes);
        }
    }
}
