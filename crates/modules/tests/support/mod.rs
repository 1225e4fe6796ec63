//! Workers in the process of a test.

use std::sync::Arc;

use euphrates_engine::cluster::static_driver::StaticDriver;
use euphrates_engine::cluster::{
    Cluster, Secret, Security, WorkerProperties, WorkerServer, WorkerSettings,
};
use euphrates_flow::Registry;
use tempfile::TempDir;

/// A cluster of two workers that have these modules, and listen in this folder.
pub fn workers(folder: &TempDir, modules: &Registry) -> (Arc<Cluster>, Vec<WorkerServer>) {
    let secret = Secret::random().unwrap();
    let server = |number: usize| {
        let member = WorkerProperties::named(format!("w{number}"));
        let listen = format!("unix:{}", folder.path().join(&member.name).display());
        let setting = WorkerSettings {
            member,
            listen: listen.parse().unwrap(),
            secret: secret.clone(),
            security: Security::Token,
            lost_after: None,
            scratch: vec![],
        };
        WorkerServer::start(setting, modules.clone(), || ()).unwrap()
    };
    let servers: Vec<WorkerServer> = (0..2).map(server).collect();
    let address =
        |(number, server): (usize, &WorkerServer)| (format!("w{number}"), server.address().clone());
    let (driver, _) = StaticDriver::new(servers.iter().enumerate().map(address).collect());
    let cluster = Cluster::open_within(None, Box::new(driver), &secret, Security::Token).unwrap();
    (Arc::new(cluster), servers)
}
