//! Names that follow from others.

use ring::digest::{SHA256, digest};

/// The first 16 hexadecimal digits of the SHA-256 of a text.
pub fn short_hash(text: &str) -> String {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
