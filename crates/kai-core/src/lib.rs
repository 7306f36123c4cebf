//! The scheduling core.
