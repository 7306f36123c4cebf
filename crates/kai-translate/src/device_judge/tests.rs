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
    let found = judge().matching(expressions).expect("expressions that can be read");
    found.devices.iter().map(|device| device.device.to_string()).collect()
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
    assert_eq!(judge.matching(&all).map(|found| found.devices.len()), Ok(2));
    let more = slice("more", &json!([{"name": "l4"}]));
    assert!(judge.set_slice(&more), "another device matches");
    assert!(!judge.set_slice(&more), "nothing new");
    assert_eq!(judge.matching(&all).map(|found| found.devices.len()), Ok(3));
    assert!(judge.remove_slice("gpus"));
    assert_eq!(judge.matching(&all).map(|found| found.devices.len()), Ok(1));
    assert!(!judge.remove_slice("gpus"));
}

/// Nested loops over lists, as deep as asked for.
fn nested(depth: usize) -> String {
    let list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
    (0..depth).fold("true".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"))
}

#[test]
fn an_expression_over_the_cost_limit_matches_no_device_and_says_so() {
    let mut judge = judge();
    let expensive = nested(8);
    let first = judge.matching(&[&expensive]).expect("it can be read");
    assert_eq!((first.devices.len(), first.notices.len()), (0, 0), "it is evaluated later");
    while judge.is_behind() {
        judge.begin_turn();
    }
    let judged = judge.matching(&[&expensive]).expect("it can be read");
    assert_eq!(judged.devices, []);
    assert_eq!(
        judged.notices,
        [
            "the expression exceeds the cost limit of 1000000 on device gpu.nvidia.com/n/h100; it is not evaluated on other devices"
        ]
    );
    let affordable = nested(3);
    judge.matching(&[&affordable]).expect("it can be read");
    while judge.is_behind() {
        judge.begin_turn();
    }
    let judged = judge.matching(&[&affordable]).expect("it can be read");
    assert_eq!((judged.devices.len(), judged.notices.len()), (2, 0));
}

#[test]
fn errors_do_not_hide_what_was_spent() {
    for hidden in [
        format!("{} || true", nested(8)),
        format!("!({} && false)", nested(8)),
        format!("[1].exists(x, {} || x == 1)", nested(8)),
    ] {
        let mut judge = judge();
        judge.matching(&[&hidden]).expect("it can be read");
        while judge.is_behind() {
            judge.begin_turn();
        }
        let judged = judge.matching(&[&hidden]).expect("it can be read");
        assert_eq!((judged.devices.len(), judged.notices.len()), (0, 1), "{hidden}");
    }
}

#[test]
fn what_grows_without_loops_is_counted_too() {
    let doubled = (0..40)
        .fold("'xxxxxxxxxxxxxxxx'".to_owned(), |text, _| format!("[{text}].map(x, x + x)[0]"));
    let grown = [
        format!("{doubled} == ''"),
        "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.replace('', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').replace('', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') == ''".to_owned(),
        "lists.range(900000).all(x, x >= 0)".to_owned(),
        "device.driver.matches('(x{900}){900}{900}')".to_owned(),
    ];
    for expression in grown {
        let mut judge = judge();
        judge.matching(&[&expression]).expect("it can be read");
        while judge.is_behind() {
            judge.begin_turn();
        }
        let judged = judge.matching(&[&expression]).expect("it can be read");
        assert_eq!((judged.devices.len(), judged.notices.len()), (0, 1), "{expression:.60}");
    }
}

#[test]
fn cheap_expressions_do_not_wait_for_expensive_ones() {
    let mut judge = judge();
    let expensive: Vec<String> =
        (0..64).map(|number| format!("{number} >= 0 && {}", nested(8))).collect();
    for expression in &expensive {
        judge.matching(&[expression]).expect("it can be read");
    }
    assert!(judge.is_behind());
    judge.begin_turn();
    let honest = "device.attributes['gpu.nvidia.com'].type == 'gpu'";
    let judged = judge.matching(&[honest]).expect("it can be read");
    // At once, or with the next turn where this one has nothing left.
    let at_once = judged.devices.len() == 2 || judge.begin_turn();
    assert!(at_once);
    assert_eq!(judge.matching(&[honest]).expect("it can be read").devices.len(), 2);
    assert!(judge.is_behind(), "the others still wait");
}

#[test]
fn expressions_that_no_object_holds_are_forgotten() {
    let mut judge = judge();
    for number in 0..1_000 {
        let expression = format!("device.driver == 'd{number}'");
        judge.matching(&[&expression]).expect("it can be read");
        judge.forget_unused(|| [expression.as_str()]);
    }
    assert!(judge.expression_count() < 100, "{}", judge.expression_count());
}
