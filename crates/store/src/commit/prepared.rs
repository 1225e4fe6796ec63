//! Prepared outputs: what any process that can reach one needs to publish it.

use serde::{Deserialize, Serialize};

use crate::collection::NewVersion;
use crate::dataset::FolderOutput;
use crate::output::{FileOutput, ObjectOutput};

/// An output that is complete, and not visible yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreparedOutput {
    /// A file, staged in the folder of its target.
    File(FileOutput),
    /// A folder of files, staged beside its target.
    Folder(FolderOutput),
    /// An upload that is to be completed.
    Object(ObjectOutput),
    /// The next version of a collection.
    Collection(Box<NewVersion>),
}

impl PreparedOutput {
    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            PreparedOutput::File(file) => file.target.display().to_string(),
            PreparedOutput::Folder(folder) => folder.target.display().to_string(),
            PreparedOutput::Object(object) => object.url.clone(),
            PreparedOutput::Collection(version) => version.manifest.title(),
        }
    }

    /// Whether it may replace anything that has its name, so that publishing cannot be refused.
    pub fn replaces(&self) -> bool {
        match self {
            PreparedOutput::File(file) => file.replaces,
            PreparedOutput::Object(object) => object.replaces,
            // It is refused if others change the folder.
            PreparedOutput::Folder(_) => false,
            // Another writer may have committed this version.
            PreparedOutput::Collection(_) => false,
        }
    }
}
