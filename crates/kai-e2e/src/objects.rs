//! Queues, pods and groups in few words.

use serde_json::{Map, Value, json};

/// A pod to be made.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Name of the pod in the namespace of the test space.
    pub name: String,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) requests: Map<String, Value>,
    /// More of its specification, merged in.
    pub(crate) spec: Value,
    pub(crate) queue: Option<String>,
}

/// A pod of this name in this queue.
pub fn pod(name: impl Into<String>, queue: &str) -> Pod {
    Pod {
        name: name.into(),
        labels: Map::new(),
        annotations: Map::new(),
        requests: Map::new(),
        spec: json!({}),
        queue: Some(queue.to_owned()),
    }
}

impl Pod {
    /// Asks for an amount of a resource.
    #[must_use]
    pub fn asks(mut self, resource: &str, amount: impl Into<Value>) -> Self {
        self.requests.insert(resource.to_owned(), amount.into());
        self
    }

    /// Requests CPU, as a quantity.
    #[must_use]
    pub fn cpu(self, amount: &str) -> Self {
        self.asks("cpu", amount)
    }

    /// Asks for whole GPUs.
    #[must_use]
    pub fn gpus(self, count: u32) -> Self {
        self.asks("nvidia.com/gpu", count.to_string())
    }

    /// Requests a GPU fraction.
    #[must_use]
    pub fn fraction(self, part: &str) -> Self {
        self.annotated("gpu-fraction", part)
    }

    /// Asks for memory of a GPU, in MiB.
    #[must_use]
    pub fn gpu_memory(self, mib: u32) -> Self {
        self.annotated("gpu-memory", &mib.to_string())
    }

    /// Of this priority class.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        self.with(json!({"priorityClassName": class}))
    }

    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), json!(value));
        self
    }

    /// Of a pod group.
    #[must_use]
    pub fn of_group(self, group: &str) -> Self {
        self.annotated("pod-group-name", group)
    }

    /// Of a sub-group of its group.
    #[must_use]
    pub fn of_sub_group(self, name: &str) -> Self {
        self.labelled("kai.scheduler/subgroup-name", name)
    }

    /// With more in its specification.
    #[must_use]
    pub fn with(mut self, spec: Value) -> Self {
        merge(&mut self.spec, spec);
        self
    }

    /// Only where a node has this label.
    #[must_use]
    pub fn on(self, key: &str, value: &str) -> Self {
        self.with(json!({"nodeSelector": {key: value}}))
    }
}

/// Several pods alike, `<name>-0`, `<name>-1`, …
pub fn pods(count: usize, make: impl Fn(usize) -> Pod) -> Vec<Pod> {
    (0..count).map(make).collect()
}

/// Bounds and weight of one resource of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Guaranteed amount; -1: unlimited.
    pub quota: f64,
    /// What is never exceeded.
    pub limit: f64,
    /// Weight in the division of the rest.
    pub weight: f64,
}

/// Everything, and a part of the rest.
pub const OPEN: Share = Share { quota: -1.0, limit: -1.0, weight: 1.0 };

/// This much is guaranteed, and a part of the rest.
pub const fn quota(quota: f64) -> Share {
    Share { quota, limit: -1.0, weight: 1.0 }
}

/// This much and no more.
pub const fn capped(amount: f64) -> Share {
    Share { quota: amount, limit: amount, weight: 1.0 }
}

impl Share {
    /// The same with another over-quota weight.
    #[must_use]
    pub const fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// The same with a limit.
    #[must_use]
    pub const fn limited(self, limit: f64) -> Self {
        Self { limit, ..self }
    }

    fn object(self) -> Value {
        json!({"quota": self.quota, "limit": self.limit, "overQuotaWeight": self.weight})
    }
}

/// A queue to be made.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) name: String,
    pub(crate) parent: Option<String>,
    cpu: Share,
    gpu: Share,
    more: Value,
}

/// A queue without bounds.
pub fn queue(name: &str) -> Queue {
    Queue { name: name.to_owned(), parent: None, cpu: OPEN, gpu: OPEN, more: json!({}) }
}

impl Queue {
    /// Sets the parent queue.
    #[must_use]
    pub fn below(mut self, parent: &str) -> Self {
        self.parent = Some(parent.to_owned());
        self
    }

    /// Bounds of CPU, in thousandths of a core.
    #[must_use]
    pub fn cpu(mut self, share: Share) -> Self {
        self.cpu = share;
        self
    }

    /// Bounds of GPUs.
    #[must_use]
    pub fn gpu(mut self, share: Share) -> Self {
        self.gpu = share;
        self
    }

    /// With more in its specification.
    #[must_use]
    pub fn with(mut self, spec: Value) -> Self {
        merge(&mut self.more, spec);
        self
    }

    pub(crate) fn spec(&self) -> Value {
        let (cpu, gpu, memory) = (self.cpu.object(), self.gpu.object(), OPEN.object());
        let mut spec = json!({"resources": {"cpu": cpu, "gpu": gpu, "memory": memory}});
        merge(&mut spec, self.more.clone());
        spec
    }
}

/// Merges objects key by key; anything else is replaced.
pub(crate) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
