//! Platforms that an image is made for.

use std::fmt::{Display, Formatter};

/// An operating system and CPU architecture; the operating system is always Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM, as on Jetson.
    Arm64,
}

impl Platform {
    /// Every platform that the image supports.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The platform of this process.
    pub const fn host() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// Architecture in the words of the OCI image specification.
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Architecture in the words of GNU triplets and of `uname -m`.
    pub const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Target triple of rustc.
    pub const fn rust_target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The platform with this OCI architecture.
    pub fn named(architecture: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.architecture() == architecture)
    }
}

impl Display for Platform {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.architecture())
    }
}
