//! A plan leaves the world as it found it.

use kai_core::check;
use kai_core::plan::plan;
use proptest::prelude::*;

use crate::worlds::{messy_cluster, now, show};

proptest! {
    #![proptest_config(crate::cases(600))]

    #[test]
    fn a_plan_leaves_the_world_as_it_found_it(cluster in messy_cluster()) {
        let mut world = cluster.world();
        let before = world.describe();
        plan(&mut world, now());
        show::same(&before, &world.describe())?;
        show::none(&check::miscounts(&world), "")?;
    }
}
