//! Which rule a kind has. The table reads like KAI's; kinds that are not in it are described by a `Karta` or take the default.

use kai_api::names::objects::{BUILD, INFERENCE};

use crate::facts::Gvk;

/// How the pods of a kind are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One group per workload, of at least one pod; priority and the like come from the nearest owner first.
    Default,
    /// The same, with this priority class unless the workload names one, and read from the workload first.
    WithClass(&'static str),
    /// A pod without owners; the driver and executors of a Spark application.
    Pod,
    /// One group per pod.
    Deployment,
    /// One group per job.
    Job,
    /// One group per run.
    CronJob,
    /// One group per set, a part per replicated job and replica.
    JobSet,
    /// One group per group of the set.
    LeaderWorkerSet,
    /// The sum of all replicas.
    Distributed(Replicas),
    /// The sum of all replicas, with parts for master and workers.
    PyTorchJob,
    /// The sum of all replicas, minus a launcher that comes later.
    MpiJob,
    /// The rule of what is below, with the metadata of what is above.
    SkipTopOwner,
    /// One group per pod-name prefix.
    RunaiJob,
    /// One group per cluster, a part per worker group.
    Ray,
    /// One group per gang.
    Grove,
    /// One group per revision.
    Knative,
    /// The number of nodes.
    AmlJob,
}

/// Where a distributed job keeps its replicas, and which roles it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Field of the spec.
    pub field: &'static str,
    /// Roles that must be there.
    pub mandatory: &'static [&'static str],
}

/// Replicas of a `TFJob`.
pub const TENSORFLOW: Replicas = Replicas { field: "tfReplicaSpecs", mandatory: &[] };
/// Replicas of an `XGBoostJob`.
pub const XGBOOST: Replicas =
    Replicas { field: "xgbReplicaSpecs", mandatory: &["Master", "Worker"] };
/// Replicas of a `JAXJob`.
pub const JAX: Replicas = Replicas { field: "jaxReplicaSpecs", mandatory: &["Worker"] };
/// Replicas of a `PyTorchJob`.
pub const PYTORCH: Replicas = Replicas { field: "pytorchReplicaSpecs", mandatory: &[] };
/// Replicas of an `MPIJob`.
pub const MPI: Replicas = Replicas { field: "mpiReplicaSpecs", mandatory: &["Launcher", "Worker"] };

/// A line of the table: group, version (`*` for any), kind, rule.
type Line = (&'static str, &'static str, &'static str, Rule);

/// Kinds with a rule of KAI's.
const KAI: &[Line] = &[
    ("", "v1", "Pod", Rule::Pod),
    ("apps", "v1", "Deployment", Rule::Deployment),
    ("apps", "v1", "ReplicaSet", Rule::Default),
    ("apps", "v1", "StatefulSet", Rule::Default),
    ("batch", "v1", "Job", Rule::Job),
    ("batch", "v1", "CronJob", Rule::CronJob),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", Rule::JobSet),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", Rule::LeaderWorkerSet),
    ("kubeflow.org", "v1", "TFJob", Rule::Distributed(TENSORFLOW)),
    ("kubeflow.org", "v1", "XGBoostJob", Rule::Distributed(XGBOOST)),
    ("kubeflow.org", "v1", "JAXJob", Rule::Distributed(JAX)),
    ("kubeflow.org", "v1", "PyTorchJob", Rule::PyTorchJob),
    ("kubeflow.org", "v1", "MPIJob", Rule::MpiJob),
    ("kubeflow.org", "v2beta1", "MPIJob", Rule::MpiJob),
    ("kubeflow.org", "v1beta1", "Notebook", Rule::WithClass(BUILD)),
    ("kubeflow.org", "v1alpha1", "ScheduledWorkflow", Rule::Default),
    ("trainer.kubeflow.org", "v1alpha1", "TrainJob", Rule::SkipTopOwner),
    ("argoproj.io", "v1alpha1", "Workflow", Rule::SkipTopOwner),
    ("run.ai", "*", "TrainingWorkload", Rule::SkipTopOwner),
    ("run.ai", "*", "InteractiveWorkload", Rule::SkipTopOwner),
    ("run.ai", "*", "DistributedWorkload", Rule::SkipTopOwner),
    ("run.ai", "*", "InferenceWorkload", Rule::SkipTopOwner),
    ("run.ai", "*", "DistributedInferenceWorkload", Rule::SkipTopOwner),
    ("run.ai", "*", "WorkloadRunner", Rule::SkipTopOwner),
    ("nvidia.com", "*", "DynamoGraphDeployment", Rule::SkipTopOwner),
    ("run.ai", "v1", "RunaiJob", Rule::RunaiJob),
    ("tekton.dev", "v1", "PipelineRun", Rule::Default),
    ("tekton.dev", "v1", "TaskRun", Rule::Default),
    ("ray.io", "v1alpha1", "RayCluster", Rule::Ray),
    ("ray.io", "v1alpha1", "RayJob", Rule::Ray),
    ("ray.io", "v1alpha1", "RayService", Rule::Ray),
    ("ray.io", "v1", "RayCluster", Rule::Ray),
    ("ray.io", "v1", "RayJob", Rule::Ray),
    ("ray.io", "v1", "RayService", Rule::Ray),
    ("grove.io", "v1alpha1", "PodCliqueSet", Rule::Grove),
    ("grove.io", "v1alpha1", "PodGangSet", Rule::Grove),
    ("serving.knative.dev", "v1", "Service", Rule::Knative),
    ("amlarc.azureml.com", "v1alpha1", "AmlJob", Rule::AmlJob),
    ("machinelearning.seldon.io", "v1alpha2", "SeldonDeployment", Rule::Default),
    ("machinelearning.seldon.io", "v1", "SeldonDeployment", Rule::Default),
    ("kubevirt.io", "v1", "VirtualMachineInstance", Rule::Default),
    ("workspace.devfile.io", "v1alpha2", "DevWorkspace", Rule::Default),
    ("egx.nvidia.io", "v1", "SPOTRequest", Rule::WithClass(INFERENCE)),
];

/// Kinds that KAI has no permission to read; it sees only their dependents. Here they may be readable: their groups stay what they
/// are, and their labels and annotations count.
const OURS: &[Line] = &[
    ("sparkoperator.k8s.io", "*", "SparkApplication", Rule::SkipTopOwner),
    ("sparkoperator.k8s.io", "*", "ScheduledSparkApplication", Rule::SkipTopOwner),
    ("apps.nvidia.com", "*", "NIMService", Rule::SkipTopOwner),
    ("apps.nvidia.com", "*", "NIMPipeline", Rule::SkipTopOwner),
    ("apps.nvidia.com", "*", "NIMCache", Rule::SkipTopOwner),
    ("serving.kserve.io", "*", "InferenceService", Rule::SkipTopOwner),
    ("serving.kserve.io", "*", "LLMInferenceService", Rule::SkipTopOwner),
];

/// All kinds with a rule, in the order of the table.
pub fn table() -> impl Iterator<Item = &'static Line> {
    KAI.iter().chain(OURS)
}

/// The rule of a kind: for exactly its version, else for any version.
pub fn rule_for(gvk: &Gvk) -> Option<Rule> {
    let find = |version: &str| {
        table()
            .find(|(g, v, k, _)| *g == gvk.group && *v == version && *k == gvk.kind)
            .map(|(.., rule)| *rule)
    };
    find(&gvk.version).or_else(|| find("*"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn exact_version_then_any_version() {
        let rule = |api_version, kind| rule_for(&Gvk::from_api_version(api_version, kind));
        assert_eq!(rule("batch/v1", "Job"), Some(Rule::Job));
        assert_eq!(rule("batch/v2", "Job"), None);
        assert_eq!(rule("run.ai/v7", "TrainingWorkload"), Some(Rule::SkipTopOwner));
        assert_eq!(rule("v1", "Pod"), Some(Rule::Pod));
        assert_eq!(rule("kubeflow.org/v1beta1", "Notebook"), Some(Rule::WithClass("build")));
    }

    #[test]
    fn each_kind_once() {
        let kinds: BTreeSet<_> = table().map(|(g, v, k, _)| (g, v, k)).collect();
        assert_eq!(kinds.len(), table().count());
    }
}
