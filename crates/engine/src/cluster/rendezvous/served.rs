//! Striped files on the disks of workers: what a worker serves, and the home of a client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use euphrates_device::disk::{Disks, HOME, LOCAL};
use euphrates_device::durable::make_folder;
use euphrates_device::folder::LocalFolder;
use euphrates_device::served::{
    ServedDisk, ServedFolderAddress, ServedHome, WorkerAccess, install,
};
use euphrates_flow::{Error, Kind, Result};
pub use euphrates_policy::striping::RequestOrder;
use euphrates_wire::served::{FileServer, ServedConnector, SharedFolder, WorkerOffer, offers};
use euphrates_wire::{Address, Secret, Security};

use super::{Joined, members};
use crate::cluster::options::ClusterOptions;
use crate::machine;

/// The name of a catalog among the folders of a worker. No disk has it: names have no slashes.
const CATALOG: &str = "/catalog";

/// What a worker serves to programs that use striped files.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The home whose disks on this machine are served.
    pub home: PathBuf,
    /// Whether its catalog is served, too.
    pub has_catalog: bool,
    /// The order of requests that wait for a disk.
    pub order: RequestOrder,
}

/// Parses an order of requests: `first`, `random`, `hash` or `late`.
///
/// ```
/// use euphrates_engine::cluster::served::parse_order;
///
/// assert!(parse_order("late").is_ok());
/// assert!(parse_order("soon").is_err());
/// ```
pub fn parse_order(word: &str) -> Result<RequestOrder, String> {
    match word {
        "first" => Ok(RequestOrder::First),
        "random" => Ok(RequestOrder::Random(1)),
        "hash" => Ok(RequestOrder::Hash),
        "late" => Ok(RequestOrder::Granted),
        other => Err(format!("`{other}` is none of first, random, hash, late")),
    }
}

/// The server of a worker.
pub(in crate::cluster) fn file_server(
    options: &ServeOptions,
    worker: &str,
    lost_after: Option<Duration>,
) -> Result<FileServer> {
    if ServedHome::of(&options.home)?.is_some() {
        let error = Error::usage("the disks of this home are those of other workers");
        return Err(error.remedy("serve a home with folders of this machine in disks.json"));
    }
    make_folder(&options.home)?;
    let home = options.home.canonicalize();
    let home = home.map_err(|error| Error::os("find", &options.home, &error))?;
    let disks = Arc::new(Disks::of(&home)?);
    let is_here = |name: &str, owner: &str| name != HOME && (owner == LOCAL || owner == worker);
    let mut folders: Vec<SharedFolder> = disks
        .folders()
        .filter(|(disk, _)| is_here(&disk.name, &disk.worker))
        .map(|(disk, folder)| SharedFolder {
            name: disk.name.clone(),
            folder: folder.clone(),
            disks: Some(disks.clone()),
        })
        .collect();
    if folders.is_empty() && !options.has_catalog {
        let error = Error::usage(format!("{} lists no disk of this worker", home.display()));
        return Err(error.remedy("list its disks in disks.json there"));
    }
    if options.has_catalog {
        let path = home.join("catalog");
        make_folder(&path)?;
        let (name, folder) = (CATALOG.to_string(), Arc::new(LocalFolder::new(&path)));
        folders.push(SharedFolder { name, folder, disks: None });
    }
    Ok(FileServer::new(&machine::host(), &home, folders, &options.order, lost_after))
}

/// Lets this process reach served disks.
pub fn connect_served_disks() {
    install(Box::new(ServedConnector));
}

/// The home of a client of a cluster, in which its catalog and disks are those that the workers
/// serve. It is made, or brought up to date, in a folder of `above`. Disks that were known before,
/// and whose workers are not there now, remain in it, as missing ones.
pub fn served_home(words: &str, options: &ClusterOptions, above: &Path) -> Result<PathBuf> {
    connect_served_disks();
    let (kind, keeper) = words.split_once(':').unwrap_or((words, ""));
    if kind != "at" {
        let error = Error::usage(format!("`{words}` has no disks that outlive this program"));
        return Err(error.remedy("name a kept cluster, at:HOST:PORT, whose workers have --serve"));
    }
    let keeper: Address = keeper.parse()?;
    let token_file = options.token_file.as_ref();
    let secret = options.secret()?;
    let token_file = token_file.map(std::path::absolute).transpose();
    let token_file = token_file.map_err(Error::failed)?.unwrap_or_default();
    let access = WorkerAccess {
        token_file,
        is_encrypted: options.security() == Security::Tls,
        lost_after_ms: options.lost_after()?.map(|lost_after| lost_after.as_millis() as u64),
    };
    let home = above.join("clusters").join(folder_name(words, &secret));
    let known = ServedHome::of(&home)?;
    let offered = offered_by(&keeper, &secret, options.security(), &access);
    let described = match (offered, &known) {
        (Ok(offered), _) => describe(offered, known.as_ref(), access)?,
        // The keeper is needed for a first look only.
        (Err(error), Some(known)) if error.kind() == Kind::Resource => {
            ServedHome { access, ..known.clone() }
        }
        (Err(error), _) => return Err(error),
    };
    if known.as_ref() != Some(&described) {
        described.save(&home)?;
    }
    Ok(home)
}

/// A name for the folder of a cluster's client: the same for the same keeper and token.
fn folder_name(words: &str, secret: &Secret) -> String {
    let digest = secret.derive(&format!("client home of {words}")).to_text();
    digest[..16].to_string()
}

/// What the reachable members of a keeper serve.
fn offered_by(
    keeper: &Address,
    secret: &Secret,
    security: Security,
    access: &WorkerAccess,
) -> Result<Vec<(Joined, WorkerOffer)>> {
    let mut offered = vec![];
    for joined in members(keeper, secret, security)? {
        match offers(&address_of(&joined, ""), access) {
            Ok(offer) => offered.push((joined, offer)),
            // A lost disk, or a worker that runs flows only.
            Err(error) if matches!(error.kind(), Kind::Resource | Kind::Usage) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(offered)
}

fn address_of(joined: &Joined, folder: &str) -> ServedFolderAddress {
    ServedFolderAddress {
        worker: joined.member.name.clone(),
        address: joined.address.to_string(),
        folder: folder.to_string(),
    }
}

fn describe(
    offered: Vec<(Joined, WorkerOffer)>,
    known: Option<&ServedHome>,
    access: WorkerAccess,
) -> Result<ServedHome> {
    let mut catalogs: Vec<(ServedFolderAddress, PathBuf)> = vec![];
    let mut disks: BTreeMap<String, ServedDisk> = BTreeMap::new();
    for (joined, offer) in &offered {
        for folder in &offer.folders {
            let at = address_of(joined, &folder.name);
            if folder.is_catalog {
                catalogs.push((at, offer.home.clone()));
                continue;
            }
            let (name, machine) = (folder.name.clone(), offer.machine.clone());
            if let Some(other) = disks.insert(name.clone(), ServedDisk { name, machine, at }) {
                let (one, two) = (&other.at.worker, &joined.member.name);
                let error =
                    format!("workers `{one}` and `{two}` both serve a disk `{}`", other.name);
                return Err(Error::usage(error).remedy("give it another name in one disks.json"));
            }
        }
    }
    for disk in known.iter().flat_map(|known| &known.disks) {
        disks.entry(disk.name.clone()).or_insert_with(|| disk.clone());
    }
    if let [(one, _), (other, _), ..] = catalogs.as_slice() {
        let error = format!("workers `{}` and `{}` both serve a catalog", one.worker, other.worker);
        return Err(Error::usage(error).remedy("leave out --serve-catalog at one of them"));
    }
    let known_catalog = known.map(|known| (known.catalog.clone(), known.home.clone()));
    let (catalog, home) = catalogs.pop().or(known_catalog).ok_or_else(|| {
        Error::usage("no worker of the cluster serves a catalog of striped files")
            .remedy("start one with --serve HOME --serve-catalog")
    })?;
    let client = match known {
        Some(known) => known.client.clone(),
        None => Secret::random()?.to_text()[..16].to_string(),
    };
    Ok(ServedHome { home, client, catalog, disks: disks.into_values().collect(), access })
}
