//! The custom resource definitions, as they are installed.

/// File name and content of each definition, in the order of installation.
pub const CRDS: [(&str, &str); 6] = [
    ("kai.scheduler_configs.yaml", include_str!("../../../deploy/crds/kai.scheduler_configs.yaml")),
    (
        "kai.scheduler_schedulingshards.yaml",
        include_str!("../../../deploy/crds/kai.scheduler_schedulingshards.yaml"),
    ),
    (
        "kai.scheduler_topologies.yaml",
        include_str!("../../../deploy/crds/kai.scheduler_topologies.yaml"),
    ),
    (
        "scheduling.run.ai_bindrequests.yaml",
        include_str!("../../../deploy/crds/scheduling.run.ai_bindrequests.yaml"),
    ),
    (
        "scheduling.run.ai_podgroups.yaml",
        include_str!("../../../deploy/crds/scheduling.run.ai_podgroups.yaml"),
    ),
    (
        "scheduling.run.ai_queues.yaml",
        include_str!("../../../deploy/crds/scheduling.run.ai_queues.yaml"),
    ),
];
