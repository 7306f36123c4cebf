//! A set of slots of an arena: one bit per slot, as far as the largest member.

const WORD: usize = 64;

/// Slots of an arena.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Adds `slot`; false when it was in already.
    pub(crate) fn insert(&mut self, slot: usize) -> bool {
        let (word, bit) = (slot / WORD, 1 << (slot % WORD));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes all members.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }
}
