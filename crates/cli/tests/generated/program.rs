//! A flow, as a program.

pub fn flow() -> euphrates_flow::Document { euphrates_flow::Document::new("") }
