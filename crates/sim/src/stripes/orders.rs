//! Simulation of transfers between clients and servers, by the order in which they are requested.

use std::collections::VecDeque;

use euphrates_policy::striping::{GrantRequest, RequestOrder, grant};

use crate::events::EventQueue;
use crate::random::Random;

/// Clients that each have blocks for each server.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// The blocks of each client for each server.
    pub blocks: Vec<Vec<u32>>,
    /// Transfers that a client has in flight, at most.
    pub in_flight_max: usize,
    /// The order; `Random` gets a seed for each client.
    pub order: RequestOrder,
    /// The time of a block at a server.
    pub service: ServiceTime,
}

/// The time in which servers take a block, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTime {
    /// 1000 everywhere.
    Equal,
    /// 4000 at the first server, 1000 elsewhere.
    OneSlow,
    /// 1000, and 8000 more at one server at a time, which changes every 8000.
    WanderingPause,
}

/// The time until all blocks are transferred, in microseconds.
///
/// ```
/// use euphrates_policy::striping::RequestOrder;
/// use euphrates_sim::stripes::{ServiceTime, Transfers, transfer};
///
/// let (blocks, order) = (vec![vec![2; 4]; 4], RequestOrder::Hash);
/// let transfers = Transfers { blocks, in_flight_max: 1, order, service: ServiceTime::Equal };
/// assert_eq!(transfer(&transfers, 1), 8000, "all servers work all the time");
/// ```
pub fn transfer(transfers: &Transfers, seed: u64) -> u64 {
    let clients = transfers.blocks.len();
    let servers = transfers.blocks.first().map_or(0, Vec::len);
    let mut random = Random::new(seed);
    let mut orders: Vec<RequestOrder> = (0..clients).map(|_| transfers.order.clone()).collect();
    for order in &mut orders {
        if let RequestOrder::Random(state) = order {
            *state = random.next_u64();
        }
    }
    let mut world = TransferWorld {
        transfers,
        orders,
        left: transfers.blocks.clone(),
        begun: vec![0; clients],
        in_flight: vec![0; clients],
        queues: vec![VecDeque::new(); servers],
        serves: vec![None; servers],
        events: EventQueue::default(),
    };
    loop {
        world.request();
        world.serve();
        let Some(server) = world.events.pop() else { break };
        let client = world.serves[server].take().expect("a transfer that ends");
        world.in_flight[client] -= 1;
    }
    assert!(world.left.iter().flatten().all(|&left| left == 0), "a block was never transferred");
    world.events.now_ns()
}

struct TransferWorld<'a> {
    transfers: &'a Transfers,
    orders: Vec<RequestOrder>,
    /// Blocks that each client has not requested of each server.
    left: Vec<Vec<u32>>,
    begun: Vec<u64>,
    in_flight: Vec<usize>,
    queues: Vec<VecDeque<usize>>,
    /// The client that each server serves.
    serves: Vec<Option<usize>>,
    events: EventQueue<usize>,
}

impl TransferWorld<'_> {
    /// Clients request as many transfers as they may have in flight.
    fn request(&mut self) {
        for client in 0..self.orders.len() {
            while self.in_flight[client] < self.transfers.in_flight_max {
                let (begun, left) = (self.begun[client], &self.left[client]);
                let Some(server) = self.orders[client].next(client, begun, left) else { break };
                self.begin(client, server);
                self.queues[server].push_back(client);
            }
        }
    }

    fn begin(&mut self, client: usize, server: usize) {
        self.left[client][server] -= 1;
        self.begun[client] += 1;
        self.in_flight[client] += 1;
    }

    /// Free servers begin the next transfer; of those that grant, the most loaded one first.
    fn serve(&mut self) {
        let load = |server: &usize| self.left.iter().map(|left| left[*server]).sum::<u32>();
        let mut free: Vec<usize> =
            (0..self.serves.len()).filter(|&at| self.serves[at].is_none()).collect();
        free.sort_by_key(|server| (std::cmp::Reverse(load(server)), *server));
        for server in free {
            let client = match self.transfers.order {
                RequestOrder::Granted => self.granted(server),
                _ => self.queues[server].pop_front(),
            };
            if let Some(client) = client {
                self.serves[server] = Some(client);
                let at = self.events.now_ns() + self.service(server);
                self.events.push(at, server);
            }
        }
    }

    fn granted(&mut self, server: usize) -> Option<usize> {
        let clients = (0..self.left.len()).filter(|&client| self.left[client][server] > 0);
        let request = |client: usize| GrantRequest {
            client,
            left: self.left[client].iter().map(|&left| u64::from(left)).sum(),
            is_free: self.in_flight[client] < self.transfers.in_flight_max,
        };
        let client = grant(&clients.map(request).collect::<Vec<_>>())?;
        self.begin(client, server);
        Some(client)
    }

    fn service(&self, server: usize) -> u64 {
        let paused = (self.events.now_ns() / 8000) as usize % self.serves.len();
        match self.transfers.service {
            ServiceTime::OneSlow if server == 0 => 4000,
            ServiceTime::WanderingPause if server == paused => 9000,
            _ => 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks in the time of one, of 8 clients with 32 blocks for each of 8 servers.
    fn rate(order: RequestOrder, service: ServiceTime, in_flight_max: usize) -> f64 {
        let blocks = vec![vec![32; 8]; 8];
        let transfers = Transfers { blocks, in_flight_max, order, service };
        (8 * 8 * 32 * 1000) as f64 / transfer(&transfers, 1) as f64
    }

    #[test]
    fn grants_equal_the_best_fixed_order_among_equals() {
        let hash = rate(RequestOrder::Hash, ServiceTime::Equal, 1);
        let granted = rate(RequestOrder::Granted, ServiceTime::Equal, 1);
        assert!(hash >= 7.99 && granted >= 0.98 * hash, "{granted} and {hash}");
        let random = rate(RequestOrder::Random(1), ServiceTime::Equal, 1);
        assert!(random < 0.8 * hash, "{random}");
    }

    #[test]
    fn grants_go_round_a_pause_that_a_fixed_order_waits_for() {
        let hash = rate(RequestOrder::Hash, ServiceTime::WanderingPause, 1);
        let granted = rate(RequestOrder::Granted, ServiceTime::WanderingPause, 1);
        assert!(granted >= 1.4 * hash, "{granted} and {hash}");
    }

    #[test]
    fn no_order_helps_against_a_slow_server() {
        let orders = [RequestOrder::First, RequestOrder::Hash, RequestOrder::Granted];
        for order in orders {
            let reached = rate(order.clone(), ServiceTime::OneSlow, 4);
            assert!(reached <= 2.01, "{reached} by {order:?}");
        }
    }

    #[test]
    fn unequal_views_are_transferred_whatever_the_order() {
        let mut random = Random::new(3);
        for order in [
            RequestOrder::First,
            RequestOrder::Random(1),
            RequestOrder::Hash,
            RequestOrder::Granted,
        ] {
            let blocks: Vec<Vec<u32>> =
                (0..5).map(|_| (0..7).map(|_| random.below(9) as u32).collect()).collect();
            let service = ServiceTime::WanderingPause;
            // It asserts that no block is left.
            transfer(&Transfers { blocks, in_flight_max: 2, order, service }, 1);
        }
    }
}
