//! Devices on their way out. Rule: a device can be promised while all who hold it are on their way out, or gone already and
//! only their claims are still there; it can be given when nobody holds it. KAI knows no such promises.

use crate::input::ObjectName;
use crate::input::devices::Allocation;
use crate::placement::fit::When;
use crate::plugins::dynamicresources::allocator::Wanted;
use crate::status::Status;
use crate::world::World;
use crate::world::node::Node;

impl World {
    /// Allocations on `node` that give every claim all it wants, from what is free by then.
    pub(super) fn devices_for(
        &self,
        node: &Node,
        wanted: &[Wanted<'_>],
        when: When,
    ) -> Option<Vec<Allocation>> {
        let promises = when == When::Later && !self.config.compatibility.is_kai();
        let counts = |holder: usize| !promises || !self.is_leaving(holder);
        self.claims.allocate(node, wanted, counts)
    }

    /// Every pod that a claim is reserved for is on its way out or gone.
    fn is_leaving(&self, at: usize) -> bool {
        let claim = &self.claims.entries[at];
        let namespace = &claim.spec.name.namespace;
        let mut users = claim.state.reserved_for.iter();
        !claim.state.reserved_for.is_empty()
            && users.all(|user| {
                let name = ObjectName { namespace: namespace.clone(), name: user.clone() };
                let task = self.task_named(&name);
                task.is_none_or(|task| self.task(task).state.status == Status::Releasing)
            })
    }
}
