//! Container images made from files: OCI archives without a daemon or a registry.
//!
//! An [`Image`] has one [`Tree`] of files per [`Platform`]. The same files give the same bytes: entries are sorted, owned by
//! root and dated 1970-01-01.

mod image;
pub mod libraries;
mod platform;
pub mod product;
mod tar;
mod tree;

pub use image::{Archive, Image, RunConfig};
pub use platform::Platform;
pub use tree::Tree;
