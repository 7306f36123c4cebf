//! The embedded cluster as clients see it, and `kai run`'s own code on it, in virtual time.

mod requests;
mod scheduling;
mod world;
