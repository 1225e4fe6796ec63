//! Opens the files of a table.

use std::sync::Arc;

use euphrates_device::location::{FileRef, find};
use euphrates_flow::depth::check_schema;
use euphrates_flow::{Error, Result};

use crate::format::{Format, OpenedFile, at};
use crate::options::ReadOptions;
use crate::registry::{FORMATS, endings, format_named, format_of};
use crate::text::source::compression_error_or;

/// How many remote files are opened concurrently.
const CONCURRENT_OPENS_MAX: usize = 16;

/// Whether files may be compressed as a whole.
pub(super) fn may_be_packed(format: &dyn Format, options: &ReadOptions) -> bool {
    format.about().compresses_whole && !options.is_uncompressed
}

/// The files of these paths, and the format of all.
pub(super) fn files_and_format(
    paths: &[String],
    options: &ReadOptions,
) -> Result<(Vec<FileRef>, &'static dyn Format)> {
    if let Some(name) = &options.format {
        let format = format_named(name)?;
        return Ok((find(paths, &endings(format), &options.storage)?, format));
    }
    let known: Vec<String> = FORMATS.iter().flat_map(|format| endings(*format)).collect();
    let files = find(paths, &known, &options.storage)?;
    let format = format_of(&files[0].name, None)?;
    for file in &files[1..] {
        let other = format_of(&file.name, None)?;
        if other.about().name != format.about().name {
            let message = format!(
                "{} is {}, and {} is {}",
                file.name,
                other.about().name,
                files[0].name,
                format.about().name
            );
            return Err(Error::usage(message).remedy("read them apart, or give the format of all"));
        }
    }
    Ok((files, format))
}

/// Opens all files; remote ones concurrently, because each costs a round trip.
pub(super) fn open_all(
    files: &[FileRef],
    format: &'static dyn Format,
    options: &ReadOptions,
) -> Result<Vec<Arc<dyn OpenedFile>>> {
    let open = |file: &FileRef| -> Result<Arc<dyn OpenedFile>> {
        let blob = file.open()?;
        let opened = format.open(file, blob, options);
        let opened = opened.map_err(|error| match may_be_packed(format, options) {
            true => at(compression_error_or(error, file), &file.name),
            false => at(error, &file.name),
        })?;
        check_schema(opened.schema()).map_err(|error| at(error, &file.name))?;
        Ok(opened)
    };
    if files.iter().all(FileRef::is_local) {
        return files.iter().map(open).collect();
    }
    let mut opened = Vec::with_capacity(files.len());
    for together in files.chunks(CONCURRENT_OPENS_MAX) {
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = together.iter().map(|file| scope.spawn(|| open(file))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        opened.extend(results.into_iter().collect::<Result<Vec<_>>>()?);
    }
    Ok(opened)
}

/// Opens all files but the first, which is open.
pub(super) fn opened_after(
    first: Vec<Arc<dyn OpenedFile>>,
    files: &[FileRef],
    format: &'static dyn Format,
    options: &ReadOptions,
) -> Result<Vec<Arc<dyn OpenedFile>>> {
    let rest = open_all(&files[first.len()..], format, options)?;
    Ok(first.into_iter().chain(rest).collect())
}

/// The files of these paths, by standing name, with their versions. Opens none.
///
/// ```
/// use euphrates_formats::{ReadOptions, files_of};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("a.csv"), "n\n1\n")?;
/// let paths = [folder.path().to_string_lossy().into_owned()];
/// assert_eq!(files_of(&paths, &ReadOptions::default())?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn files_of(paths: &[String], options: &ReadOptions) -> Result<Vec<(String, String)>> {
    let (files, _) = files_and_format(paths, options)?;
    Ok(files.iter().map(|file| (file.standing(), file.version())).collect())
}
