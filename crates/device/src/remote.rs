//! Object stores: S3, Google Cloud Storage, Azure; and files of web servers, which are only read.
//!
//! All asynchronous code is here. The first remote path starts one small runtime; a flow over local
//! files never starts it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use euphrates_flow::secrets::SERVERS;
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Owner, Result};
use futures::TryStreamExt;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    GetOptions, MultipartId, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::read_cache::ObjectVersion;
use crate::storage_options::StorageOptions;

mod clients;
mod credentials;
pub(crate) mod errors;
mod missing_lengths;

use errors::{BROKEN_RESPONSES_MAX, failure, is_broken_response};

/// A bucket or container, or a web server.
pub struct Store {
    /// The URL of the bucket: `s3://bucket`.
    base: String,
    /// What follows the key in addresses of a web server: `?n=1`, or nothing.
    query: String,
    options: StorageOptions,
    objects: Arc<dyn ObjectStore>,
    /// Absent for web servers.
    uploads: Option<Arc<dyn MultipartStore>>,
}

/// An object of a store; it need not exist.
#[derive(Clone, Debug)]
pub struct RemoteObject {
    store: Arc<Store>,
    key: Path,
}

/// The length and version of an object, which distinguish it from others under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The length in bytes.
    pub bytes: u64,
    modified_ns: Option<i64>,
    e_tag: Option<String>,
    version: Option<String>,
}

impl Identity {
    pub(crate) fn of(meta: &ObjectMeta) -> Identity {
        Identity {
            bytes: meta.size,
            modified_ns: meta.last_modified.timestamp_nanos_opt(),
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
        }
    }

    /// The cache key of this content: the strong entity tag, or else the version. `None` if the
    /// store reports neither.
    fn content_name(&self) -> Option<String> {
        let tag = self.e_tag.as_ref().filter(|tag| !tag.starts_with("W/"));
        tag.or(self.version.as_ref()).map(|name| format!("{} {name}", self.bytes))
    }

    /// Whether an answer with these headers is about the object of this identity.
    fn is_of(&self, meta: &ObjectMeta) -> bool {
        let is_same = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.bytes == meta.size
            && is_same(&self.e_tag, &meta.e_tag)
            && is_same(&self.version, &meta.version)
            && self.e_tag.is_some() == meta.e_tag.is_some()
    }
}

/// The store's version or entity tag, or else the time of the last change in nanoseconds since
/// 1970.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.version, &self.e_tag, self.modified_ns) {
            (Some(name), ..) | (None, Some(name), _) => f.write_str(name),
            (None, None, modified_ns) => write!(f, "{}", modified_ns.unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl Store {
    /// A bucket, or a web server and the query of its addresses (`host?n=1`), with credentials and
    /// endpoint from these options, and from the provider's environment variables.
    pub fn open(scheme: &str, bucket: &str, options: &StorageOptions) -> Result<Arc<Store>> {
        let (objects, uploads) = clients::open(scheme, bucket, options)?;
        let (host, query) = bucket.split_at(bucket.find('?').unwrap_or(bucket.len()));
        let (base, query) = (format!("{scheme}://{host}"), query.to_string());
        Ok(Arc::new(Store { base, query, options: options.clone(), objects, uploads }))
    }

    /// Whether it is a web server.
    pub(crate) fn is_web(&self) -> bool {
        self.base.split_once("://").is_some_and(|(scheme, _)| SERVERS.contains(&scheme))
    }

    /// The underlying client, for callers that need more than one object at a time.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        self.objects.clone()
    }

    /// A store in memory, for tests; it is lost when it is dropped.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use euphrates_device::remote::Store;
    ///
    /// let object = Store::in_memory().object("days/1.csv")?;
    /// assert_eq!(object.bytes()?, None);
    /// object.put(vec![Bytes::from("n\n"), Bytes::from("7\n")], true)?;
    /// assert_eq!(object.read(2, 1)?, "7");
    /// assert!(object.put(vec![], true).is_err(), "the key has an object");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn in_memory() -> Arc<Store> {
        let store = Arc::new(object_store::memory::InMemory::new());
        Arc::new(Store {
            base: "memory://test".into(),
            query: String::new(),
            options: StorageOptions::default(),
            objects: store.clone(),
            uploads: Some(store),
        })
    }

    /// The object under this key, which need not exist. Fails if the key is malformed.
    pub fn object(self: &Arc<Store>, key: &str) -> Result<RemoteObject> {
        let key = key.trim_matches('/');
        // Addresses of web servers have `%20` for a space.
        let parsed = if self.is_web() { Path::from_url_path(key) } else { Path::parse(key) };
        let parsed = parsed.map_err(|error| {
            Error::usage(format!("{}/{key} is no valid key: {error}", self.base))
        })?;
        Ok(RemoteObject { store: self.clone(), key: parsed })
    }

    /// All objects under a folder (a whole path segment), sorted by key.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use euphrates_device::remote::Store;
    ///
    /// let store = Store::in_memory();
    /// for key in ["days/2.csv", "days/1.csv", "days2/3.csv"] {
    ///     store.object(key)?.put(vec![Bytes::from("n\n")], true)?;
    /// }
    /// let found = store.list("days")?;
    /// let keys: Vec<&str> = found.iter().map(|(object, _)| object.key()).collect();
    /// assert_eq!(keys, ["days/1.csv", "days/2.csv"], "`days2` is another folder");
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn list(self: &Arc<Store>, folder: &str) -> Result<Vec<(RemoteObject, Identity)>> {
        let folder = folder.trim_matches('/');
        let prefix = (!folder.is_empty()).then(|| Path::from(folder));
        let listed = wait(self.objects.list(prefix.as_ref()).try_collect::<Vec<_>>());
        let name = format!("{}/{folder}", self.base);
        let mut found: Vec<(RemoteObject, Identity)> = listed
            .map_err(|error| failure("list", &name, &error))?
            .into_iter()
            .map(|meta| {
                let identity = Identity::of(&meta);
                (RemoteObject { store: self.clone(), key: meta.location }, identity)
            })
            .collect();
        found.sort_by(|a, b| a.0.key.as_ref().cmp(b.0.key.as_ref()));
        Ok(found)
    }
}

impl RemoteObject {
    /// The URL of the object.
    pub fn name(&self) -> String {
        format!("{}/{}{}", self.store.base, self.key, self.store.query)
    }

    /// The client of its store, and its key there.
    pub(crate) fn client(&self) -> (&Arc<dyn ObjectStore>, &Path) {
        (&self.store.objects, &self.key)
    }

    /// The options with which its store was opened.
    pub fn options(&self) -> &StorageOptions {
        &self.store.options
    }

    /// The key within its store.
    pub fn key(&self) -> &str {
        self.key.as_ref()
    }

    /// The length in bytes, or `None` if there is no such object.
    pub fn bytes(&self) -> Result<Option<u64>> {
        Ok(self.identity()?.map(|identity| identity.bytes))
    }

    /// The identity that distinguishes this object from any other under its key, past or future;
    /// `None` if there is none.
    pub fn identity(&self) -> Result<Option<Identity>> {
        match wait(self.store.objects.head(&self.key)) {
            Ok(meta) => Ok(Some(Identity::of(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("look up", &self.name(), &error)),
        }
    }

    /// Reads `bytes` bytes from `offset` on.
    pub fn read(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        self.read_with(offset, bytes).map(|(read, _)| read)
    }

    /// Names a version of it in the cache.
    pub(crate) fn version(&self, identity: &Identity) -> ObjectVersion {
        let place = (self.name(), self.options().text());
        let lasting = identity.content_name();
        let is_lasting = lasting.is_some();
        let content = lasting.unwrap_or_else(|| format!("{} {identity}", identity.bytes));
        ObjectVersion { place, content, is_lasting }
    }

    /// Reads a range. Also returns whether the response has this identity: the object may have been
    /// replaced since it was looked up.
    pub(crate) fn read_version(
        &self,
        identity: &Identity,
        offset: u64,
        bytes: usize,
    ) -> Result<(Bytes, bool)> {
        let (read, meta) = self.read_with(offset, bytes)?;
        Ok((read, identity.is_of(&meta)))
    }

    fn read_with(&self, offset: u64, bytes: usize) -> Result<(Bytes, ObjectMeta)> {
        let range = offset..offset + bytes as u64;
        let once = || {
            let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
            wait(async {
                let response = self.store.objects.get_opts(&self.key, options).await?;
                let meta = response.meta.clone();
                Ok((response.bytes().await?, meta))
            })
        };
        let mut read = once();
        for _ in 0..BROKEN_RESPONSES_MAX {
            match &read {
                // The client resumes responses that have an entity tag, and no others.
                Err(error) if is_broken_response(error) => read = once(),
                _ => break,
            }
        }
        let (read, meta) = read.map_err(|error| failure("read", &self.name(), &error))?;
        if read.len() != bytes {
            let message = format!("{bytes} bytes were asked for at {offset}, {} came", read.len());
            return Err(Error::corrupt(message).at(self.name()));
        }
        Ok((read, meta))
    }

    /// Puts a small object with one request; with `is_new`, only if the key has none.
    pub fn put(&self, parts: Vec<Bytes>, is_new: bool) -> Result<()> {
        let mode = if is_new { PutMode::Create } else { PutMode::Overwrite };
        let payload = PutPayload::from_iter(parts);
        let put = self.store.objects.put_opts(&self.key, payload, PutOptions::from(mode));
        wait(put).map(drop).map_err(|error| failure("write", &self.name(), &error))
    }

    fn uploads(&self) -> Result<&Arc<dyn MultipartStore>> {
        self.store.uploads.as_ref().ok_or_else(|| {
            Error::usage(format!("{} cannot be written", self.name())).remedy("use an object store")
        })
    }

    /// Begins a multipart upload; nothing is visible before `complete`.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use euphrates_device::remote::Store;
    ///
    /// let object = Store::in_memory().object("days/1.csv")?;
    /// let upload = object.begin()?;
    /// let part = object.put_part(&upload, 0, vec![Bytes::from("n\n7\n")])?;
    /// assert_eq!(object.bytes()?, None, "nothing is visible yet");
    /// object.complete(&upload, vec![part])?;
    /// assert_eq!(object.bytes()?, Some(4));
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn begin(&self) -> Result<MultipartId> {
        let begun = wait(self.uploads()?.create_multipart(&self.key));
        begun.map_err(|error| failure("write", &self.name(), &error))
    }

    /// Uploads the part of this index.
    pub fn put_part(
        &self,
        upload: &MultipartId,
        index: usize,
        parts: Vec<Bytes>,
    ) -> Result<PartId> {
        let payload = PutPayload::from_iter(parts);
        let put = wait(self.uploads()?.put_part(&self.key, upload, index, payload));
        put.map_err(|error| failure("write", &self.name(), &error))
    }

    /// Completes the upload: makes the object of its parts.
    pub fn complete(&self, upload: &MultipartId, parts: Vec<PartId>) -> Result<()> {
        let done = wait(self.uploads()?.complete_multipart(&self.key, upload, parts));
        done.map(drop).map_err(|error| failure("write", &self.name(), &error))
    }

    /// Aborts the upload and drops its parts.
    pub fn abort(&self, upload: &MultipartId) -> Result<()> {
        let done = wait(self.uploads()?.abort_multipart(&self.key, upload));
        done.map_err(|error| failure("abort the upload of", &self.name(), &error))
    }
}

/// Blocks until the future is ready, on the runtime, which the first call starts.
pub fn wait<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// The runtime of this process. A forked child starts its own, because it does not inherit its
/// parent's threads.
fn runtime() -> &'static Runtime {
    static RUNTIME: Mutex<Option<(Owner, &'static Runtime)>> = Mutex::new(None);
    let mut known = RUNTIME.lock();
    match *known {
        Some((owner, runtime)) if owner.is_here() => runtime,
        _ => {
            let started = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("euphrates-remote")
                .enable_all()
                .build()
                .expect("threads can be started");
            // One for a process, until the process ends.
            let runtime: &'static Runtime = Box::leak(Box::new(started));
            *known = Some((Owner::here(), runtime));
            runtime
        }
    }
}
