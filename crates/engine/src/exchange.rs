//! Request/response exchange of batches and messages between the parts of a module in different
//! processes.

mod handle;
mod messages;
mod module_exchange;
mod pending;
mod server_pool;
#[cfg(test)]
mod tests;

pub use self::handle::ExchangeHandle;
pub use self::module_exchange::ModuleExchange;
