//! What the kubelet gave to containers: `v1.PodResourcesLister/List` on its socket.

use std::path::{Path, PathBuf};

use kai_client::env::Env;
use kai_core::time::Span;
use kai_translate::time::seconds;

use super::wire::{self, CallError, Field, Message};

const METHOD: &str = "/v1.PodResourcesLister/List";
const PATIENCE: Span = seconds(10);

/// Where the kubelet listens.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    pub name: String,
    pub namespace: String,
    pub containers: Vec<ContainerResources>,
}

impl PodResources {
    /// Names of the devices of a resource that its containers have.
    pub fn devices(&self, resource: &str) -> Vec<&str> {
        let devices = self.containers.iter().flat_map(|container| &container.devices);
        let devices = devices.filter(|devices| devices.resource == resource);
        devices.flat_map(|devices| &devices.ids).map(String::as_str).collect()
    }
}

/// What a container was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    pub devices: Vec<Devices>,
    /// Cores of its own.
    pub cores: Vec<i64>,
    pub memory: Vec<Memory>,
}

/// Devices of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    pub resource: String,
    /// Their names, as the device plugin chose them.
    pub ids: Vec<String>,
    /// Zones they are in.
    pub zones: Vec<i64>,
}

/// Memory of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `memory` or `hugepages-…`.
    pub kind: String,
    pub bytes: u64,
    /// Zones it is in.
    pub zones: Vec<i64>,
}

/// Who knows what containers were given.
pub trait Kubelet: Send + Sync {
    /// Asks for all pods of the node.
    fn list(&self, env: &Env) -> impl Future<Output = Result<Vec<PodResources>, CallError>> + Send;
}

/// The kubelet of this node, behind its socket.
#[derive(Clone, Debug)]
pub struct Socket(pub PathBuf);

impl Kubelet for Socket {
    async fn list(&self, env: &Env) -> Result<Vec<PodResources>, CallError> {
        list(env, &self.0).await
    }
}

/// Lists the devices and memory of all pods from the kubelet's socket.
pub async fn list(env: &Env, socket: &Path) -> Result<Vec<PodResources>, CallError> {
    let answer = wire::call(env, socket, METHOD, PATIENCE).await?;
    pods(&answer).ok_or(CallError::Unreadable)
}

fn pods(message: &[u8]) -> Option<Vec<PodResources>> {
    let mut pods = Vec::new();
    for field in Message(message) {
        if let (1, Field::Bytes(bytes)) = field? {
            pods.push(pod(bytes)?);
        }
    }
    Some(pods)
}

fn pod(message: &[u8]) -> Option<PodResources> {
    let mut pod = PodResources::default();
    for field in Message(message) {
        match field? {
            (1, Field::Bytes(bytes)) => pod.name = text(bytes)?,
            (2, Field::Bytes(bytes)) => pod.namespace = text(bytes)?,
            (3, Field::Bytes(bytes)) => pod.containers.push(container(bytes)?),
            _ => {}
        }
    }
    Some(pod)
}

fn container(message: &[u8]) -> Option<ContainerResources> {
    let mut container = ContainerResources::default();
    for field in Message(message) {
        match field? {
            (2, Field::Bytes(bytes)) => container.devices.push(devices(bytes)?),
            (3, field) => container.cores.extend(field.numbers()?.iter().map(|core| *core as i64)),
            (4, Field::Bytes(bytes)) => container.memory.push(memory(bytes)?),
            _ => {}
        }
    }
    Some(container)
}

fn devices(message: &[u8]) -> Option<Devices> {
    let mut devices = Devices::default();
    for field in Message(message) {
        match field? {
            (1, Field::Bytes(bytes)) => devices.resource = text(bytes)?,
            (2, Field::Bytes(bytes)) => devices.ids.push(text(bytes)?),
            (3, Field::Bytes(bytes)) => devices.zones = zones(bytes)?,
            _ => {}
        }
    }
    Some(devices)
}

fn memory(message: &[u8]) -> Option<Memory> {
    let mut memory = Memory::default();
    for field in Message(message) {
        match field? {
            (1, Field::Bytes(bytes)) => memory.kind = text(bytes)?,
            (2, Field::Number(bytes)) => memory.bytes = bytes,
            (3, Field::Bytes(bytes)) => memory.zones = zones(bytes)?,
            _ => {}
        }
    }
    Some(memory)
}

/// Zones of a topology; zone 0 is written as nothing.
fn zones(message: &[u8]) -> Option<Vec<i64>> {
    let mut zones = Vec::new();
    for field in Message(message) {
        if let (1, Field::Bytes(bytes)) = field? {
            let mut zone = 0;
            for field in Message(bytes) {
                if let (1, Field::Number(number)) = field? {
                    zone = number as i64;
                }
            }
            zones.push(zone);
        }
    }
    Some(zones)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut all = vec![number << 3 | 2, u8::try_from(inner.len()).expect("short")];
        all.extend(inner);
        all
    }

    #[test]
    fn an_answer_is_read() {
        let zone = |zone: &[u8]| bytes(1, zone);
        let gpus = [
            bytes(1, b"nvidia.com/gpu"),
            bytes(2, b"GPU-0"),
            bytes(2, b"GPU-1"),
            bytes(3, &zone(&[8, 1])),
        ];
        let block = [bytes(1, b"memory"), vec![2 << 3, 0x80, 0x02], bytes(3, &zone(&[]))];
        // Numbers of a list come packed, or one by one.
        let parts = [
            bytes(1, b"main"),
            bytes(2, &gpus.concat()),
            bytes(3, &[2, 3]),
            vec![3 << 3, 5],
            bytes(4, &block.concat()),
        ];
        let pod = [bytes(1, b"p"), bytes(2, b"team"), bytes(3, &parts.concat()), bytes(9, b"?")];
        let answer = bytes(1, &pod.concat());
        let container = ContainerResources {
            devices: vec![Devices {
                resource: "nvidia.com/gpu".to_owned(),
                ids: vec!["GPU-0".to_owned(), "GPU-1".to_owned()],
                zones: vec![1],
            }],
            cores: vec![2, 3, 5],
            memory: vec![Memory { kind: "memory".to_owned(), bytes: 256, zones: vec![0] }],
        };
        let wanted = PodResources {
            name: "p".to_owned(),
            namespace: "team".to_owned(),
            containers: vec![container],
        };
        assert_eq!(pods(&answer), Some(vec![wanted]));
        for cut in 1..answer.len() {
            // Whatever is missing, there is an answer.
            let _ = pods(&answer[..cut]);
        }
        assert_eq!(pods(&answer[..answer.len() - 1]), None);
    }
}
