//! The folder of a session in the home: what its writers have to know.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use euphrates_flow::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::catalog::FileEntry;
use crate::collection::{SESSIONS, is_session_open};
use crate::striped::placement::SegmentPurpose;
use crate::striped::version::StripedVersion;
use crate::striped::writer::StripedWriter;

const PLAN_FILE: &str = "session.json";

/// What all writers of a session know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionPlan {
    pub name: String,
    pub layout: FileEntry,
    pub writers: usize,
    /// Whether writers send pieces of stripes to their owners.
    pub is_collective: bool,
}

/// A session as any process finds it.
#[derive(Clone, Debug)]
pub(super) struct SessionFolder {
    pub home: PathBuf,
    pub id: String,
    pub plan: SessionPlan,
}

impl SessionFolder {
    pub fn find(home: &Path, id: &str) -> Result<SessionFolder> {
        let home = absolute(home).map_err(|error| Error::os("find", home, &error))?;
        let is_name = !id.is_empty() && !id.contains(['/', '.']);
        if !is_name || !is_session_open(&home, id) {
            return Err(ended_error());
        }
        let path = home.join(SESSIONS).join(id).join(PLAN_FILE);
        let text = fs::read(&path).map_err(|error| Error::os("read", &path, &error))?;
        let plan = serde_json::from_slice(&text).map_err(|error| {
            Error::corrupt(format!("the session is damaged: {error}"))
                .at(path.display().to_string())
        })?;
        Ok(SessionFolder { home, id: id.to_string(), plan })
    }

    /// Writes what other processes find.
    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.plan).map_err(Error::failed)?;
        let path = self.folder().join(PLAN_FILE);
        fs::write(&path, text).map_err(|error| Error::os("write", &path, &error))
    }

    pub fn folder(&self) -> PathBuf {
        self.home.join(SESSIONS).join(&self.id)
    }

    pub fn expect_open(&self) -> Result<()> {
        match is_session_open(&self.home, &self.id) {
            true => Ok(()),
            false => Err(ended_error()),
        }
    }
}

/// Begins to write segments that belong to a session: of stripes, or of a log of pieces.
pub(super) fn begin_writer(
    session: &SessionFolder,
    run_id: &str,
    is_log: bool,
) -> Result<StripedWriter> {
    let SessionFolder { home, id, plan } = session;
    let version = StripedVersion::empty(home, &plan.name, plan.layout.clone())?;
    let session = id.as_str();
    let purpose = match is_log {
        true => SegmentPurpose::Log { session },
        false => SegmentPurpose::Share { session },
    };
    StripedWriter::begin(home, None, version, (&plan.layout.disks, run_id), purpose)
}

pub(super) fn ended_error() -> Error {
    Error::usage("the session has ended").remedy("begin another one")
}
