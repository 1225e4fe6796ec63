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
    /// Whether a block may go to any server that grants it a transfer: placement is late. If not,
    /// or if clients choose, it goes to the server to which `blocks` assigns it.
    pub is_late: bool,
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
/// let service = ServiceTime::Equal;
/// let transfers = Transfers { blocks, in_flight_max: 1, order, is_late: false, service };
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
        let left = &mut self.left[client];
        // A block that is not placed yet counts at any server.
        let most = (0..left.len()).max_by_key(|&at| left[at]).filter(|_| self.transfers.is_late);
        left[most.unwrap_or(server)] -= 1;
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
        let all = |client: usize| self.left[client].iter().map(|&left| u64::from(left)).sum();
        let is_late = self.transfers.is_late;
        let may = |&client: &usize| self.left[client][server] > 0 || (is_late && all(client) > 0);
        let clients = (0..self.left.len()).filter(may);
        let request = |client: usize| GrantRequest {
            client,
            left: all(client),
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
        rate_of(order, service, in_flight_max, false)
    }

    fn rate_of(
        order: RequestOrder,
        service: ServiceTime,
        in_flight_max: usize,
        is_late: bool,
    ) -> f64 {
        let blocks = vec![vec![32; 8]; 8];
        let transfers = Transfers { blocks, in_flight_max, order, is_late, service };
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
    fn grants_with_late_placement_leave_a_slow_server_what_it_can_take() {
        let slow = ServiceTime::OneSlow;
        for in_flight_max in [2, 4] {
            let granted = rate_of(RequestOrder::Granted, slow, in_flight_max, true);
            assert!(granted >= 0.95 * 7.25, "{granted} of 7 + 1/4 servers, {in_flight_max}");
            for order in [RequestOrder::First, RequestOrder::Random(1), RequestOrder::Hash] {
                let fixed = rate(order.clone(), slow, in_flight_max);
                assert!(granted >= 3.0 * fixed, "{granted} and {fixed} by {order:?}");
            }
        }
    }

    /// With as many clients as servers, a slow server and its client end together, and each is the
    /// only one that is free for the other.
    #[test]
    fn one_transfer_in_flight_binds_a_client_to_the_slow_server() {
        let granted = rate_of(RequestOrder::Granted, ServiceTime::OneSlow, 1, true);
        assert!(granted <= 2.01, "{granted}");
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
            for is_late in [false, true] {
                let (blocks, order) = (blocks.clone(), order.clone());
                transfer(&Transfers { blocks, in_flight_max: 2, order, is_late, service }, 1);
            }
        }
    }
}
