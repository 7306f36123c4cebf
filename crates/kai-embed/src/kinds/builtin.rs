//! The resources of Kubernetes itself.

use super::{Origin, Resource, ScalePaths, Version};
use crate::store::ResourceId;

pub const PODS: (&str, &str) = ("", "pods");
pub const NODES: (&str, &str) = ("", "nodes");
pub const NAMESPACES: (&str, &str) = ("", "namespaces");
/// Events; `events.k8s.io` serves the same objects with other field names.
pub const EVENTS: (&str, &str) = ("", "events");
pub const CONFIG_MAPS: (&str, &str) = ("", "configmaps");
pub const SERVICE_ACCOUNTS: (&str, &str) = ("", "serviceaccounts");
pub const PERSISTENT_VOLUME_CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");
pub const PRIORITY_CLASSES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");
/// Custom resource definitions.
pub const CRDS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Whether objects of a resource are in namespaces.
#[derive(PartialEq)]
enum Scope {
    Namespaced,
    Cluster,
}

/// One row of the table.
struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    scope: Scope,
    short: &'static [&'static str],
    status: bool,
    scale: bool,
    /// `kubectl get all` shows it.
    all: bool,
}

const fn namespaced(
    api: (&'static str, &'static str),
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
) -> Row {
    Row {
        group: api.0,
        version: api.1,
        plural,
        singular,
        kind,
        scope: Scope::Namespaced,
        short: &[],
        status: false,
        scale: false,
        all: false,
    }
}

const fn global(
    api: (&'static str, &'static str),
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
) -> Row {
    Row { scope: Scope::Cluster, ..namespaced(api, plural, singular, kind) }
}

impl Row {
    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    const fn status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn scale(self) -> Self {
        Self { scale: true, ..self }
    }

    const fn all(self) -> Self {
        Self { all: true, ..self }
    }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const DEVICES: (&str, &str) = ("resource.k8s.io", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");

const ROWS: &[Row] = &[
    namespaced(CORE, "configmaps", "configmap", "ConfigMap").short(&["cm"]),
    namespaced(CORE, "endpoints", "endpoints", "Endpoints").short(&["ep"]),
    namespaced(CORE, "events", "event", "Event").short(&["ev"]),
    namespaced(CORE, "limitranges", "limitrange", "LimitRange").short(&["limits"]),
    global(CORE, "namespaces", "namespace", "Namespace").short(&["ns"]).status(),
    global(CORE, "nodes", "node", "Node").short(&["no"]).status(),
    namespaced(CORE, "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim")
        .short(&["pvc"])
        .status(),
    global(CORE, "persistentvolumes", "persistentvolume", "PersistentVolume")
        .short(&["pv"])
        .status(),
    namespaced(CORE, "pods", "pod", "Pod").short(&["po"]).status().all(),
    namespaced(CORE, "podtemplates", "podtemplate", "PodTemplate"),
    namespaced(CORE, "resourcequotas", "resourcequota", "ResourceQuota").short(&["quota"]).status(),
    namespaced(CORE, "secrets", "secret", "Secret"),
    namespaced(CORE, "serviceaccounts", "serviceaccount", "ServiceAccount").short(&["sa"]),
    namespaced(CORE, "services", "service", "Service").short(&["svc"]).status().all(),
    global(
        ADMISSION,
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        "MutatingWebhookConfiguration",
    ),
    global(
        ADMISSION,
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "ValidatingWebhookConfiguration",
    ),
    global(
        ADMISSION,
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy",
    ),
    global(
        ADMISSION,
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "ValidatingAdmissionPolicyBinding",
    ),
    global(
        ("apiextensions.k8s.io", "v1"),
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
    )
    .short(&["crd", "crds"])
    .status(),
    namespaced(APPS, "controllerrevisions", "controllerrevision", "ControllerRevision"),
    namespaced(APPS, "daemonsets", "daemonset", "DaemonSet").short(&["ds"]).status().all(),
    namespaced(APPS, "deployments", "deployment", "Deployment")
        .short(&["deploy"])
        .status()
        .scale()
        .all(),
    namespaced(APPS, "replicasets", "replicaset", "ReplicaSet")
        .short(&["rs"])
        .status()
        .scale()
        .all(),
    namespaced(APPS, "statefulsets", "statefulset", "StatefulSet")
        .short(&["sts"])
        .status()
        .scale()
        .all(),
    namespaced(BATCH, "cronjobs", "cronjob", "CronJob").short(&["cj"]).status().all(),
    namespaced(BATCH, "jobs", "job", "Job").status().all(),
    namespaced(("coordination.k8s.io", "v1"), "leases", "lease", "Lease"),
    namespaced(("discovery.k8s.io", "v1"), "endpointslices", "endpointslice", "EndpointSlice"),
    namespaced(("events.k8s.io", "v1"), "events", "event", "Event").short(&["ev"]),
    global(("node.k8s.io", "v1"), "runtimeclasses", "runtimeclass", "RuntimeClass"),
    namespaced(
        ("policy", "v1"),
        "poddisruptionbudgets",
        "poddisruptionbudget",
        "PodDisruptionBudget",
    )
    .short(&["pdb"])
    .status(),
    global(RBAC, "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding"),
    global(RBAC, "clusterroles", "clusterrole", "ClusterRole"),
    namespaced(RBAC, "rolebindings", "rolebinding", "RoleBinding"),
    namespaced(RBAC, "roles", "role", "Role"),
    global(DEVICES, "deviceclasses", "deviceclass", "DeviceClass"),
    namespaced(DEVICES, "resourceclaims", "resourceclaim", "ResourceClaim").status(),
    namespaced(DEVICES, "resourceclaimtemplates", "resourceclaimtemplate", "ResourceClaimTemplate"),
    global(DEVICES, "resourceslices", "resourceslice", "ResourceSlice"),
    global(("scheduling.k8s.io", "v1"), "priorityclasses", "priorityclass", "PriorityClass")
        .short(&["pc"]),
    global(STORAGE, "csidrivers", "csidriver", "CSIDriver"),
    global(STORAGE, "csinodes", "csinode", "CSINode"),
    namespaced(STORAGE, "csistoragecapacities", "csistoragecapacity", "CSIStorageCapacity"),
    global(STORAGE, "storageclasses", "storageclass", "StorageClass").short(&["sc"]),
    global(STORAGE, "volumeattachments", "volumeattachment", "VolumeAttachment").status(),
];

pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ROWS.iter().map(|row| Resource {
        id: ResourceId::new(row.group, row.plural),
        singular: row.singular.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        namespaced: row.scope == Scope::Namespaced,
        short_names: row.short.iter().map(|&name| name.to_owned()).collect(),
        categories: if row.all { vec!["all".to_owned()] } else { Vec::new() },
        versions: vec![Version {
            name: row.version.to_owned(),
            status: row.status,
            scale: row.scale.then(|| ScalePaths {
                spec: ".spec.replicas".to_owned(),
                status: ".status.replicas".to_owned(),
                selector: Some(".spec.selector".to_owned()),
            }),
            ..Version::default()
        }],
        origin: Origin::Builtin,
    })
}

/// Fields by which objects of a built-in resource may be selected.
pub(super) fn selectable_fields(resource: &ResourceId) -> &'static [&'static str] {
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        ("apps", "replicasets") => &["status.replicas"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}
