//! Signs of a Tegra system as a container sees them.

use std::path::Path;

/// Reads a file of the system; none: it is not there.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The file that shows that this is a Tegra system; none: it is none.
pub fn sign(read: ReadFile<'_>) -> Option<String> {
    let line = |path: &str| read(Path::new(path)).map(|text| text.trim().to_owned());
    if let Some(release) = line("/etc/nv_tegra_release") {
        let first = release.lines().next().unwrap_or_default();
        return Some(format!("/etc/nv_tegra_release: {first}"));
    }
    if line("/sys/devices/soc0/family").is_some_and(|family| family == "Tegra") {
        return Some("/sys/devices/soc0/family: Tegra".to_owned());
    }
    let compatible = line("/proc/device-tree/compatible")?;
    let name = compatible.split('\0').find(|name| name.starts_with("nvidia,tegra"))?;
    Some(format!("/proc/device-tree/compatible: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign_with(path: &str, text: &str) -> Option<String> {
        sign(&|asked| (asked == Path::new(path)).then(|| text.to_owned()))
    }

    #[test]
    fn every_sign_is_enough() {
        let release = sign_with("/etc/nv_tegra_release", "# R38 (release)\nmore\n");
        assert_eq!(release.as_deref(), Some("/etc/nv_tegra_release: # R38 (release)"));
        assert!(sign_with("/sys/devices/soc0/family", "Tegra\n").is_some());
        assert_eq!(sign_with("/sys/devices/soc0/family", "jep106"), None);
        let tree = "nvidia,p3971-0089\0nvidia,tegra264\0";
        let found = sign_with("/proc/device-tree/compatible", tree);
        assert_eq!(found.as_deref(), Some("/proc/device-tree/compatible: nvidia,tegra264"));
        assert_eq!(sign_with("/proc/device-tree/compatible", "raspberrypi,5\0"), None);
    }
}
