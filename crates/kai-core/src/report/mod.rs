//! Reasons as data, and one renderer that turns them into KAI's texts.

pub mod refusal;
