//! How many GPUs a machine has, by its bus: a container sees the whole bus even where it sees only one of the GPUs.

use std::path::Path;

/// NVIDIA's number, and the class of display controllers.
const VENDOR: &str = "0x10de";
const DISPLAY: &str = "0x03";

/// NVIDIA's display controllers on the PCI bus, whose devices lie in `folder`; none: there is no such bus, or nothing on it.
pub fn on_bus(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?;
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let is_gpu = |device: &Path| {
        read(&device.join("vendor")).trim() == VENDOR
            && read(&device.join("class")).starts_with(DISPLAY)
    };
    let count = entries.flatten().filter(|entry| is_gpu(&entry.path())).count() as u64;
    (count > 0).then_some(count)
}

/// Where the devices of the PCI bus are.
pub const BUS: &str = "/sys/bus/pci/devices";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nvidias_display_controllers_count() {
        let folder = std::env::temp_dir().join(format!("kai-node-bus-{}", std::process::id()));
        let device = |name: &str, vendor: &str, class: &str| {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("vendor"), format!("{vendor}\n")).expect("a file");
            std::fs::write(folder.join("class"), format!("{class}\n")).expect("a file");
        };
        assert_eq!(on_bus(&folder), None);
        device("a", "0x8086", "0x030000");
        device("b", "0x10de", "0x040300"); // its sound
        std::fs::create_dir_all(folder.join("c")).expect("a folder");
        assert_eq!(on_bus(&folder), None);
        device("d", "0x10de", "0x030200");
        device("e", "0x10de", "0x030000");
        assert_eq!(on_bus(&folder), Some(2));
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
