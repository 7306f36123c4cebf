//! The `kai` binary.
fn main() {}
