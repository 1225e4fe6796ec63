//! Tests of the server over HTTP, with a client that can send what no browser would.

mod access;
mod adversaries;
mod checks;
mod files;
mod site;
