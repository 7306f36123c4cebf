//! The embedded cluster as clients see it, and `kai run`'s own code on it, in virtual time.

mod claims;
mod controllers;
mod requests;
mod scheduling;
mod webhooks;
mod world;
