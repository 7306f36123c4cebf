//! `kai run` on an embedded cluster: the same arguments and the same code, over a client without a connection.

use clap::Parser;
use kai_client::env::Env;
use kai_embed::api::ReceivedFields;
use kai_embed::service::Embedded;
use kube::Client;

use super::admission;
use crate::run::{RunArguments, admission_of, start_beside};

/// What follows `kai run` on a command line.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    arguments: RunArguments,
}

/// Starts it; it ends with what `env` spawned.
pub(crate) fn start(embedded: &Embedded, env: &Env, arguments: &[String]) -> anyhow::Result<()> {
    let line = Line::try_parse_from(arguments)?;
    if let Some(settings) = admission_of(&line.arguments)? {
        embedded.with(|cluster, _| admission::start(cluster, &settings))?;
    }
    // `kai` drops the managers of what it observes.
    let service = embedded.clone().with_received_fields(ReceivedFields::WithoutManagers);
    start_beside(line.arguments, Client::new(service, "default"), env)
}
