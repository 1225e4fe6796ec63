//! The modules that scripts of the project define. They are known after the user has agreed to run
//! the script, until the server ends.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::Value;

/// Scripts whose modules are known; the least recently run is dropped first.
const SCRIPTS_MAX: usize = 100;

/// Module specs by script, in the order of their last run.
#[derive(Default)]
pub struct ScriptModules(Mutex<Vec<(String, Vec<Value>)>>);

impl ScriptModules {
    /// Replaces the modules of a script.
    pub fn set(&self, script: &str, modules: Vec<Value>) {
        let mut known = self.0.lock();
        known.retain(|(one, _)| one != script);
        known.push((script.to_string(), modules));
        let surplus = known.len().saturating_sub(SCRIPTS_MAX);
        known.drain(..surplus);
    }

    /// All modules, sorted by name. Of two with one name, the most recently defined is listed.
    pub fn list(&self) -> Vec<Value> {
        let known = self.0.lock();
        let all = known.iter().flat_map(|(_, modules)| modules);
        let named = all.filter_map(|one| Some((one["name"].as_str()?.to_string(), one.clone())));
        named.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
