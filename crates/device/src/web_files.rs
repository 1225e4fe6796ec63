//! Files of web servers. A server that returns ranges is read by them; from another, the file is
//! downloaded once in every process that reads it, into a file without a name.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use euphrates_flow::{Error, Result};
use futures::StreamExt;
use object_store::{GetOptions, ObjectMeta, ObjectStoreExt};

use crate::private;
use crate::remote::errors::{BROKEN_RESPONSES_MAX, failure, is_broken_response};
use crate::remote::{Identity, RemoteObject, wait};

/// A file of a web server.
pub(crate) enum WebFile {
    /// The server returns ranges of it.
    Ranges(Identity),
    /// Its whole content.
    Whole(Identity, Arc<File>),
}

/// Looks up a file of a web server; `None` if there is none. The first byte is requested: some
/// servers refuse requests without a body, and only the response tells whether there are ranges.
pub(crate) fn look_up(object: &RemoteObject) -> Result<Option<WebFile>> {
    use object_store::Error::{NotFound, NotSupported};
    let (store, key) = object.client();
    let range = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
    match wait(store.get_opts(key, range)) {
        Ok(response) => Ok(Some(WebFile::Ranges(Identity::of(&response.meta)))),
        Err(NotFound { .. }) => Ok(None),
        Err(NotSupported { .. }) => {
            let (meta, file) = download(object)?;
            Ok(Some(WebFile::Whole(Identity::of(&meta), file)))
        }
        // An empty file has no first byte.
        Err(error) => match wait(store.head(key)) {
            Ok(meta) if meta.size == 0 => Ok(Some(WebFile::Ranges(Identity::of(&meta)))),
            _ => Err(failure("look up", &object.name(), &error)),
        },
    }
}

fn download(object: &RemoteObject) -> Result<(ObjectMeta, Arc<File>)> {
    let mut broken = 0;
    loop {
        match downloaded(object)? {
            Ok(done) => return Ok(done),
            Err(error) if broken < BROKEN_RESPONSES_MAX && is_broken_response(&error) => {
                broken += 1;
            }
            Err(error) => return Err(failure("download", &object.name(), &error)),
        }
    }
}

type Downloaded = std::result::Result<(ObjectMeta, Arc<File>), object_store::Error>;

fn downloaded(object: &RemoteObject) -> Result<Downloaded> {
    let mut file = unnamed_file()?;
    let (store, key) = object.client();
    wait(async {
        let response = match store.get(key).await {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        let mut meta = response.meta.clone();
        meta.size = 0;
        let mut parts = response.into_stream();
        while let Some(part) = parts.next().await {
            match part {
                Ok(part) => {
                    meta.size += part.len() as u64;
                    let failed = |error| Error::os("write", std::env::temp_dir(), &error);
                    file.write_all(&part).map_err(failed)?;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok((meta, Arc::new(file))))
    })
}

/// A file for this process alone, which is gone when it is closed.
fn unnamed_file() -> Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!(".euphrates-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    let failed = |error| Error::os("create", &path, &error);
    let file = private::options().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(file)
}
