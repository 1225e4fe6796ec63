//! `/api/session` and `/api/modules`: the server, its machine, and the modules that flows can use.

use std::sync::Arc;

use euphrates_engine::machine;
use euphrates_flow::ModuleSpec;
use serde_json::{Value, json};

use crate::http::error::Result;
use crate::http::request::ApiRequest;
use crate::studio::Studio;

/// `GET /api/session`: the version, the project and the machine.
pub fn session(studio: &Arc<Studio>, _: &ApiRequest) -> Result<Value> {
    let settings = &studio.settings;
    let cores = machine::cores();
    let mut clusters = vec![String::new()];
    clusters.extend([2, 4, 8].map(|workers| format!("processes:{workers}")));
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "root": studio.folder.path.display().to_string(),
        "flow": settings.flow,
        "read_only": settings.read_only,
        "machine": {"processors": cores, "memory": machine::memory_bytes()},
        "clusters": clusters,
        "trusted": studio.trust.contains(&studio.folder.path),
    }))
}

/// `GET /api/modules`: the specs of all modules.
pub fn modules(studio: &Arc<Studio>, _: &ApiRequest) -> Result<Value> {
    let known = studio.settings.registry.iter().map(ModuleSpec::to_json);
    Ok(known.chain(studio.script_modules.list()).collect())
}
