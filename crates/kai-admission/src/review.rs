//! Questions of the API server and our answers. Pure.

use k8s_openapi::ByteString;
use kai_api::names::admission as paths;
use serde_json::{Value, json};

use super::{PodRules, Verdict, mutate, pod_groups, pods, queues, quotas, topologies};

/// What is known beside the question.
pub struct Known<'a> {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler: &'a str,
    /// Rules for pods.
    pub rules: &'a PodRules,
    /// The queues that exist, where quotas are checked.
    pub queues: Option<&'a [Value]>,
}

/// The answer to an `AdmissionReview` that came on this path; none where there is no such path.
pub fn answer(path: &str, review: &Value, known: &Known<'_>) -> Option<Value> {
    let Known { scheduler, rules, queues } = *known;
    let request = &review["request"];
    let object = &request["object"];
    let is_new = request["operation"] == "CREATE";
    let ours = object["spec"]["schedulerName"] == scheduler;
    let (verdict, patch) = match path {
        paths::MUTATE_POD_PATH if ours => mutate_pod(request, rules),
        paths::VALIDATE_POD_PATH if ours => {
            let pod = placed(request, object);
            let unchanged = pods::validate_change(&request["oldObject"], &pod);
            let refused = unchanged.and_then(|()| pods::validate(&pod, is_new, rules)).err();
            (Verdict { refused, warnings: Vec::new() }, Vec::new())
        }
        paths::MUTATE_POD_PATH | paths::VALIDATE_POD_PATH => Default::default(),
        paths::VALIDATE_QUEUE_PATH if request["operation"] == "DELETE" => {
            (queues::validate_deletion(&request["oldObject"]), Vec::new())
        }
        paths::VALIDATE_QUEUE_PATH => (queue(object, queues), Vec::new()),
        paths::VALIDATE_POD_GROUP_PATH => (pod_groups::validate(object, is_new), Vec::new()),
        paths::VALIDATE_TOPOLOGY_PATH => (topologies::validate(object), Vec::new()),
        _ => return None,
    };
    Some(response(&request["uid"], &verdict, &patch))
}

/// A queue by itself, then among the others.
fn queue(object: &Value, others: Option<&[Value]>) -> Verdict {
    let verdict = queues::validate(object);
    let Some(others) = others.filter(|_| verdict.refused.is_none()) else { return verdict };
    let mut among = quotas::check(object, others);
    among.warnings.splice(0..0, verdict.warnings);
    among
}

fn mutate_pod(request: &Value, rules: &PodRules) -> (Verdict, Vec<Value>) {
    let pod = &request["object"];
    let namespace = request["namespace"].as_str().unwrap_or_default();
    let own = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    if !own.is_empty() && own != namespace {
        let text = format!(
            "error: the namespace from the provided object {own} does not match the namespace {namespace}"
        );
        return (Verdict::refused(text), Vec::new());
    }
    let seed = request["uid"].as_str().unwrap_or_default();
    match mutate::mutated(pod, rules, seed) {
        Ok(wanted) => (Verdict::default(), mutate::patch(pod, &wanted)),
        Err(error) => (Verdict::refused(error), Vec::new()),
    }
}

/// The pod with its namespace, which it may leave out.
fn placed(request: &Value, pod: &Value) -> Value {
    let mut pod = pod.clone();
    if pod["metadata"]["namespace"].is_null() {
        pod["metadata"]["namespace"] = request["namespace"].clone();
    }
    pod
}

fn response(uid: &Value, verdict: &Verdict, patch: &[Value]) -> Value {
    let mut response = json!({"uid": uid, "allowed": verdict.refused.is_none()});
    if let Some(why) = &verdict.refused {
        response["status"] = json!({"code": 403, "reason": "Forbidden", "message": why});
    }
    if !verdict.warnings.is_empty() {
        response["warnings"] = json!(verdict.warnings);
    }
    if !patch.is_empty() {
        let bytes = ByteString(json!(patch).to_string().into_bytes());
        response["patchType"] = "JSONPatch".into();
        response["patch"] = json!(bytes);
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, request: &Value) -> Value {
        let rules = PodRules { gpu_sharing: true, ..PodRules::default() };
        let answer = answer(
            path,
            &json!({"request": request}),
            &Known { scheduler: "kai-scheduler", rules: &rules, queues: None },
        );
        answer.expect("a known path")["response"].clone()
    }

    fn pod(scheduler: &str) -> Value {
        json!({
            "metadata": {"name": "p", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "c"}]},
        })
    }

    #[test]
    fn our_pods_are_changed_and_others_are_not() {
        let request = |scheduler: &str| json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": pod(scheduler)});
        let ours = ask(paths::MUTATE_POD_PATH, &request("kai-scheduler"));
        let patch: ByteString = serde_json::from_value(ours["patch"].clone()).expect("base64");
        let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
        assert_eq!(patch[0]["path"], "/metadata/annotations");
        assert_eq!((&ours["uid"], &ours["allowed"]), (&json!("u"), &json!(true)));
        let others = ask(paths::MUTATE_POD_PATH, &request("default-scheduler"));
        assert_eq!(others, json!({"uid": "u", "allowed": true}));
    }

    #[test]
    fn a_refusal_says_why() {
        let mut bad = pod("kai-scheduler");
        bad["metadata"]["annotations"]["gpu-fraction"] = json!("2");
        let told = ask(
            paths::VALIDATE_POD_PATH,
            &json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": bad}),
        );
        assert_eq!(told["allowed"], false);
        assert_eq!(
            told["status"]["message"],
            "gpu-fraction annotation value must be a positive number smaller than 1.0"
        );
        let mut lost = pod("kai-scheduler");
        lost["metadata"]["namespace"] = json!("b");
        let told = ask(
            paths::MUTATE_POD_PATH,
            &json!({"uid": "u", "operation": "CREATE", "namespace": "a", "object": lost}),
        );
        assert_eq!(
            told["status"]["message"],
            "error: the namespace from the provided object b does not match the namespace a"
        );
    }

    #[test]
    fn there_are_no_other_paths() {
        let rules = PodRules::default();
        let known = Known { scheduler: "s", rules: &rules, queues: None };
        assert_eq!(answer("/else", &json!({}), &known), None);
    }
}
