//! What the ends of a connection say of themselves before anything else.
//!
//! It is read before the other end has proved anything, so it is small, and what is made of it is
//! bounded: a list of short names takes more room in memory than as text.

use std::fmt;
use std::time::Duration;

use euphrates_flow::{Error, Result};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::frame::{Caps, GREETING_BYTES_MAX};

/// The most abilities that an end may name.
pub const ABILITIES_MAX: usize = 64;
/// The longest name: with a flow's number and a domain it still fits in a certificate's label.
pub const NAME_BYTES_MAX: usize = 63;

/// Who calls, or answers, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Who: letters, digits, `-`, `_` and `.`, as in `w2`.
    pub name: String,
    /// What for: "control", "batches", "join", …
    pub purpose: String,
    /// The flow; 0 for the cluster itself.
    pub flow: u64,
    /// The attempt at it.
    pub epoch: u32,
    /// Which of the connections between the same two ends.
    pub lane: u32,
    /// The version of Euphrates.
    pub program: String,
    /// How long this end may say nothing though it lives, in milliseconds: more than others may,
    /// where it has little of a processor.
    #[serde(default)]
    pub silence_ms: u32,
    /// What this end allows in one frame; once both have greeted, what both do.
    pub caps: Caps,
    /// What this end can do beyond the least; once both have greeted, what both can.
    #[serde(deserialize_with = "few")]
    pub abilities: Vec<String>,
}

impl Greeting {
    /// The same, for another of the connections between these ends.
    pub fn on_lane(self, lane: usize) -> Greeting {
        Greeting { lane: lane as u32, ..self }
    }

    /// Announces a longer silence of this end.
    pub fn silent_for(self, silence: Option<Duration>) -> Greeting {
        let silence_ms = silence.map_or(0, |silence| silence.as_millis() as u32);
        Greeting { silence_ms: self.silence_ms.max(silence_ms), ..self }
    }

    /// As it travels.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        serde_json::to_vec(self).map_err(Error::failed)
    }

    /// What travelled, if it is one.
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
            let message = format!("{name:?} is no name for an end of a connection");
            return Err(Error::usage(message)
                .remedy("use at most 63 letters, digits, `-` and `_`, with single dots between"));
        }
        let words = [&self.purpose, &self.program].into_iter().chain(&self.abilities);
        let bytes: usize = words.map(String::len).sum();
        // Half of what a greeting may be: its frame and quotes need some.
        if bytes > GREETING_BYTES_MAX as usize / 2 || self.abilities.len() > ABILITIES_MAX {
            return Err(Error::usage("an end says too much of itself in its greeting"));
        }
        Ok(())
    }

    /// The other end's greeting with what both ends allow and can do. Ends of different versions
    /// of Euphrates do not talk: what they write to each other may mean something else.
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

/// A list that is refused while it is read, not afterwards.
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
    fn both_ends_agree_on_what_both_can() {
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
    fn another_version_is_refused_naming_both() {
        let other = Greeting { program: "0.2.0".into(), ..greeting("w2") };
        let error = greeting("w1").agree(other).unwrap_err().to_string();
        assert!(error.contains("`w2` runs Euphrates 0.2.0, but `w1` runs 0.1.0"), "{error}");
        assert!(error.contains("remedy: install the same version"), "{error}");
    }

    #[test]
    fn a_greeting_is_small_and_its_name_is_one() {
        for name in ["", ".", "a..b", "a b", "é", "a\n", &"n".repeat(64)] {
            assert!(greeting(name).encode().is_err(), "{name:?}");
        }
        let many = Greeting { abilities: vec![String::new(); 65], ..greeting("w1") };
        assert!(many.encode().is_err());
        assert!(Greeting::decode(&serde_json::to_vec(&many).unwrap()).is_err());
        let long = Greeting { purpose: "p".repeat(5000), ..greeting("w1") };
        assert!(long.encode().is_err());
        // One of a later version may say more.
        let mut later = serde_json::to_value(greeting("w1")).unwrap();
        later["more"] = true.into();
        assert!(Greeting::decode(&serde_json::to_vec(&later).unwrap()).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_said_is_what_is_heard(
            (flow, epoch, lane) in any::<(u64, u32, u32)>(),
            name in "[a-z0-9_-]{1,63}",
            abilities in prop::collection::vec("\\PC{0,8}", 0..64),
        ) {
            let said = Greeting { name, flow, epoch, lane, abilities, ..greeting("") };
            let bytes = said.encode().unwrap();
            prop_assert!(bytes.len() < GREETING_BYTES_MAX as usize);
            prop_assert_eq!(Greeting::decode(&bytes).unwrap(), said);
        }

        #[test]
        fn any_bytes_are_a_greeting_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = Greeting::decode(&bytes);
        }
    }
}
