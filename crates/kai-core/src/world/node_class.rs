//! Classes of nodes, for people: nodes with the same GPUs refuse pods for the same kind of reasons.

use std::fmt;

use crate::ids::define_id;
use crate::input::{NodeSpec, Text};
use crate::world::gpu_facts::{GPU_PRODUCT, GpuFacts};

define_id!(
    /// A class of nodes.
    ClassId
);

/// What the nodes of a class have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeClass {
    /// Physical GPUs of each.
    pub gpus: i64,
    /// MiB of each GPU, where known.
    pub memory_mib: Option<i64>,
    /// What the GPUs are called.
    pub product: Option<Text>,
}

impl NodeClass {
    pub(crate) fn of(node: &NodeSpec, facts: &GpuFacts, claimable: i64) -> Self {
        let gpus = facts.physical + claimable;
        Self {
            gpus,
            memory_mib: (gpus > 0 && facts.memory_known).then_some(facts.memory_mib),
            product: node.labels.get(GPU_PRODUCT).filter(|_| gpus > 0).cloned(),
        }
    }
}

impl fmt::Display for NodeClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpus {
            0 => return out.write_str("without GPUs"),
            1 => out.write_str("with 1 GPU")?,
            gpus => write!(out, "with {gpus} GPUs")?,
        }
        if let Some(product) = &self.product {
            write!(out, " {product}")?;
        }
        match self.memory_mib {
            Some(mib) => write!(out, " of {mib} MiB"),
            None => Ok(()),
        }
    }
}

/// The classes that were met.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeClasses {
    classes: Vec<NodeClass>,
}

impl NodeClasses {
    /// The id of a class; there are few.
    pub(crate) fn intern(&mut self, class: NodeClass) -> ClassId {
        let known = self.classes.iter().position(|known| *known == class);
        ClassId::new(known.unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        }))
    }

    pub(crate) fn get(&self, id: ClassId) -> &NodeClass {
        &self.classes[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_distinguished_by_their_gpus() {
        let class = |gpus, memory_mib, product: Option<&str>| {
            NodeClass { gpus, memory_mib, product: product.map(Text::from) }.to_string()
        };
        assert_eq!(class(0, None, None), "without GPUs");
        assert_eq!(class(1, Some(32_600), None), "with 1 GPU of 32600 MiB");
        assert_eq!(class(8, None, Some("H100")), "with 8 GPUs H100");
    }
}
