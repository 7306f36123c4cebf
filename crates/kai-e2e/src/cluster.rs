//! What a cluster must offer so that cases can be run on it.

use std::any::Any;
use std::pin::Pin;

use futures::Future;
use kube::Client;

/// A future on the heap.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that runs until it is dropped.
pub type Running = Box<dyn Any + Send>;

/// A cluster with everything of ours installed.
pub trait Cluster: Send + Sync {
    /// A client that may do everything.
    fn client(&self) -> Client;

    /// Starts `kai run` with the rights it is shipped with and these arguments.
    fn start_kai<'a>(&'a self, arguments: &'a [String]) -> Answer<'a, anyhow::Result<Running>>;
}
