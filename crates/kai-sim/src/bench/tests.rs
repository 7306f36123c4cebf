use super::*;
use kai_core::status::Status;

fn built(name: &str) -> Built {
    name.parse::<Case>().unwrap().build().unwrap()
}

fn pods_of(world: &World, status: Status) -> usize {
    world.tasks().filter(|(_, task)| task.state.status == status).count()
}

#[test]
fn names_and_sizes() {
    let parsed = |name: &str| name.parse::<Case>().map(|case| case.to_string());
    for name in ["allocate-100", "reclaim-no-70", "gang-512", "mixed-51"] {
        assert_eq!(parsed(name).as_deref(), Ok(name));
    }
    for name in ["allocate", "allocate-x", "gang-100", "mixed-5", "reclaim-100", "steady-1"] {
        assert!(parsed(name).is_err(), "{name}");
    }
    assert_eq!(Case::named("steady").unwrap().len(), SIZES.len());
    assert_eq!(Case::named("steady-20").unwrap().len(), 1);
    assert!(Case::named("nothing").is_err());
    let all = Case::all();
    assert_eq!(all.len(), 6 * SIZES.len() + 3);
    assert!(all.iter().all(|case| parsed(&case.to_string()).is_ok()));
}

#[test]
fn worlds_have_the_pods_they_should() {
    let expected = [
        ("allocate-20", 20, 0, 160),
        ("gang-512", 512, 0, 512),
        ("reclaim-large-20", 20, 160, 10),
        ("reclaim-many-20", 20, 160, 160),
        ("reclaim-no-20", 20, 160, 10),
        ("consolidate-50", 50, 225, 4),
        ("steady-20", 20, 160, 400),
    ];
    for (name, nodes, running, waiting) in expected {
        let built = built(name);
        assert_eq!(built.world.nodes().count(), nodes, "{name}");
        assert_eq!(pods_of(&built.world, Status::Running), running, "{name}");
        assert_eq!(pods_of(&built.world, Status::Pending), waiting, "{name}");
    }
    assert_eq!(built("mixed-60").world.tasks().count(), 403);
    assert_eq!(built("mixed-51").world.tasks().count(), 550);
}

/// Reasons are compared as well; how much was searched for them is not.
#[test]
fn small_worlds_come_out_right_and_as_without_shortcuts() {
    let names = [
        "allocate-20",
        "gang-512",
        "reclaim-large-20",
        "reclaim-many-20",
        "reclaim-no-20",
        "consolidate-50",
    ];
    for name in names {
        let case: Case = name.parse().unwrap();
        let mut built = case.build().unwrap();
        let plan = built.cycle();
        assert_eq!(case.check(&plan), Ok(()), "{name}");
        built.world.set_naive_search(true);
        let naive = built.cycle();
        assert_eq!(plan.steps, naive.steps, "{name}");
        let reasons = |plan: &CyclePlan| -> Vec<_> {
            let reasons = plan.waiting.iter();
            reasons.map(|report| (report.job.clone(), report.errors.clone())).collect()
        };
        assert_eq!(reasons(&plan), reasons(&naive), "{name}");
    }
}

#[test]
fn jobs_come_and_go() {
    let mut steady = Steady::new(10).unwrap();
    for _ in 0..100 {
        let event = steady.next_event();
        let plan = steady.take(event.deltas);
        assert_eq!(steady.settle(&event.arrived, &plan), Ok(()));
        assert_eq!(pods_of(&steady.built().world, Status::Running), 80);
    }
}
