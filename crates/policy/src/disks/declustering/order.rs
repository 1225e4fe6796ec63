//! Disk orders: which reader a disk serves next.

use super::arrival::Arrival;
use super::graduated::Graduated;
use super::laggard::Laggard;
use super::served::Served;
use super::shares::Shares;

/// The order in which a disk serves its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Arrival(Arrival),
    /// The reader with most bytes left.
    Laggard(Laggard),
    /// By shares of the disk's bandwidth that are moved towards the lagging reader (River 2.2.3).
    Shares(Shares),
    /// The reader that lags most, with memory of past lags.
    Graduated(Graduated),
}

impl Order {
    /// Chooses among readers with claims; `last` is the reader and block that were begun last.
    pub(super) fn choose<'a>(
        &mut self,
        readers: impl Iterator<Item = (&'a u32, &'a mut Served)>,
        last: Option<(u32, u32)>,
    ) -> Option<u32> {
        match self {
            Order::Arrival(order) => order.choose(readers),
            Order::Laggard(order) => order.choose(readers),
            Order::Shares(order) => order.choose(readers),
            Order::Graduated(order) => order.choose(readers, last),
        }
    }
}
