//! What may happen to `kai` as a whole while pods of every kind are bound. Afterwards no pod is lost, none is bound twice, no
//! device is over-committed, no gang is split and nothing is leaked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use hyper::body::Frame;
use kai_settings::binder::ReservationSettings;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use crate::QUEUE;
use crate::admission::denial_reason;
use crate::in_process::{DyingKai, InProcessKai};
use crate::pods_of_every_kind::PodsOfEveryKind;
use crate::sharing::{Answer, NodeAgents};
use crate::world::World;

/// More than the writes of any bind.
const MANY: usize = 40;

/// An error response as the API server words it.
pub(crate) fn error_response(code: StatusCode) -> Response<Body> {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::GONE => "Expired",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "a test says so", "code": code.as_u16()});
    let body = Body::from(status.to_string().into_bytes());
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer
}

pub(crate) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// Of every ten writes one fails as a conflict, one for too many requests, one because the server fails, and one is
/// executed and its answer lost. Of every six reads one fails for too many requests and one because the server fails.
fn with_errors(client: Client) -> Client {
    let (reads, writes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let transport = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let (reads, writes) = (Arc::clone(&reads), Arc::clone(&writes));
        async move {
            if request.method() == Method::GET {
                return match reads.fetch_add(1, Ordering::SeqCst) % 6 {
                    1 => Ok(error_response(StatusCode::TOO_MANY_REQUESTS)),
                    4 => Ok(error_response(StatusCode::INTERNAL_SERVER_ERROR)),
                    _ => client.send(request).await.map_err(BoxError::from),
                };
            }
            match writes.fetch_add(1, Ordering::SeqCst) % 10 {
                0 => Ok(error_response(StatusCode::CONFLICT)),
                3 => Ok(error_response(StatusCode::TOO_MANY_REQUESTS)),
                5 => Ok(error_response(StatusCode::INTERNAL_SERVER_ERROR)),
                8 => {
                    client.send(request).await.map_err(BoxError::from)?;
                    Ok(error_response(StatusCode::INTERNAL_SERVER_ERROR))
                }
                _ => client.send(request).await.map_err(BoxError::from),
            }
        }
    });
    Client::new(transport, "default")
}

#[tokio::test]
async fn rejected_requests_and_lost_answers_are_survived() {
    let Some(world) = World::new("rejecting").await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    PodsOfEveryKind::prepare(&world).await;
    let _kai = InProcessKai::start(&world, ReservationSettings::default(), with_errors).await;
    let all_kinds = PodsOfEveryKind::create(&world).await;
    all_kinds.assert_sound(&world).await;
    all_kinds.assert_nothing_left(&world).await;
}

/// An answer in one piece.
fn whole(answer: Response<Body>) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
}

fn is_streamed_list(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("sendInitialEvents=true"))
}

/// The bookmark behind a streamed list.
const LIST_END: &[u8] = b"k8s.io/initial-events-end";

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The list, if there is one, and the events behind it up to the first moment at which all that arrived is whole events. Chunks
/// of a busy connection end anywhere; half an event would be an error of the server, which the client answers with delays.
fn until_first_event<S, E>(chunks: S, is_listed: bool) -> impl Stream<Item = Result<Bytes, E>>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    /// What is left to pass on of a watch.
    enum Rest {
        /// The list; the bytes of it that may hold the beginning of the bookmark.
        List(Vec<u8>),
        FirstEvent,
        Nothing,
    }
    let rest = if is_listed { Rest::FirstEvent } else { Rest::List(Vec::new()) };
    futures::stream::unfold((chunks, rest), async |(mut chunks, rest)| {
        if matches!(rest, Rest::Nothing) {
            return None;
        }
        let chunk = chunks.next().await?;
        let bytes = chunk.as_deref().unwrap_or_default();
        let rest = match rest {
            Rest::List(mut seam) => {
                seam.extend_from_slice(bytes);
                if contains(&seam, LIST_END) {
                    Rest::FirstEvent
                } else {
                    let kept = seam.len().saturating_sub(LIST_END.len());
                    Rest::List(seam.split_off(kept))
                }
            }
            _ if bytes.ends_with(b"\n") => Rest::Nothing,
            rest => rest,
        };
        Some((chunk, (chunks, rest)))
    })
}

#[tokio::test]
async fn cuts_come_behind_whole_events() {
    let cut = async |chunks: &[&'static str], is_listed| {
        let chunks = chunks.iter().map(|chunk| Ok::<_, ()>(Bytes::from_static(chunk.as_bytes())));
        let passed = until_first_event(futures::stream::iter(chunks), is_listed);
        let passed: Vec<Bytes> = passed.map(|chunk| chunk.expect("a chunk")).collect().await;
        String::from_utf8(passed.concat()).expect("text")
    };
    assert_eq!(cut(&["{a", "b}\n", "{c}\n"], true).await, "{ab}\n");
    let listed = ["{a}\n", "{k8s.io/initial-", "events-end}\n", "{b}\n", "{c}\n"];
    assert_eq!(cut(&listed, false).await, "{a}\n{k8s.io/initial-events-end}\n{b}\n");
}

/// Every watch is cut after its first event, behind the list that a streamed list starts with; every third one gets 410
/// as if its version had expired. After an event rather than after a moment: on a busy machine the moment passes before
/// the list has arrived, no watch ever begins, and the client's delays grow.
fn cutting(client: Client) -> Client {
    let count = Arc::new(AtomicUsize::new(0));
    let transport = tower::service_fn(move |request: Request<Body>| {
        let (client, count) = (client.clone(), Arc::clone(&count));
        async move {
            if !is_watch(&request) {
                return client.send(request).await.map(whole).map_err(BoxError::from);
            }
            if count.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
                return Ok(whole(error_response(StatusCode::GONE)));
            }
            let is_listed = !is_streamed_list(&request);
            let answer = client.send(request).await?;
            let cut = |body: Body| {
                let chunks = until_first_event(BodyDataStream::new(body), is_listed);
                let frames = chunks.map(|chunk| chunk.map(Frame::data).map_err(BoxError::from));
                StreamBody::new(frames).boxed_unsync()
            };
            Ok::<_, BoxError>(answer.map(cut))
        }
    });
    Client::new(transport, "default")
}

#[tokio::test]
async fn watches_may_be_cut_and_forgotten() {
    let Some(world) = World::new("cutting").await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    PodsOfEveryKind::prepare(&world).await;
    let _kai = InProcessKai::start(&world, ReservationSettings::default(), cutting).await;
    let all_kinds = PodsOfEveryKind::create(&world).await;
    all_kinds.assert_sound(&world).await;
    all_kinds.assert_nothing_left(&world).await;
}

#[tokio::test]
async fn the_api_server_may_restart() {
    let Some(mut world) = World::alone("restarting").await else { return };
    PodsOfEveryKind::prepare(&world).await;
    world.start_kai("kai", &[]).await;
    let all_kinds = PodsOfEveryKind::create(&world).await;
    // No reservation pod reports a device yet: binds are in progress when the server stops.
    world.wait("binds are under way", async || !world.reservations().await.is_empty()).await;
    world.restart_server().await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    all_kinds.assert_sound(&world).await;
    all_kinds.assert_nothing_left(&world).await;
}

/// Writes wait while the flag is set, and then are sent, however late.
fn holding(client: Client, delays_writes: Arc<AtomicBool>, waiting: Arc<AtomicUsize>) -> Client {
    let transport = tower::service_fn(move |request: Request<Body>| {
        let (client, delays_writes, waiting) =
            (client.clone(), Arc::clone(&delays_writes), Arc::clone(&waiting));
        async move {
            if request.method() != Method::GET {
                waiting.fetch_add(1, Ordering::SeqCst);
                while delays_writes.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(transport, "default")
}

/// One that led and was cut off decided something; another has taken over by the time its writes arrive.
#[tokio::test]
async fn two_may_lead_for_a_moment() {
    let Some(mut world) = World::new("leading").await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    PodsOfEveryKind::prepare(&world).await;
    let delays_writes = Arc::new(AtomicBool::new(true));
    let waiting = Arc::new(AtomicUsize::new(0));
    let wrap = {
        let (delays_writes, waiting) = (Arc::clone(&delays_writes), Arc::clone(&waiting));
        move |client| holding(client, delays_writes, waiting)
    };
    let old = InProcessKai::start(&world, ReservationSettings::default(), wrap).await;
    let all_kinds = PodsOfEveryKind::create(&world).await;
    world.wait("the first has decided", async || waiting.load(Ordering::SeqCst) >= 4).await;
    world.start_kai("kai", &[]).await;
    all_kinds.assert_sound(&world).await;
    delays_writes.store(false, Ordering::SeqCst);
    let bound = async || {
        let pods = world.list("/api/v1", "pods").await;
        pods.iter().all(|pod| pod["spec"]["nodeName"].is_string())
    };
    world.stays("all stay bound", Duration::from_secs(2), bound).await;
    drop(old);
    all_kinds.assert_sound(&world).await;
    all_kinds.assert_nothing_left(&world).await;
}

/// New pods and pod groups are denied meanwhile; existing pods are bound without a webhook.
#[tokio::test]
async fn the_webhook_may_be_down() {
    let Some(mut world) = World::alone("unadmitted").await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    PodsOfEveryKind::prepare(&world).await;
    let admission = ["--only", "admission", "--gpu-sharing-enabled"];
    world.start_admitting("admission", &admission).await;
    let all_kinds = PodsOfEveryKind::create(&world).await;
    world.kill_kai();
    let queue = world.queue_name("q");
    let new = world.pod("new", &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
    let pods = format!("/api/v1/namespaces/{}/pods?dryRun=All", world.name);
    world
        .wait("no webhook answers", async || {
            denial_reason(&world, &pods, &new).await.contains("failed calling webhook")
        })
        .await;
    world.start_kai("kai", &[]).await;
    for pod in ["plain-0", "plain-1", "half-0", "half-1", "claims", "laden"] {
        world.wait_bound(pod).await;
    }
    for member in ["job-master-0", "job-worker-0", "job-worker-1"] {
        assert_eq!(world.node_of(member).await, None, "its group cannot be made yet");
    }
    world.start_admitting("admission", &admission).await;
    all_kinds.assert_sound(&world).await;
    all_kinds.assert_nothing_left(&world).await;
}

#[tokio::test]
async fn kai_may_die_between_any_two_writes_of_a_bind_with_claims_and_volumes() {
    let Some(mut world) = World::new("laden").await else { return };
    world.queue("q", crate::open(), crate::open()).await;
    world.devices(1).await;
    for writes in 0..MANY {
        let what = format!("killed after {writes} writes");
        let volume = format!("data-{writes}");
        world.volume(&volume).await;
        let dying = DyingKai::start(&world, writes).await;
        world.create_pod(&world.laden_pod("p", &volume)).await;
        world
            .wait(&format!("{what}, or done"), async || {
                dying.is_dead() || world.node_of("p").await.is_some()
            })
            .await;
        let died = dying.is_dead();
        drop(dying);
        world.start_kai("kai", &[]).await;
        world.wait_bound("p").await;
        let claims = world.claims().await;
        assert_eq!(claims.len(), 1, "{what}");
        let users = claims[0]["status"]["reservedFor"].as_array().map_or(0, Vec::len);
        assert_eq!(users, 1, "{what}: {claims:#?}");
        world.remove_pod("p").await;
        world
            .wait("claims and requests are gone", async || {
                world.claims().await.is_empty() && world.bind_requests().await.is_empty()
            })
            .await;
        world.kill_kai();
        if !died {
            assert!(writes >= 4, "volume, claim twice, bind: {what}");
            return;
        }
    }
    panic!("the bind took more than {MANY} writes");
}
