//! Ids: `u32` newtypes into the arenas of the world. Names live in the objects; ids never leave a world.

macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(u32);

        impl $name {
            /// The id of slot `index` of its arena.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds fewer than 2^32 slots"))
            }

            /// The slot in the arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

define_id!(
    /// A node of the cluster.
    NodeId
);
define_id!(
    /// A queue of the tree, leaf or parent.
    QueueId
);
define_id!(
    /// A pod group, called job inside the planner.
    JobId
);
define_id!(
    /// A pod, called task inside the planner.
    TaskId
);

pub(crate) use define_id;
