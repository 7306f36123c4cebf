//! Devices of releasing pods. Rule: a pod can be nominated to a device while all pods that hold it are releasing, or have
//! ended and only their claims are still there; the device can be given when no pod holds it. KAI knows no such nominations.

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
        let counts_releasing = when == When::Later && !self.config.compatibility.is_kai();
        let counts = |holder: usize| !counts_releasing || !self.is_releasing(holder);
        self.claims.allocate(node, wanted, counts)
    }

    /// Every pod that a claim is reserved for is releasing or gone.
    fn is_releasing(&self, at: usize) -> bool {
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
