//! The modules of the user's own: what scripts that were run here, with consent, have defined. Kept
//! as long as the server lives, and asked for again by running the script again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use crate::lock;

/// Scripts whose modules are known; what was run first is forgotten first.
const SCRIPTS_MAX: usize = 100;

/// By script, in the order in which they were run.
#[derive(Default)]
pub struct Own(Mutex<Vec<(String, Vec<Value>)>>);

impl Own {
    /// What a script defines, as of now.
    pub fn learn(&self, script: &str, modules: Vec<Value>) {
        let mut known = lock(&self.0);
        known.retain(|(one, _)| one != script);
        known.push((script.to_string(), modules));
        let surplus = known.len().saturating_sub(SCRIPTS_MAX);
        known.drain(..surplus);
    }

    /// All of them, each once: as who was run last has said.
    pub fn list(&self) -> Vec<Value> {
        let known = lock(&self.0);
        let all = known.iter().flat_map(|(_, modules)| modules);
        let named = all.filter_map(|one| Some((one["name"].as_str()?.to_string(), one.clone())));
        named.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
