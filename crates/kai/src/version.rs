//! `kai version`: what a bug report has to name.

use crate::output;

/// Prints version, commit and platform.
pub(crate) fn run() -> anyhow::Result<u8> {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    output::print(&format!(
        "kai {}\ncommit    {}\nplatform  {os}/{architecture}\n",
        env!("CARGO_PKG_VERSION"),
        env!("KAI_COMMIT"),
    ))?;
    Ok(0)
}
