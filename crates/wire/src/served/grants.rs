//! The requests that wait for a disk of a server, and the choice of the next.

use std::collections::VecDeque;

use euphrates_device::disk::THREADS_MAX;
use euphrates_policy::striping::{GrantRequest, RequestOrder, WaitingClients};
use parking_lot::{Condvar, Mutex};

/// Grants the transfers of one disk: as many at a time as the device has threads.
#[derive(Debug)]
pub(super) struct TransferGrants {
    state: Mutex<GrantState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GrantState {
    clients: WaitingClients,
    in_service: usize,
    waiting: VecDeque<WaitingRequest>,
    next_ticket: u64,
}

#[derive(Debug)]
struct WaitingRequest {
    ticket: u64,
    client: usize,
    left: u64,
    is_granted: bool,
}

/// A transfer in progress, until dropped.
pub(super) struct GrantedTransfer<'a>(&'a TransferGrants);

impl TransferGrants {
    /// Those of the disk with this number.
    pub fn new(disk: usize, order: RequestOrder) -> TransferGrants {
        let state = GrantState {
            clients: WaitingClients::new(disk, order),
            in_service: 0,
            waiting: VecDeque::new(),
            next_ticket: 0,
        };
        TransferGrants { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a grant to a client with this many transfers left.
    pub fn wait(&self, client: usize, left: u64) -> GrantedTransfer<'_> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(WaitingRequest { ticket, client, left, is_granted: false });
        state.grant();
        self.changed.notify_all();
        let at = |state: &GrantState| state.waiting.iter().position(|it| it.ticket == ticket);
        loop {
            let own = at(&state).expect("only its own thread removes it");
            if state.waiting[own].is_granted {
                state.waiting.remove(own);
                return GrantedTransfer(self);
            }
            self.changed.wait(&mut state);
        }
    }
}

impl Drop for GrantedTransfer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_service -= 1;
        state.grant();
        self.0.changed.notify_all();
    }
}

impl GrantState {
    fn grant(&mut self) {
        while self.in_service < THREADS_MAX {
            let mut waiting: Vec<GrantRequest> = vec![];
            for request in self.waiting.iter().filter(|request| !request.is_granted) {
                let (client, left) = (request.client, request.left.max(1));
                match waiting.iter_mut().find(|known| known.client == client) {
                    Some(known) => known.left = known.left.max(left),
                    None => waiting.push(GrantRequest { client, left, is_free: true }),
                }
            }
            let Some(client) = self.clients.next(&waiting) else { return };
            let of_client =
                |request: &&mut WaitingRequest| request.client == client && !request.is_granted;
            let Some(request) = self.waiting.iter_mut().find(of_client) else { return };
            request.is_granted = true;
            self.in_service += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(order: RequestOrder) -> GrantState {
        GrantState {
            clients: WaitingClients::new(0, order),
            in_service: 0,
            waiting: VecDeque::new(),
            next_ticket: 0,
        }
    }

    fn granted_in_turn(order: RequestOrder, waiting: &[(usize, u64)]) -> Vec<usize> {
        let mut state = state(order);
        for (ticket, &(client, left)) in waiting.iter().enumerate() {
            let ticket = ticket as u64;
            state.waiting.push_back(WaitingRequest { ticket, client, left, is_granted: false });
        }
        let mut turns = vec![];
        // All threads but one are busy.
        state.in_service = THREADS_MAX - 1;
        while turns.len() < waiting.len() {
            state.grant();
            let now = state.waiting.iter().position(|request| request.is_granted).unwrap();
            turns.push(state.waiting.remove(now).unwrap().client);
            state.in_service -= 1;
        }
        turns
    }

    #[test]
    fn disk_serves_the_clients_in_the_order_that_is_asked_for() {
        let waiting = [(0, 3), (1, 9), (0, 2), (2, 5)];
        assert_eq!(granted_in_turn(RequestOrder::Granted, &waiting), [1, 2, 0, 0]);
        assert_eq!(granted_in_turn(RequestOrder::First, &waiting), [0, 0, 1, 2]);
        assert_eq!(granted_in_turn(RequestOrder::Hash, &waiting), [0, 1, 2, 0]);
        let mut random = granted_in_turn(RequestOrder::Random(7), &waiting);
        random.sort_unstable();
        assert_eq!(random, [0, 0, 1, 2], "all of them");
    }

    #[test]
    fn no_more_transfers_are_granted_than_the_device_has_threads() {
        let grants = TransferGrants::new(0, RequestOrder::Granted);
        let granted: Vec<GrantedTransfer> =
            (0..THREADS_MAX).map(|client| grants.wait(client, 1)).collect();
        assert_eq!(grants.state.lock().in_service, granted.len());
        let mut state = grants.state.lock();
        state.waiting.push_back(WaitingRequest {
            ticket: 99,
            client: 0,
            left: 9,
            is_granted: false,
        });
        state.grant();
        assert!(!state.waiting[0].is_granted);
        state.waiting.clear();
    }
}
