//! Requests over several connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, anyhow};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::objects::{
    NAMESPACE, RESERVATIONS, binding, eviction, node_name, reservation, shared_binding,
    shared_config_map,
};

/// Sends one request; returns the body of the answer.
pub(crate) async fn send(
    client: &Client,
    method: &str,
    path: &str,
    kind: &'static str,
    body: &Value,
) -> anyhow::Result<Value> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(serde_json::to_vec(body)?)?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => anyhow!("{method} {path}: {}", status.message),
        other => anyhow!(other).context(format!("{method} {path}")),
    })
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Binds that are sent at a time by a client that binds what it is shown: as many as kai's.
const BINDS_AT_ONCE: usize = 96;

/// Path of all pods that are measured.
pub(crate) fn pods_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

/// Connections of the load client.
#[derive(Clone)]
pub(crate) struct Load {
    clients: Arc<Vec<Client>>,
}

/// When each pod was created, and when the load client bound it, if it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Created {
    pub(crate) created: BTreeMap<String, Instant>,
    pub(crate) bound: BTreeMap<String, Instant>,
}

impl Created {
    /// Pods by name, each with the moments of its create and of its bind.
    fn of(pods: Vec<(String, Instant, Instant)>) -> Self {
        let mut all = Self::default();
        for (name, created, bound) in pods {
            all.created.insert(name.clone(), created);
            all.bound.insert(name, bound);
        }
        all
    }
}

impl Load {
    pub(crate) fn new(clients: Vec<Client>) -> Self {
        Self { clients: Arc::new(clients) }
    }

    /// Does something with every object, as many at once as there are connections.
    async fn each<T, F>(
        &self,
        objects: Vec<Value>,
        work: impl Fn(Client, usize, Value) -> F + Clone + Send + 'static,
    ) -> anyhow::Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<T>> + Send,
    {
        let (objects, next) = (Arc::new(objects), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for client in self.clients.iter() {
            let client = client.clone();
            let (objects, next, work) = (Arc::clone(&objects), Arc::clone(&next), work.clone());
            tasks.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(object) = objects.get(at) else { return anyhow::Ok(done) };
                    done.push(work(client.clone(), at, object.clone()).await?);
                }
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            all.extend(ended.context("a load task ended early")??);
        }
        Ok(all)
    }

    /// Creates objects over all connections of the load client in parallel.
    pub(crate) async fn create(&self, path: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        let path = path.to_owned();
        let create = move |client: Client, _, object: Value| {
            let path = path.clone();
            async move { send(&client, "POST", &path, JSON, &object).await.map(|_| ()) }
        };
        self.each(objects, create).await.map(|_| ())
    }

    /// Creates pods and says when.
    pub(crate) async fn create_pods(&self, pods: Vec<Value>) -> anyhow::Result<Created> {
        let create = |client: Client, _, pod: Value| async move {
            let begin = Instant::now();
            send(&client, "POST", &pods_path(), JSON, &pod).await?;
            Ok((name(&pod), begin))
        };
        let created = self.each(pods, create).await?;
        Ok(Created { created: created.into_iter().collect(), bound: BTreeMap::new() })
    }

    /// Creates pods and binds each at once to the node of its number: what the API server can do.
    pub(crate) async fn create_and_bind(
        &self,
        pods: Vec<Value>,
        nodes: usize,
    ) -> anyhow::Result<Created> {
        let create = move |client: Client, at: usize, pod: Value| async move {
            let begin = Instant::now();
            send(&client, "POST", &pods_path(), JSON, &pod).await?;
            let name = name(&pod);
            bind(&client, &name, &node_name(at % nodes)).await?;
            Ok((name, begin, Instant::now()))
        };
        Ok(Created::of(self.each(pods, create).await?))
    }

    /// Creates pods and binds each once the watch shows it, `BINDS_AT_ONCE` at a time: what a scheduler can do that needs no time to plan.
    pub(crate) async fn create_and_bind_shown(
        &self,
        pods: Vec<Value>,
        nodes: usize,
        binder: Client,
        mut shown: UnboundedReceiver<String>,
    ) -> anyhow::Result<Created> {
        let count = pods.len();
        let binds = tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(BINDS_AT_ONCE));
            let mut tasks = JoinSet::new();
            for at in 0..count {
                let name = shown.recv().await.context("the watch ended")?;
                let slot = Arc::clone(&slots).acquire_owned().await?;
                let client = binder.clone();
                tasks.spawn(async move {
                    let _slot = slot;
                    bind(&client, &name, &node_name(at % nodes)).await
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        });
        let created = self.create_pods(pods).await?;
        binds.await??;
        Ok(created)
    }

    /// Binds pods to the nodes in turn, as many at once as there are connections.
    pub(crate) async fn bind(&self, pods: &[Value], nodes: usize) -> anyhow::Result<()> {
        let bind = move |client: Client, at: usize, pod: Value| async move {
            bind(&client, &name(&pod), &node_name(at % nodes)).await
        };
        self.each(pods.to_vec(), bind).await.map(|_| ())
    }

    /// Creates half-GPU pods and binds each at once, two to a device, with the writes that a binder needs: what the API server can do.
    /// The device of a reservation pod is not waited for.
    pub(crate) async fn create_and_bind_halves(
        &self,
        pods: Vec<Value>,
        nodes: usize,
    ) -> anyhow::Result<Created> {
        let create = move |client: Client, at: usize, pod: Value| async move {
            let (node, group) = (node_name(at / 2 % nodes), format!("group-{:06}", at / 2));
            if at.is_multiple_of(2) {
                let path = format!("/api/v1/namespaces/{RESERVATIONS}/pods");
                send(&client, "POST", &path, JSON, &reservation(&group, &node)).await?;
            }
            let begin = Instant::now();
            let created = send(&client, "POST", &pods_path(), JSON, &pod).await?;
            let (name, uid) = (name(&pod), created["metadata"]["uid"].as_str().unwrap_or_default());
            let map = shared_config_map(&name, uid, &group);
            let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
            send(&client, "POST", &maps, JSON, &map).await?;
            let path = format!("{}/{name}/binding", pods_path());
            send(&client, "POST", &path, JSON, &shared_binding(&name, &node, &group)).await?;
            Ok((name, begin, Instant::now()))
        };
        Ok(Created::of(self.each(pods, create).await?))
    }

    /// Evicts pods, as many at once as there are connections.
    pub(crate) async fn evict(&self, pods: &[String]) -> anyhow::Result<()> {
        let bodies = pods.iter().map(|pod| eviction(pod)).collect();
        let evict = |client: Client, _, body: Value| async move {
            let path = format!("{}/{}/eviction", pods_path(), name(&body));
            send(&client, "POST", &path, JSON, &body).await.map(|_| ())
        };
        self.each(bodies, evict).await.map(|_| ())
    }

    /// Removes all pods and reservation pods at once, without a word to their kubelets.
    pub(crate) async fn remove_pods(&self) -> anyhow::Result<()> {
        let Some(client) = self.clients.first() else { return Ok(()) };
        let options = json!({"gracePeriodSeconds": 0});
        let reservations = format!("/api/v1/namespaces/{RESERVATIONS}/pods");
        for path in [pods_path(), reservations] {
            send(client, "DELETE", &path, JSON, &options).await?;
        }
        Ok(())
    }
}

async fn bind(client: &Client, pod: &str, node: &str) -> anyhow::Result<()> {
    let path = format!("{}/{pod}/binding", pods_path());
    send(client, "POST", &path, JSON, &binding(pod, node)).await.map(|_| ())
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
