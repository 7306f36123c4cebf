//! The documentation lists every check, and no other.

use kai_doctor::check::Check;

#[test]
fn the_documentation_lists_every_check() {
    let text = include_str!("../../../docs/doctor.md");
    let (_, tables) = text.split_once("## The cluster").expect("the checks");
    let (tables, _) = tables.split_once("## Jetson").expect("what follows them");
    let listed: Vec<&str> = tables
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name))
        .collect();
    let known: Vec<&str> = Check::all().map(Check::name).collect();
    assert_eq!(listed, known);
    for check in Check::all() {
        assert!(
            text.contains(&format!("| `{}` | {} |", check.name(), check.about())),
            "{}",
            check.name()
        );
    }
}
