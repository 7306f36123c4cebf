//! Binding and eviction of pods.

use std::sync::Arc;

use kai_api::names::status;
use serde_json::{Value, json};

use super::Subject;
use super::delete::DeleteOptions;
use super::request::{Answer, Request};
use super::write::{Part, Writer, check_preconditions};
use crate::cluster::Cluster;
use crate::controllers::budget;
use crate::failure::{Failure, FieldFault};
use crate::object::{
    self, at, entries, field, is_terminating, items, moment, name, namespace, text, uid,
};
use crate::store::ResourceId;

fn success() -> Answer {
    Answer::object(
        201,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

impl Cluster {
    /// Places a pod on a node. Labels and annotations of the binding become the pod's.
    pub(super) fn bind(
        &mut self,
        request: &Request,
        subject: &Subject,
        pod_name: &str,
    ) -> Result<Answer, Failure> {
        let binding = request.object()?;
        let node = text(at(&binding, &["target", "name"]));
        let bindings = ResourceId::new("", "pods/binding");
        if node.is_empty() {
            let fault = FieldFault::required("target.name", "");
            return Err(Failure::invalid(&bindings, "Binding", pod_name, &[fault]));
        }
        let pod = self.find(subject, pod_name)?;
        let reject = |why: String| Err(Failure::conflict(&bindings, pod_name, &why));
        check_preconditions(&subject.resource, &pod, "", uid(&binding))?;
        if is_terminating(&pod) {
            return reject(format!(
                "pod {pod_name} is being deleted, cannot be assigned to a host"
            ));
        }
        let placed = text(at(&pod, &["spec", "nodeName"]));
        if !placed.is_empty() {
            return reject(format!("pod {pod_name} is already assigned to node {placed:?}"));
        }
        if items(at(&pod, &["spec", "schedulingGates"])).next().is_some() {
            return reject(format!("pod {pod_name} has non-empty .spec.schedulingGates"));
        }
        let mut bound = Value::clone(&pod);
        object::set(&mut bound, &["spec", "nodeName"], node.into());
        for part in ["labels", "annotations"] {
            for (key, value) in entries(at(&binding, &["metadata", part])) {
                object::set(&mut bound, &["metadata", part, key], value.into());
            }
        }
        object::set_condition(&mut bound, "PodScheduled", true, "", "", self.now);
        if request.query.get("dryRun") != Some("All") {
            self.store.put(&subject.resource.id, bound);
        }
        Ok(success())
    }

    /// Deletes a pod unless a budget forbids it for now.
    pub(super) fn evict(
        &mut self,
        request: &Request,
        subject: &Subject,
        pod_name: &str,
    ) -> Result<Answer, Failure> {
        let eviction = request.object()?;
        let options = DeleteOptions::read(field(&eviction, "deleteOptions"));
        let pod = self.find(subject, pod_name)?;
        check_preconditions(&subject.resource, &pod, &options.version, &options.uid)?;
        let phase = text(at(&pod, &["status", "phase"]));
        let counts = !is_terminating(&pod) && !matches!(phase, "Succeeded" | "Failed" | "Pending");
        if counts {
            self.spend_budget(&pod)?;
        }
        let pod = self.find(subject, pod_name)?;
        let mut marked = Value::clone(&pod);
        object::set_condition(
            &mut marked,
            status::DISRUPTION_TARGET,
            true,
            "EvictionByEvictionAPI",
            "Eviction API: evicting",
            self.now,
        );
        let writer = Writer { subresource: "status", ..Writer::named("kube-apiserver") };
        object::remove(&mut marked, &["metadata", "resourceVersion"]);
        self.update(&subject.resource, marked, Part::Status, &writer)?;
        self.delete(
            &subject.resource,
            &subject.key(pod_name),
            &DeleteOptions { version: String::new(), ..options },
        )?;
        Ok(success())
    }

    /// Takes one disruption from the budget of a pod.
    fn spend_budget(&mut self, pod: &Value) -> Result<(), Failure> {
        let budgets: Vec<Arc<Value>> = budget::of_pod(self, pod);
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(Failure::several_budgets());
            }
        };
        let status = field(budget, "status");
        let number = |key: &str| status[key].as_i64().unwrap_or_default();
        let ready = object::has_condition(pod, "Ready");
        let healthy_enough =
            number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        let always = *at(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if !ready && (always || healthy_enough) {
            return Ok(());
        }
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            return Err(Failure::budget(
                name(budget),
                number("currentHealthy"),
                number("desiredHealthy"),
            ));
        }
        let mut spent = Value::clone(budget);
        object::set(&mut spent, &["status", "disruptionsAllowed"], json!(allowed - 1));
        let evicted_at = moment(self.now);
        object::set(&mut spent, &["status", "disruptedPods", name(pod)], evicted_at);
        debug_assert_eq!(namespace(&spent), namespace(pod));
        self.store.put(&budget::id(), spent);
        Ok(())
    }
}
