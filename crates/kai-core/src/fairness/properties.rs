//! Facts that hold for every tree.
