//! How limits of GPU memory are treated.

/// What happens to processes that take more GPU memory than their pod asked for. Stricter ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforcement {
    /// Nothing; memory is not even counted.
    #[default]
    Off,
    /// Memory is counted, and nothing is denied.
    Report,
    /// Allocations above the limit fail.
    Enforce,
}

impl Enforcement {
    /// All of them, from the most lenient to the strictest.
    pub const ALL: [Self; 3] = [Self::Off, Self::Report, Self::Enforce];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Report => "report",
            Self::Enforce => "enforce",
        }
    }

    /// The one that users write so.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text)
    }
}

/// How pods share GPUs, `global.gpuSharingMode` of KAI 0.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuSharingMode {
    /// Pods do not share GPUs.
    Disabled,
    /// Memory is counted when pods are placed, and not limited.
    NonMemoryEnforced,
    /// Memory is limited by `HAMi`'s library, which others install.
    HamiCore,
    /// Memory is limited by NVIDIA's driver where it can, r615 and later.
    NvFractions,
    /// Memory is limited by our library.
    Guard,
}

impl GpuSharingMode {
    pub const ALL: [Self; 5] =
        [Self::Disabled, Self::NonMemoryEnforced, Self::HamiCore, Self::NvFractions, Self::Guard];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::NonMemoryEnforced => "NonMemoryEnforced",
            Self::HamiCore => "HamiCore",
            Self::NvFractions => "NvFractions",
            Self::Guard => "Guard",
        }
    }

    /// The one that users write so.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text)
    }

    /// How limits of memory are treated by our library.
    pub const fn enforcement(self) -> Enforcement {
        match self {
            Self::Guard => Enforcement::Enforce,
            Self::Disabled | Self::NonMemoryEnforced | Self::HamiCore | Self::NvFractions => {
                Enforcement::Off
            }
        }
    }
}
