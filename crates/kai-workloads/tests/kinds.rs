//! No kind of KAI's is missing: each has a rule, and a golden case with an object of it.

use std::collections::BTreeSet;

use kai_workloads::Gvk;
use kai_workloads::registry::{rule_for, table};
use serde_json::Value;

/// KAI's kinds, as its documentation lists them; `*` is any version.
const KAI: &str = "
    v1 Pod
    apps/v1 Deployment ReplicaSet StatefulSet
    batch/v1 Job CronJob
    jobset.x-k8s.io/v1alpha2 JobSet
    leaderworkerset.x-k8s.io/v1 LeaderWorkerSet
    kubeflow.org/v1 TFJob XGBoostJob JAXJob PyTorchJob MPIJob
    kubeflow.org/v2beta1 MPIJob
    kubeflow.org/v1beta1 Notebook
    kubeflow.org/v1alpha1 ScheduledWorkflow
    trainer.kubeflow.org/v1alpha1 TrainJob
    argoproj.io/v1alpha1 Workflow
    run.ai/* TrainingWorkload InteractiveWorkload DistributedWorkload InferenceWorkload DistributedInferenceWorkload
    run.ai/* WorkloadRunner
    nvidia.com/* DynamoGraphDeployment
    run.ai/v1 RunaiJob
    tekton.dev/v1 PipelineRun TaskRun
    ray.io/v1alpha1 RayCluster RayJob RayService
    ray.io/v1 RayCluster RayJob RayService
    grove.io/v1alpha1 PodCliqueSet PodGangSet
    serving.knative.dev/v1 Service
    amlarc.azureml.com/v1alpha1 AmlJob
    machinelearning.seldon.io/v1alpha2 SeldonDeployment
    machinelearning.seldon.io/v1 SeldonDeployment
    kubevirt.io/v1 VirtualMachineInstance
    workspace.devfile.io/v1alpha2 DevWorkspace
    egx.nvidia.io/v1 SPOTRequest
";

/// Kinds that KAI sees only from below.
const OURS: &str = "
    sparkoperator.k8s.io/* SparkApplication ScheduledSparkApplication
    apps.nvidia.com/* NIMService NIMPipeline NIMCache
    serving.kserve.io/* InferenceService LLMInferenceService
";

fn kinds(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines()
        .filter_map(|line| line.trim().split_once(' '))
        .flat_map(|(api_version, kinds)| kinds.split(' ').map(move |kind| (api_version, kind)))
}

#[test]
fn every_kind_of_kai_has_a_rule() {
    for (api_version, kind) in kinds(KAI).chain(kinds(OURS)) {
        let served = api_version.replace('*', "v1beta7");
        let rule = rule_for(&Gvk::from_api_version(&served, kind));
        assert!(rule.is_some(), "{api_version} {kind}");
    }
    let listed = kinds(KAI).chain(kinds(OURS)).count();
    assert_eq!(table().count(), listed, "a kind with a rule is not listed here");
}

#[test]
fn every_kind_has_a_golden_case() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut tested: BTreeSet<(String, String)> = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
        let cases: Vec<Value> = serde_saphyr::from_str(&text).expect("cases");
        for owner in cases.iter().filter_map(|case| case["owners"].as_array()).flatten() {
            let text = |key: &str| owner[key].as_str().unwrap_or_default().to_owned();
            tested.insert((text("apiVersion"), text("kind")));
        }
        tested.insert(("v1".to_owned(), "Pod".to_owned()));
    }
    let is_tested = |api_version: &str, kind: &str| {
        let group = api_version.strip_suffix('*');
        tested.iter().any(|(version, of_kind)| {
            let fits = group.map_or(version == api_version, |group| version.starts_with(group));
            fits && of_kind == kind
        })
    };
    let all = kinds(KAI).chain(kinds(OURS));
    let missing: Vec<_> = all.filter(|(api, kind)| !is_tested(api, kind)).collect();
    assert!(missing.is_empty(), "without a case: {missing:?}");
}
