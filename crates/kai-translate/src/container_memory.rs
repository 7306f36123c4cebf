//! GPU memory that a single container requests, as KAI 0.18 admits it.

use std::collections::BTreeMap;

use kai_api::gpu_request::GpuAnnotations;
use kai_api::names::{gpu, guard};
use kai_api::quantity::Quantity;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Reads the request of a container as that of its pod, where the pod has none. Our admission writes the request of the pod itself.
pub(crate) fn read(annotations: &mut BTreeMap<String, String>) {
    let is_said = GpuAnnotations::of(annotations).request_share();
    let requests = annotations.iter().filter_map(|(key, text)| {
        let rest = key.strip_prefix(guard::NVIDIA_CONTAINER_PREFIX)?;
        let container = rest.strip_suffix(guard::NVIDIA_REQUEST_SUFFIX)?;
        Some((container.to_owned(), Quantity::parse(text).ok()?.as_f64()))
    });
    let all: Vec<(String, f64)> = requests.collect();
    let [(container, bytes)] = &all[..] else { return };
    if is_said || *bytes < MIB {
        return;
    }
    annotations.insert(gpu::MEMORY.to_owned(), ((bytes / MIB).ceil() as i64).to_string());
    annotations.entry(gpu::FRACTION_CONTAINER.to_owned()).or_insert_with(|| container.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let mut annotations = texts.iter().map(own).collect();
        read(&mut annotations);
        annotations
    }

    #[test]
    fn request_of_one_container_is_that_of_the_pod() {
        let main = ("nvidia.com/container.main.gpu-memory.request", "20000Mi");
        let read = read_from(&[main]);
        assert_eq!((&*read[gpu::MEMORY], &*read[gpu::FRACTION_CONTAINER]), ("20000", "main"));
        assert!(!read_from(&[main, (gpu::FRACTION, "0.5")]).contains_key(gpu::MEMORY));
        let side = ("nvidia.com/container.side.gpu-memory.request", "1Gi");
        assert!(!read_from(&[main, side]).contains_key(gpu::MEMORY), "admission denies two");
        assert!(!read_from(&[(main.0, "1")]).contains_key(gpu::MEMORY));
    }
}
