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
