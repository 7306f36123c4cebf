//! A number that two worlds share exactly when the planner cannot distinguish them. Names decide, never slots.

use std::fmt::{self, Write};
use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::ids::QueueId;
use crate::input::ObjectName;
use crate::world::World;
use crate::world::node::Node;

/// A description that is not kept: that of a large cluster takes tens of megabytes.
struct Hashed(FxHasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Byte by byte, so that the result does not depend on how the text is cut.
        text.bytes().for_each(|byte| self.0.write_u8(byte));
        Ok(())
    }
}

impl World {
    /// The fingerprint, for tests and replay.
    pub fn fingerprint(&self) -> u64 {
        let mut hashed = Hashed(FxHasher::default());
        self.describe_to(&mut hashed);
        hashed.0.finish()
    }

    /// Everything that can influence a plan, one line per object, in name order.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.describe_to(&mut text);
        text
    }

    fn describe_to(&self, text: &mut impl Write) {
        for (_, node) in self.nodes() {
            self.describe_node(node, text);
        }
        for (name, id) in &self.queue_ids {
            let node = self.tree.node(*id);
            let sums = self.queue_sums[id.index()];
            let name_of = |queue: &QueueId| &self.tree.node(*queue).name;
            let below: Vec<_> = node.children.iter().map(name_of).collect();
            let _ = writeln!(text, "queue {name} live={} sums={sums:?} {below:?}", node.live);
            let _ = writeln!(text, "  {:?}", self.queue_specs[id.index()]);
        }
        let mut jobs: Vec<_> = self.job_ids.values().map(|id| self.job(*id)).collect();
        jobs.sort_by(|left, right| left.spec.name.cmp(&right.spec.name));
        for job in jobs {
            let queue = job.queue.map(|queue| &self.tree.node(queue).name);
            let _ = writeln!(text, "job {:?} start={:?} in {queue:?}", job.spec, job.last_start);
            let mut strays: Vec<&ObjectName> =
                job.strays.iter().map(|task| &self.task(*task).spec.name).collect();
            strays.sort();
            let _ = writeln!(text, "  strays {strays:?} {:?}", job.tree.problem);
            for leaf in &job.leaves {
                let names: Vec<&str> =
                    leaf.tasks.iter().map(|task| &*self.task(*task).spec.name.name).collect();
                let _ = writeln!(text, "  leaf {} {:?} {names:?}", leaf.declared.name, leaf.counts);
            }
        }
        let mut tasks: Vec<_> = self.task_ids.values().map(|id| self.task(*id)).collect();
        tasks.sort_by(|left, right| left.spec.name.cmp(&right.spec.name));
        for task in tasks {
            let state = &task.state;
            let node = state.node.map(|node| self.node(node).name());
            let groups: Vec<_> = state.groups.iter().map(|group| self.group_name(*group)).collect();
            let _ = writeln!(
                text,
                "task {:?} {:?} tentative={} {node:?} {groups:?} {:?} {:?}",
                task.spec,
                state.status,
                state.tentative,
                state.zones.zones(),
                state.accepted
            );
        }
        let _ = writeln!(text, "{:?}", (&self.topologies, &self.usage, &self.budgets));
        let _ = writeln!(text, "{:?}", self.volumes);
        let _ = text.write_str(&self.claims.describe());
        let _ = writeln!(text, "{:?}", (&self.bind_requests, &self.assumed, &self.config_maps));
        let _ = writeln!(text, "{:?}", self.namespaces);
    }

    fn describe_node(&self, node: &Node, text: &mut impl Write) {
        let named = |vector: &crate::resources::ResourceVector| {
            let mut amounts: Vec<_> = vector
                .non_zero()
                .map(|(slot, amount)| (self.names.name(slot).to_owned(), amount))
                .collect();
            amounts.sort();
            amounts
        };
        let _ = writeln!(text, "node {:?} {:?}", node.spec, node.gpus);
        let _ = writeln!(
            text,
            "  idle {:?} releasing {:?} used {:?}",
            named(&node.amounts.idle),
            named(&node.amounts.releasing),
            named(&node.amounts.used)
        );
        if let Some(numa) = &node.numa {
            let zones: Vec<_> = numa.available().iter().map(named).collect();
            let _ = writeln!(text, "  zones {zones:?}");
        }
        for group in &node.groups {
            let mib = (group.used_mib, group.releasing_mib, group.allocated_mib);
            let flags = (group.counted_as_releasing, group.kind);
            let _ = writeln!(text, "  group {} {mib:?} {flags:?}", self.group_name(group.id));
        }
        let residents: Vec<_> = node
            .residents
            .iter()
            .map(|resident| (&self.task(resident.task).spec.name, resident.status))
            .collect();
        let _ = writeln!(text, "  residents {residents:?}");
    }
}
