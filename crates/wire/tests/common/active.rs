//! Endpoints of active messages over every carrier.

use std::time::Instant;

use euphrates_wire::active::{ActiveEndpoint, ActiveOptions, PeerId};
use euphrates_wire::{Address, Secret, Security};
use tempfile::TempDir;

use super::LONG;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveCarrier {
    /// A unix socket, with large data in shared memory.
    Unix,
    Tcp,
    Tls,
}

pub const CARRIERS: [ActiveCarrier; 3] =
    [ActiveCarrier::Unix, ActiveCarrier::Tcp, ActiveCarrier::Tls];

pub fn options(carrier: ActiveCarrier) -> ActiveOptions {
    let security = match carrier {
        ActiveCarrier::Tls => Security::Tls,
        ActiveCarrier::Unix | ActiveCarrier::Tcp => Security::Token,
    };
    ActiveOptions { security, ..ActiveOptions::default() }
}

/// An endpoint that listens, and the folder of its socket.
pub fn endpoint(
    carrier: ActiveCarrier,
    name: &str,
    secret: &Secret,
    more: ActiveOptions,
) -> (TempDir, ActiveEndpoint) {
    let folder = tempfile::tempdir().unwrap();
    let address = match carrier {
        ActiveCarrier::Unix => Address::Unix(folder.path().join("socket")),
        ActiveCarrier::Tcp | ActiveCarrier::Tls => "127.0.0.1:0".parse().unwrap(),
    };
    let options = ActiveOptions { security: options(carrier).security, ..more };
    let endpoint = ActiveEndpoint::bind(name, Some(&address), secret, options).unwrap();
    (folder, endpoint)
}

/// A client, the server it is connected to, and the server as its peer.
pub fn pair(carrier: ActiveCarrier) -> (ActiveEndpoint, ActiveEndpoint, PeerId) {
    let secret = Secret::random().unwrap();
    let (_folder, server) = endpoint(carrier, "w1", &secret, ActiveOptions::default());
    let mut client = ActiveEndpoint::bind("w2", None, &secret, options(carrier)).unwrap();
    let peer = client.connect(server.address().unwrap(), LONG).unwrap();
    (client, server, peer)
}

/// Polls all endpoints in turn until the condition holds.
pub fn all_until(
    endpoints: &mut [&mut ActiveEndpoint],
    mut is_done: impl FnMut(&[&mut ActiveEndpoint]) -> bool,
) {
    let deadline = Instant::now() + LONG;
    while !is_done(endpoints) {
        assert!(Instant::now() < deadline, "nothing more happens");
        let count: usize = endpoints.iter_mut().map(|endpoint| endpoint.poll().unwrap()).sum();
        if count == 0 {
            std::thread::yield_now();
        }
    }
}
