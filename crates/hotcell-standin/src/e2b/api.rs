//! The control plane, in both of its versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{Cloud, Create};
use super::{proxy, wire};
use crate::query::Query;
use crate::reply;

type Shared = State<Arc<Cloud>>;

/// As long as the real one allows by default.
const LONGEST: u64 = 24 * 60 * 60;
const PAGE: usize = 100;

pub(super) fn router(cloud: &Arc<Cloud>) -> Router {
    tokio::spawn(Arc::clone(cloud).watch());
    let mut api = Router::new()
        .route("/sandboxes", get(list_v1).post(create_v1))
        .route("/sandboxes/{id}", get(detail).delete(remove))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(resume))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/metrics", get(metrics));
    if cloud.v1_only {
        api = api.route("/v2/sandboxes", get(list));
    } else {
        api = api.route("/v2/sandboxes", get(list).post(create_v2)).route("/v2/sandboxes/{id}/connect", post(connect));
    }
    api.layer(middleware::from_fn_with_state(Arc::clone(cloud), check_key))
        .route("/health", get(|| async { reply::empty(StatusCode::NO_CONTENT) }))
        .fallback(|| async { fault(StatusCode::NOT_FOUND, "route not found") })
        .layer(middleware::from_fn_with_state(Arc::clone(cloud), proxy::pass_on))
        .with_state(Arc::clone(cloud))
}

fn fault(status: StatusCode, message: &str) -> Response {
    reply::json(status, &json!({ "code": status.as_u16(), "message": message }))
}

fn unknown(id: &str) -> Response {
    fault(StatusCode::NOT_FOUND, &format!("sandbox \"{id}\" doesn't exist or you don't have access to it"))
}

async fn check_key(State(cloud): Shared, request: Request, next: Next) -> Response {
    match request.headers().get("x-api-key").map(|key| key.as_bytes()) {
        Some(key) if key == cloud.key.as_bytes() => next.run(request).await,
        Some(_) => fault(
            StatusCode::UNAUTHORIZED,
            "Invalid API key, please visit https://e2b.dev/docs/api-key for more information.\nCannot get the team \
             for the given API key",
        ),
        None => fault(StatusCode::UNAUTHORIZED, "authorization header is missing"),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSandbox {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    #[serde(default)]
    auto_pause: bool,
    #[serde(default)]
    secure: bool,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
}

async fn create_v1(State(cloud): Shared, body: Bytes) -> Response {
    create(&cloud, &body, 15, false).await
}

async fn create_v2(State(cloud): Shared, body: Bytes) -> Response {
    create(&cloud, &body, 300, true).await
}

async fn create(cloud: &Cloud, body: &Bytes, usual_timeout: u64, secure: bool) -> Response {
    let new: NewSandbox = match serde_json::from_slice(body) {
        Ok(new) => new,
        Err(error) => return fault(StatusCode::BAD_REQUEST, &format!("Error when parsing request: {error}")),
    };
    let timeout = new.timeout.unwrap_or(usual_timeout);
    if timeout > LONGEST {
        return too_long();
    }
    let create = Create {
        template: new.template,
        timeout: Duration::from_secs(timeout),
        auto_pause: new.auto_pause,
        secure: secure || new.secure,
        metadata: new.metadata.unwrap_or_default(),
        variables: new.env_vars.unwrap_or_default(),
    };
    match cloud.create(create).await {
        Ok(facts) => reply::json(StatusCode::CREATED, &wire::created(&facts)),
        Err(error) => fault(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
    }
}

fn too_long() -> Response {
    fault(StatusCode::BAD_REQUEST, &format!("Timeout cannot be greater than {} hours", LONGEST / 3600))
}

/// A number of seconds in a body that may be empty.
fn seconds(body: &[u8], name: &str) -> Option<u64> {
    serde_json::from_slice::<Value>(body).ok().and_then(|body| body[name].as_u64())
}

async fn connect(State(cloud): Shared, Path(id): Path<String>, body: Bytes) -> Response {
    let ends = SystemTime::now() + Duration::from_secs(seconds(&body, "timeout").unwrap_or(300));
    let changed = cloud.change(&id, |facts| {
        let was_paused = std::mem::take(&mut facts.paused);
        // Connecting never takes time away.
        facts.ends = if was_paused { ends } else { facts.ends.max(ends) };
        (was_paused, facts.clone())
    });
    match changed.await {
        Some((true, facts)) => reply::json(StatusCode::CREATED, &wire::created(&facts)),
        Some((false, facts)) => reply::json(StatusCode::OK, &wire::created(&facts)),
        None => unknown(&id),
    }
}

async fn resume(State(cloud): Shared, Path(id): Path<String>, body: Bytes) -> Response {
    let ends = SystemTime::now() + Duration::from_secs(seconds(&body, "timeout").unwrap_or(15));
    let changed = cloud.change(&id, |facts| {
        let was_paused = std::mem::take(&mut facts.paused);
        if was_paused {
            facts.ends = ends;
        }
        (was_paused, facts.clone())
    });
    match changed.await {
        Some((true, facts)) => reply::json(StatusCode::CREATED, &wire::created(&facts)),
        Some((false, _)) => fault(StatusCode::CONFLICT, &format!("Sandbox {id} is already running")),
        None => unknown(&id),
    }
}

/// The state is all that changes: a sandbox that is paused cannot be reached, but its processes are not stopped.
async fn pause(State(cloud): Shared, Path(id): Path<String>) -> Response {
    match cloud.change(&id, |facts| std::mem::replace(&mut facts.paused, true)).await {
        Some(false) => reply::empty(StatusCode::NO_CONTENT),
        Some(true) => fault(StatusCode::CONFLICT, &format!("Sandbox '{id}' cannot be paused while in 'paused' state")),
        None => unknown(&id),
    }
}

async fn timeout(State(cloud): Shared, Path(id): Path<String>, body: Bytes) -> Response {
    let Some(timeout) = seconds(&body, "timeout") else {
        return fault(StatusCode::BAD_REQUEST, "Error when parsing request: property \"timeout\" is missing");
    };
    if timeout > LONGEST {
        return too_long();
    }
    let ends = SystemTime::now() + Duration::from_secs(timeout);
    match cloud.change(&id, |facts| facts.ends = ends).await {
        Some(()) => reply::empty(StatusCode::NO_CONTENT),
        None => unknown(&id),
    }
}

async fn refresh(State(cloud): Shared, Path(id): Path<String>, body: Bytes) -> Response {
    let ends = SystemTime::now() + Duration::from_secs(seconds(&body, "duration").unwrap_or(15));
    match cloud.change(&id, |facts| facts.ends = facts.ends.max(ends)).await {
        Some(()) => reply::empty(StatusCode::NO_CONTENT),
        None => unknown(&id),
    }
}

async fn detail(State(cloud): Shared, Path(id): Path<String>) -> Response {
    match cloud.get(&id).await {
        Some(facts) => reply::json(StatusCode::OK, &wire::detailed(&facts)),
        None => unknown(&id),
    }
}

async fn remove(State(cloud): Shared, Path(id): Path<String>) -> Response {
    if cloud.remove(&id).await { reply::empty(StatusCode::NO_CONTENT) } else { unknown(&id) }
}

async fn metrics(State(cloud): Shared, Path(id): Path<String>) -> Response {
    match cloud.get(&id).await {
        Some(_) => reply::json(StatusCode::OK, &json!([wire::metric()])),
        None => unknown(&id),
    }
}

async fn list_v1(State(cloud): Shared, query: Query) -> Response {
    let found = found(&cloud, &query).await;
    let running = found.iter().filter(|facts| !facts.paused).map(wire::listed);
    reply::json(StatusCode::OK, &running.collect::<Vec<_>>())
}

/// A page of sandboxes, the youngest first; the next page is asked for with what the header says.
async fn list(State(cloud): Shared, query: Query) -> Response {
    let mut found = found(&cloud, &query).await;
    let states: Vec<&str> = query.all("state").flat_map(|states| states.split(',')).collect();
    found.retain(|facts| states.is_empty() || states.contains(&if facts.paused { "paused" } else { "running" }));
    let limit = query.said("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE).clamp(1, PAGE);
    let from = query.said("nextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
    let page: Vec<Value> = found.iter().skip(from).take(limit).map(wire::listed).collect();
    let response = reply::json(StatusCode::OK, &page);
    if from + limit < found.len() {
        return reply::with_headers(response, &[("x-next-token", &(from + limit).to_string())]);
    }
    response
}

/// Those that have all the metadata that is asked for, which is a query inside of the query.
async fn found(cloud: &Cloud, query: &Query) -> Vec<super::sandbox::Facts> {
    let wanted = Query::parse(query.said("metadata").unwrap_or_default());
    let mut found = cloud.all().await;
    // Names and values are encoded once more by the SDK.
    let plain = |text: &str| Query::parse(&format!("x={}", text.replace('+', "%2B"))).get("x").map(str::to_owned);
    found.retain(|facts| {
        wanted.pairs().all(|(name, value)| {
            let (Some(name), Some(value)) = (plain(name), plain(value)) else { return false };
            facts.metadata.get(&name) == Some(&value)
        })
    });
    found.sort_by_key(|facts| std::cmp::Reverse(facts.started));
    found
}
