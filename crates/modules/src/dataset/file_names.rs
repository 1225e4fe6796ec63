//! Names of a dataset's files, of which no two of a run are the same.

use euphrates_flow::{Error, Result, Setup};
use euphrates_formats::{Compression, format_named};

/// The number of digits of a file's number, so that few files sort by it.
const DIGITS: usize = 6;

/// A run is a time, a process and a number, with a hyphen between.
const RUN_PARTS: usize = 3;

/// A name with `{i}` for the number of the file, and perhaps `{run}`.
#[derive(Clone, Debug)]
pub(crate) struct FileNames {
    template: String,
    extension: String,
}

impl FileNames {
    /// Checks a template, which has no extension.
    pub(crate) fn new(template: &str, extension: String) -> Result<FileNames> {
        let wrong = |what: &str| {
            let error = Error::usage(format!("`file_name` {what}")).at(format!("{template:?}"));
            Err(error.remedy("write it like `part-{i}`, or `{run}-{i}`"))
        };
        let plain = template.replace("{i}", "").replace("{run}", "");
        if !template.contains("{i}") {
            return wrong("has no `{i}` for the number of the file");
        }
        if plain.contains(['{', '}']) {
            return wrong("has a placeholder that is neither `{i}` nor `{run}`");
        }
        if plain.contains(['/', '\0']) || template.starts_with(['.', '_']) {
            return wrong("is no name of a file that a scan reads");
        }
        Ok(FileNames { template: template.into(), extension })
    }

    /// The number of the next file of a flow, in any process, and its name. Numbers begin at
    /// `first`.
    pub(crate) fn next(&self, setup: &Setup, first: u64) -> Result<(u64, String)> {
        let number = setup.coordination.fetch_add(&format!("{}/files", setup.module))?;
        let number = first + number;
        Ok((number, self.numbered(number, &setup.run_id)))
    }

    /// The name of the file of this number.
    pub(crate) fn numbered(&self, number: u64, run_id: &str) -> String {
        let name = self.template.replace("{run}", &run_of(run_id));
        format!("{}.{}", name.replace("{i}", &format!("{number:0DIGITS$}")), self.extension)
    }
}

/// The run in the id of a run or of a worker's part of it, whose name follows.
fn run_of(run_id: &str) -> String {
    run_id.splitn(RUN_PARTS + 1, '-').take(RUN_PARTS).collect::<Vec<_>>().join("-")
}

/// The extension of files in this format, with that of a compression as a whole.
pub(crate) fn extension(format: &str, compression: Option<Compression>) -> Result<String> {
    let about = format_named(format)?.about();
    // `tsv` is a format's name as well as an extension.
    let extension = about.extensions.iter().find(|known| **known == format);
    let extension = extension.or(about.extensions.first()).copied().unwrap_or(about.name);
    let whole = match compression.filter(|_| about.compresses_whole) {
        Some(Compression::Gzip) => ".gz",
        Some(Compression::Bzip2) => ".bz2",
        Some(Compression::Zstd) => ".zst",
        _ => "",
    };
    Ok(format!("{extension}{whole}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_number_and_the_extensions_of_format_and_compression() {
        let of = |format, compression| extension(format, compression).unwrap();
        assert_eq!(of("parquet", Some(Compression::Zstd)), "parquet");
        assert_eq!(of("csv", Some(Compression::Gzip)), "csv.gz");
        assert_eq!(of("tsv", None), "tsv");
        let names = FileNames::new("a-{run}-{i}", "csv".into()).unwrap();
        assert_eq!(names.numbered(7, "6f-1-0"), "a-6f-1-0-000007.csv");
        assert_eq!(names.numbered(7, "6f-1-0-w-1-0"), "a-6f-1-0-000007.csv", "a worker's");
        for wrong in ["part", "{i}/{i}", ".{i}", "_{i}", "{i}{city}", "a{i}}"] {
            assert!(FileNames::new(wrong, "csv".into()).is_err(), "{wrong}");
        }
    }
}
