//! Disk orders: which reader a disk serves next.

use super::arrival::Arrival;
use super::laggard::Laggard;
use super::laggard_integral::LaggardIntegral;
use super::proportional::Proportional;
use super::served::ReaderAtDisk;
use super::shares::DiskShares;

/// The order in which a disk serves its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceOrder {
    /// First come, first served.
    Arrival(Arrival),
    /// The reader with most bytes left.
    Laggard(Laggard),
    /// By shares of the disk's bandwidth that are moved towards the lagging reader (River 2.2.3).
    Shares(DiskShares),
    /// The reader that lags most, with memory of past lags.
    LaggardIntegral(LaggardIntegral),
    /// In proportion to what each has planned at this disk.
    Proportional(Proportional),
}

impl ServiceOrder {
    /// Chooses among readers with claims; `last` is the reader and block that were begun last.
    pub(super) fn choose<'a>(
        &mut self,
        readers: impl Iterator<Item = (&'a u32, &'a mut ReaderAtDisk)>,
        last: Option<(u32, u32)>,
    ) -> Option<u32> {
        match self {
            ServiceOrder::Arrival(order) => order.choose(readers),
            ServiceOrder::Laggard(order) => order.choose(readers),
            ServiceOrder::Shares(order) => order.choose(readers),
            ServiceOrder::LaggardIntegral(order) => order.choose(readers, last),
            ServiceOrder::Proportional(order) => order.choose(readers),
        }
    }
}
