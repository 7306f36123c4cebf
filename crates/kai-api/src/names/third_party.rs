//! Keys of other projects that are read to find a pod's place in its workload.

/// Kubeflow training operator: name of the job.
pub const KUBEFLOW_JOB_NAME: &str = "training.kubeflow.org/job-name";
/// Kubeflow training operator: `master`, `launcher`, `worker`.
pub const KUBEFLOW_JOB_ROLE: &str = "training.kubeflow.org/job-role";
/// Kubeflow training operator: replica type of the pod.
pub const KUBEFLOW_REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// Kubeflow training operator: index of the pod within its replica type.
pub const KUBEFLOW_REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";

/// Ray: `head` or `worker`.
pub const RAY_NODE_TYPE: &str = "ray.io/node-type";
/// Ray: name of the worker group, or `headgroup`.
pub const RAY_GROUP: &str = "ray.io/group";
/// Ray: name of the cluster.
pub const RAY_CLUSTER: &str = "ray.io/cluster";
/// Ray: priority class of the workload.
pub const RAY_PRIORITY_CLASS: &str = "ray.io/priority-class-name";
/// Ray: value of [`RAY_GROUP`] on head pods, and name of their sub-group.
pub const RAY_HEAD_GROUP: &str = "headgroup";

/// Knative Serving: name of the revision.
pub const KNATIVE_REVISION: &str = "serving.knative.dev/revision";
/// Knative Serving: smallest number of pods of a revision.
pub const KNATIVE_MIN_SCALE: &str = "autoscaling.knative.dev/min-scale";

/// Spark: name of the application.
pub const SPARK_APP_NAME: &str = "spark-app-name";
/// Spark: id shared by driver and executors; also the name of their pod group.
pub const SPARK_APP_SELECTOR: &str = "spark-app-selector";

/// `LeaderWorkerSet`: name of the set.
pub const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// `LeaderWorkerSet`: size of the group (annotation).
pub const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// `LeaderWorkerSet`: index of the group.
pub const LWS_GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// `LeaderWorkerSet`: index of the pod within its group; 0 is the leader.
pub const LWS_WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// `JobSet`: name of the replicated job.
pub const JOBSET_REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
/// `JobSet`: index of the job among the replicas of its replicated job.
pub const JOBSET_JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// Grove: name of the gang.
pub const GROVE_POD_GANG: &str = "grove.io/podgang";
/// Grove: name of the topology (annotation); wins over KAI's own key.
pub const GROVE_TOPOLOGY: &str = "grove.io/topology-name";

/// Karpenter: keeps a reservation pod where it is (annotation).
pub const KARPENTER_DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Namespaces carry their own name under this label.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
