//! Orders in which the clients of many servers transfer their blocks, when each has blocks for
//! many servers (Isaila et al., Clusterfile).

use alloc::vec::Vec;

/// The server to which a client sends next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// All for the first server, then all for the second.
    First,
    /// Any server, drawn from the state of a generator.
    Random(u64),
    /// In turn from the server of the client's own number on: perfect among equals.
    Hash,
    /// The client does not choose: servers [`grant`] transfers.
    Granted,
}

impl RequestOrder {
    /// The server of a client's next transfer, given the blocks `left` for each server, and how
    /// many transfers the client has begun; `None` if none is left, or servers grant.
    ///
    /// ```
    /// use euphrates_policy::striping::RequestOrder;
    ///
    /// let left = [1, 1, 0, 1];
    /// assert_eq!(RequestOrder::First.next(2, 0, &left), Some(0));
    /// assert_eq!(RequestOrder::Hash.next(2, 0, &left), Some(3), "nothing is left for server 2");
    /// ```
    pub fn next(&mut self, client: usize, begun: u64, left: &[u32]) -> Option<usize> {
        let servers: Vec<usize> = (0..left.len()).filter(|&server| left[server] > 0).collect();
        if servers.is_empty() {
            return None;
        }
        match self {
            RequestOrder::First => servers.first().copied(),
            RequestOrder::Random(state) => {
                // Xorshift64*, whose state is never 0.
                *state = (*state).max(1);
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let drawn = (*state).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
                servers.get(drawn as usize % servers.len()).copied()
            }
            RequestOrder::Hash => {
                let start = (client as u64 + begun) % left.len() as u64;
                let turn = |&server: &usize| (server + left.len() - start as usize) % left.len();
                servers.into_iter().min_by_key(turn)
            }
            RequestOrder::Granted => None,
        }
    }
}

/// The state of a client that has blocks for a server, at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// The number of the client.
    pub client: usize,
    /// Blocks that the client has left for all servers.
    pub left: u64,
    /// Whether the client can take part in another transfer.
    pub is_free: bool,
}

/// Late grants: a free server grants its next transfer to the free client with the most blocks
/// left, since that client ends last.
///
/// Clients need two transfers in flight. With one, and as many clients as servers, a slow server
/// and its client end a transfer together, are the only ones free for each other, and stay a pair.
///
/// ```
/// use euphrates_policy::striping::{GrantRequest, grant};
///
/// let request = |client, left, is_free| GrantRequest { client, left, is_free };
/// let requests = [request(0, 5, true), request(1, 9, false), request(2, 7, true)];
/// assert_eq!(grant(&requests), Some(2));
/// ```
pub fn grant(requests: &[GrantRequest]) -> Option<usize> {
    let free = requests.iter().filter(|request| request.is_free && request.left > 0);
    free.max_by_key(|request| (request.left, core::cmp::Reverse(request.client)))
        .map(|request| request.client)
}

/// The order in which a server serves the clients that wait for it: the same orders, seen from the
/// server.
///
/// ```
/// use euphrates_policy::striping::{GrantRequest, RequestOrder, WaitingClients};
///
/// let request = |client, left| GrantRequest { client, left, is_free: true };
/// let waiting = [request(0, 5), request(2, 7)];
/// let mut late = WaitingClients::new(0, RequestOrder::Granted);
/// assert_eq!(late.next(&waiting), Some(2), "it has most left");
/// let mut hash = WaitingClients::new(0, RequestOrder::Hash);
/// assert_eq!([hash.next(&waiting), hash.next(&waiting)], [Some(0), Some(2)]);
/// ```
#[derive(Clone, Debug)]
pub struct WaitingClients {
    server: usize,
    order: RequestOrder,
    begun: u64,
}

impl WaitingClients {
    /// Those of a server with this number.
    pub fn new(server: usize, order: RequestOrder) -> WaitingClients {
        WaitingClients { server, order, begun: 0 }
    }

    /// The client whose transfer begins next, of those that wait; `None` if none does.
    pub fn next(&mut self, waiting: &[GrantRequest]) -> Option<usize> {
        let chosen = match self.order {
            RequestOrder::Granted => grant(waiting),
            _ => {
                let clients = waiting.iter().map(|request| request.client + 1).max().unwrap_or(0);
                let mut left = alloc::vec![0; clients];
                for request in waiting.iter().filter(|request| request.is_free) {
                    left[request.client] = u32::try_from(request.left).unwrap_or(u32::MAX);
                }
                self.order.next(self.server, self.begun, &left)
            }
        };
        self.begun += u64::from(chosen.is_some());
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_visit_every_server_and_end() {
        for mut order in [RequestOrder::First, RequestOrder::Random(0), RequestOrder::Hash] {
            let (mut left, mut begun) = ([3; 8], 0);
            while let Some(server) = order.next(5, begun, &left) {
                left[server] -= 1;
                begun += 1;
            }
            assert_eq!((left, begun), ([0; 8], 24), "{order:?}");
        }
        assert_eq!(RequestOrder::Granted.next(0, 0, &[1]), None);
    }

    #[test]
    fn every_order_serves_all_waiting_clients_and_only_these() {
        for order in [
            RequestOrder::First,
            RequestOrder::Random(3),
            RequestOrder::Hash,
            RequestOrder::Granted,
        ] {
            let mut left = [0u64, 4, 0, 9, 2];
            let mut server = WaitingClients::new(3, order.clone());
            let mut served = 0;
            loop {
                let waiting: Vec<GrantRequest> = (0..left.len())
                    .map(|client| GrantRequest { client, left: left[client], is_free: true })
                    .collect();
                let Some(client) = server.next(&waiting) else { break };
                left[client] -= 1;
                served += 1;
            }
            assert_eq!((left, served), ([0; 5], 15), "{order:?}");
        }
    }

    #[test]
    fn clients_of_hash_use_different_servers_at_every_step() {
        for begun in 0..8 {
            let mut servers: Vec<usize> = (0..8)
                .filter_map(|client| RequestOrder::Hash.next(client, begun, &[1; 8]))
                .collect();
            servers.sort_unstable();
            assert_eq!(servers, (0..8).collect::<Vec<_>>());
        }
    }
}
