//! Expressions as people write them for device classes and claims.

use serde_json::json;

use super::*;

fn slice(name: &str, devices: &serde_json::Value) -> ResourceSlice {
    let slice = json!({
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    });
    serde_json::from_value(slice).expect("a slice")
}

fn judge() -> CelJudge {
    let mut judge = CelJudge::default();
    judge.set_slice(&slice(
        "gpus",
        &json!([
            {
                "name": "h100",
                "attributes": {
                    "productName": {"string": "NVIDIA H100 80GB HBM3"},
                    "type": {"string": "gpu"},
                    "driverVersion": {"version": "550.54.15"},
                    "index": {"int": 0},
                    "mig": {"bool": false},
                    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            },
            {
                "name": "t4",
                "attributes": {
                    "productName": {"string": "Tesla T4"},
                    "type": {"string": "gpu"},
                    "driverVersion": {"version": "470.1.0"},
                    "index": {"int": 1},
                },
                "capacity": {"memory": {"value": "15360Mi"}},
            },
        ]),
    ));
    judge
}

fn found(expressions: &[&str]) -> Vec<String> {
    let devices = judge().matching(expressions).expect("expressions that can be read");
    devices.iter().map(|device| device.device.to_string()).collect()
}

#[test]
fn devices_are_chosen_by_driver_attributes_and_capacity() {
    let own = "device.attributes['gpu.nvidia.com']";
    let cases: [(&str, &[&str]); 14] = [
        ("device.driver == 'gpu.nvidia.com'", &["h100", "t4"]),
        ("device.driver == \"other\"", &[]),
        (&format!("{own}.type == 'gpu'"), &["h100", "t4"]),
        (&format!("{own}.productName.lowerAscii().matches('^.*h100.*$')"), &["h100"]),
        (&format!("{own}.productName.startsWith('Tesla')"), &["t4"]),
        (&format!("{own}.index < 1"), &["h100"]),
        (&format!("{own}.driverVersion.isGreaterThan(semver('500.0.0'))"), &["h100"]),
        (&format!("{own}.driverVersion.compareTo(semver('470.1.0')) == 0"), &["t4"]),
        (&format!("{own}.driverVersion.major() >= 470"), &["h100", "t4"]),
        (&format!("'mig' in {own} && !{own}.mig"), &["h100"]),
        (&format!("has({own}.mig)"), &["h100"]),
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", &["h100"]),
        ("device.capacity['gpu.nvidia.com'].memory.isLessThan(quantity('16G'))", &[]),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'", &["h100"]),
    ];
    for (expression, expected) in cases {
        assert_eq!(found(&[expression]), expected, "{expression}");
    }
}

#[test]
fn a_domain_that_a_device_lacks_is_empty() {
    assert_eq!(found(&["!('x' in device.attributes['nowhere.example.com'])"]), ["h100", "t4"]);
    assert_eq!(found(&["device.attributes['nowhere.example.com'].x == 1"]), Vec::<String>::new());
}

#[test]
fn all_selectors_must_hold() {
    let gpu = "device.attributes['gpu.nvidia.com'].type == 'gpu'";
    assert_eq!(found(&[gpu, "device.attributes['gpu.nvidia.com'].index == 1"]), ["t4"]);
}

#[test]
fn an_expression_that_cannot_be_read_is_complained_about() {
    assert!(judge().matching(&["device.driver =="]).is_err());
}

#[test]
fn sets_follow_the_slices() {
    let mut judge = judge();
    let all = ["device.driver == 'gpu.nvidia.com'"];
    assert_eq!(judge.matching(&all).map(|found| found.len()), Ok(2));
    let more = slice("more", &json!([{"name": "l4"}]));
    assert!(judge.set_slice(&more), "another device matches");
    assert!(!judge.set_slice(&more), "nothing new");
    assert_eq!(judge.matching(&all).map(|found| found.len()), Ok(3));
    assert!(judge.remove_slice("gpus"));
    assert_eq!(judge.matching(&all).map(|found| found.len()), Ok(1));
    assert!(!judge.remove_slice("gpus"));
}
