//! Scenarios in virtual time.
