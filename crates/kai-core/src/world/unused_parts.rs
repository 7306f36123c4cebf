//! Shapes and names that the world keeps once for many objects, and that stay when the last of these objects is gone. A tenant can
//! make any number of them, one after the other; a rebuilt world has only those that are in use.

use rustc_hash::FxHashSet;

use crate::resources::ResourceVector;
use crate::world::World;

/// Unused parts that are not worth a rebuild.
const FEW_PARTS: usize = 10_000;

impl World {
    /// Most shapes, names of resources and names of shared devices are of objects that are gone.
    pub fn keeps_mostly_unused_parts(&self) -> bool {
        let kept = self.shapes.len() + self.names.len() + self.groups.len();
        if kept <= FEW_PARTS {
            return false;
        }
        let used = self.used_parts();
        kept.saturating_sub(used) > used.max(FEW_PARTS)
    }

    fn used_parts(&self) -> usize {
        let mut shapes = FxHashSet::default();
        let mut groups = FxHashSet::default();
        for (_, task) in self.tasks() {
            shapes.insert(task.shape);
            groups.extend(task.state.groups.iter().copied());
        }
        let requests = shapes.iter().map(|shape| &self.shapes[*shape]);
        let requests = requests.flat_map(|shape| [&shape.request, &shape.overhead]);
        let nodes = self.nodes().map(|(_, node)| &node.allocatable);
        let amounts = requests.chain(nodes).flat_map(ResourceVector::amounts);
        let names: FxHashSet<usize> = amounts.map(|(slot, _)| slot).collect();
        shapes.len() + groups.len() + names.len()
    }
}
