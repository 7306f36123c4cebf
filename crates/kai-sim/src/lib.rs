//! Scenarios in virtual time.

pub mod vectors;
