//! Device memory of CUDA arrays, from their descriptors.

/// Extents and format of an array. Zero extents count as one, as CUDA defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayShape {
    /// Elements per row.
    pub width: u64,
    /// Rows; 0 for one dimension.
    pub height: u64,
    /// Slices or layers; 0 for one or two dimensions.
    pub depth: u64,
    /// `CUarray_format`.
    pub format: u32,
    /// Channels per element.
    pub channels: u32,
    /// `CUDA_ARRAY3D_*`.
    pub flags: u32,
}

const SPARSE: u32 = 0x40;
const DEFERRED_MAPPING: u32 = 0x80;
const LAYERED: u32 = 0x01;

impl ArrayShape {
    /// Bytes of the array with `levels` mip levels; 0 when memory is mapped later by the caller.
    pub fn bytes(&self, levels: u32) -> u64 {
        if self.flags & (SPARSE | DEFERRED_MAPPING) != 0 {
            return 0;
        }
        let mut sum = 0_u64;
        for level in 0..levels.clamp(1, 32) {
            let halved = |extent: u64| (extent.max(1) >> level).max(1);
            let depth =
                if self.flags & LAYERED == 0 { halved(self.depth) } else { self.depth.max(1) };
            let elements =
                halved(self.width).saturating_mul(halved(self.height)).saturating_mul(depth);
            sum = sum.saturating_add(elements.saturating_mul(self.bits_per_element()).div_ceil(8));
        }
        sum
    }

    /// Block-compressed and planar formats have a fixed size per element; unknown formats are taken as
    /// 32 bits per channel, which is the largest one-channel format.
    fn bits_per_element(&self) -> u64 {
        let channels = u64::from(self.channels.max(1));
        match self.format {
            0x01 | 0x08 => 8 * channels,
            0x02 | 0x09 | 0x10 => 16 * channels,
            0x91 | 0x92 | 0x97 | 0x98 => 4,
            0x93..=0x96 | 0x99..=0x9e | 0xc0 | 0xc6 => 8,
            0xb0 => 12,
            0xc1 | 0xc3 | 0xc7 | 0xc9 | 0xa2 | 0xa5 => 16,
            0x9f | 0xa1 | 0xb2 | 0xb4 => 24,
            0xc2 | 0xc4 | 0xc8 | 0xca | 0x50 | 0xa3 | 0xa4 | 0xa6..=0xa9 => 32,
            0xb3 | 0xb5 => 48,
            0xc5 | 0xcb | 0xb1 => 64,
            _ => 32 * channels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: u32 = 0x20;

    #[test]
    fn sizes_follow_extents_format_and_levels() {
        let plane = ArrayShape {
            width: 4096,
            height: 4096,
            format: FLOAT,
            channels: 1,
            ..ArrayShape::default()
        };
        assert_eq!(plane.bytes(1), 64 << 20);
        assert_eq!(ArrayShape { channels: 4, ..plane }.bytes(1), 256 << 20);
        assert_eq!(ArrayShape { format: 0x01, ..plane }.bytes(1), 16 << 20);
        assert_eq!(ArrayShape { height: 0, ..plane }.bytes(1), 16 << 10);
        assert_eq!(ArrayShape { depth: 6, flags: LAYERED | 0x04, ..plane }.bytes(1), 384 << 20);
        assert_eq!(ArrayShape { width: 4, height: 4, ..plane }.bytes(3), 64 + 16 + 4);
        assert_eq!(ArrayShape { format: 0x91, ..plane }.bytes(1), 8 << 20);
    }

    #[test]
    fn sparse_and_deferred_arrays_hold_no_memory() {
        for flags in [SPARSE, DEFERRED_MAPPING] {
            let shape = ArrayShape {
                width: 1 << 20,
                format: FLOAT,
                channels: 1,
                flags,
                ..ArrayShape::default()
            };
            assert_eq!(shape.bytes(1), 0);
        }
    }

    #[test]
    fn absurd_extents_saturate() {
        let shape = ArrayShape {
            width: u64::MAX,
            height: u64::MAX,
            depth: u64::MAX,
            ..ArrayShape::default()
        };
        assert!(shape.bytes(1) > 1 << 60);
    }
}
