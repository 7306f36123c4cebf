//! UIDs and the tails of generated names: chance from a seed.

/// Letters and digits of the tails of generated names; no vowels, so that no word comes out.
const TAIL: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const TAIL_LENGTH: usize = 5;

/// Ids that look like chance and follow from the seed.
#[derive(Clone, Debug)]
pub struct Ids {
    state: u64,
}

impl Ids {
    /// Ids of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A UID, in the form of a random UUID.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }

    /// The tail of a generated name.
    pub fn tail(&mut self) -> String {
        let mut random = self.next();
        let mut tail = String::new();
        for _ in 0..TAIL_LENGTH {
            let size = TAIL.len() as u64;
            tail.push(char::from(TAIL[(random % size) as usize]));
            random /= size;
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_the_seed_and_differ() {
        let (mut one, mut other) = (Ids::new(7), Ids::new(7));
        let uid = one.uid();
        assert_eq!(uid, other.uid());
        assert_ne!(uid, one.uid());
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
        assert_eq!(one.tail().len(), 5);
    }
}
