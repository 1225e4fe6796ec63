//! The state that all requests of a server share.

use std::sync::Arc;

use euphrates_flow::Result;
use parking_lot::Mutex;

use crate::check_limiter::CheckLimiter;
use crate::events::Events;
use crate::http::authorization::Authorizer;
use crate::project::folder::ProjectFolder;
use crate::project::script_modules::ScriptModules;
use crate::project::trust::TrustedProjects;
use crate::project::watched_files::WatchedFiles;
use crate::runs::ProjectRuns;
use crate::settings::ServerSettings;

/// The settings, the project and the runs of one server.
pub struct Studio {
    pub settings: ServerSettings,
    pub authorizer: Authorizer,
    pub folder: ProjectFolder,
    pub runs: ProjectRuns,
    pub events: Events,
    pub watched: WatchedFiles,
    pub trust: TrustedProjects,
    pub script_modules: ScriptModules,
    pub checks: CheckLimiter,
    /// Held while a file is compared and replaced, so that two requests cannot interleave.
    pub saving: Mutex<()>,
}

impl Studio {
    /// Opens the project, for a server at this port.
    pub fn new(settings: ServerSettings, port: u16) -> Result<Arc<Studio>> {
        let folder = ProjectFolder::open(&settings.root)?;
        Ok(Arc::new(Studio {
            authorizer: Authorizer::new(port, &settings.allowed_hosts)?,
            runs: ProjectRuns::new(&folder.path)?,
            events: Events::default(),
            watched: WatchedFiles::default(),
            trust: TrustedProjects::at(&settings.home),
            script_modules: ScriptModules::default(),
            checks: CheckLimiter::default(),
            saving: Mutex::default(),
            folder,
            settings,
        }))
    }
}
