//! A world that followed the cluster change by change is the world of the cluster as it is.

use std::collections::BTreeMap;

use kai_core::check;
use kai_core::config::Config;
use kai_core::input::{Delta, Object, ObjectKey};
use kai_core::plan::{assume, plan};
use kai_core::world::World;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::repeatable;
use crate::worlds::{Cluster, key_of, now, pods, show, wild_cluster, world_of};

/// One thing that happens to a world.
#[derive(Clone)]
enum Event {
    Applied(Box<Delta>),
    Refused(Box<Delta>),
    Planned,
    Forgotten(kai_core::input::ObjectName),
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Applied(delta) => write!(f, "{}", show::delta(delta)),
            Self::Refused(delta) => write!(f, "refused: {}", show::delta(delta)),
            Self::Planned => write!(f, "plan"),
            Self::Forgotten(pod) => write!(f, "forget {pod}"),
        }
    }
}

/// Objects of three clusters of the same names, and whether each is set, removed or set with a mistake.
fn history() -> impl Strategy<Value = (Config, Vec<Event>)> {
    let clusters = [wild_cluster(), wild_cluster(), wild_cluster()];
    clusters.prop_flat_map(|clusters| {
        let config = clusters[0].config.clone();
        let objects: Vec<Object> = clusters.iter().flat_map(Cluster::objects).collect();
        let object = proptest::sample::select(objects);
        let event = prop_oneof![
            12 => object.clone().prop_map(|object| Event::Applied(Box::new(Delta::Set(object)))),
            4 => object.clone().prop_map(|object| {
                Event::Applied(Box::new(Delta::Remove(key_of(&object))))
            }),
            1 => object.clone().prop_map(|object| broken(object).map_or(Event::Planned, |delta| {
                Event::Refused(Box::new(delta))
            })),
            1 => Just(Event::Planned),
            1 => object.prop_map(|object| match key_of(&object) {
                ObjectKey::Pod(name) => Event::Forgotten(name),
                _ => Event::Forgotten(pods::bare_pod("odd-0").name),
            }),
        ];
        (Just(config), vec(event, 1..120))
    })
}

/// The object with a field that cannot be.
fn broken(object: Object) -> Option<Delta> {
    let object = match object {
        Object::Node(mut spec) => {
            spec.allocatable.gpus = -1;
            Object::Node(spec)
        }
        Object::Queue(mut spec) => {
            spec.parent = Some(spec.name.clone());
            Object::Queue(spec)
        }
        Object::Pod(mut spec) => {
            spec.request.cpu_milli = -1;
            Object::Pod(spec)
        }
        _ => return None,
    };
    Some(Delta::Set(object))
}

fn live(
    config: &Config,
    events: &[Event],
) -> Result<(World, BTreeMap<ObjectKey, Object>), TestCaseError> {
    let mut world = World::new(config.clone());
    let mut objects: BTreeMap<ObjectKey, Object> = BTreeMap::new();
    for event in events {
        match event {
            Event::Applied(delta) => {
                let effect = world.apply((**delta).clone());
                prop_assert_eq!(effect.problems, []);
                match &**delta {
                    Delta::Set(object) => objects.insert(key_of(object), object.clone()),
                    Delta::Remove(key) => objects.remove(key),
                };
                let again = world.apply((**delta).clone());
                prop_assert!(!again.changed, "applied twice: {}", show::delta(delta));
            }
            Event::Refused(delta) => {
                let before = world.describe();
                let effect = world.apply((**delta).clone());
                prop_assert!(!effect.changed && !effect.problems.is_empty());
                show::same(&before, &world.describe())?;
            }
            Event::Planned => {
                let decided = plan(&mut world, now());
                assume(&mut world, &decided);
            }
            Event::Forgotten(pod) => world.forget(pod),
        }
    }
    Ok((world, objects))
}

proptest! {
    #![proptest_config(crate::cases(800))]

    #[test]
    fn a_followed_world_equals_a_rebuilt_one((config, events) in history()) {
        let (world, _) = live(&config, &events)?;
        show::same(&world.describe(), &world.rebuilt().describe())?;
        show::none(&check::miscounts(&world), "")?;
    }

    #[test]
    fn a_followed_world_equals_one_with_only_the_last_objects((config, events) in history()) {
        let is_delta = |event: &&Event| matches!(event, Event::Applied(_) | Event::Refused(_));
        let events: Vec<Event> = events.iter().filter(is_delta).cloned().collect();
        let (mut world, objects) = live(&config, &events)?;
        let mut anew = world_of(&config, objects.into_values().collect());
        show::same(&world.describe(), &anew.describe())?;
        repeatable::same_plan(&plan(&mut world, now()), &plan(&mut anew, now()))?;
    }
}
