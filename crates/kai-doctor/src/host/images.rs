//! Our image.

use super::{HostFacts, warning};
use crate::check::Check;
use crate::finding::Finding;

pub(super) fn findings(facts: &HostFacts) -> Option<Finding> {
    let images = facts.images.as_ref()?;
    let image = &facts.image;
    if images.iter().any(|name| name.contains(image)) {
        return None;
    }
    let (runtime, images) = if facts.is_k3s() {
        ("k3s", "k3s ctr images")
    } else {
        ("containerd", "ctr -n k8s.io images")
    };
    let message = format!(
        "{runtime} has no image whose name contains {image}: it will be pulled; import it if the node cannot pull it"
    );
    let fix =
        format!("docker save IMAGE | sudo {images} import - && sudo {images} list | grep {image}");
    Some(warning(Check::ImageNotImported, runtime, message, fix))
}
