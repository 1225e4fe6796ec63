//! The HTTP layer below the routes: connections, authorization, requests, responses and the page.

pub mod authorization;
pub mod connections;
pub mod error;
pub mod page;
pub mod request;
pub mod response;
