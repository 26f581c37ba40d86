//! Requests, from their head to their answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::guard::{self, Guard, Refusal};
use super::lobby::Visitor;
use super::seats::{Seats, SessionLimits};
use super::tokens::Owner;
use crate::{Host, Server};

/// The header that names a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The most values of a body: as a tree, small ones take a hundred times the memory of their text.
const MOST_VALUES: usize = 100_000;
/// How long an answer is kept for a client that lost its connection.
const KEPT_ANSWERS: Duration = Duration::from_secs(10);

type Answer = Response<BoxBody<Bytes, Infallible>>;

pub(super) struct Requests {
    guard: Guard,
    seats: Seats,
    manager: Arc<LocalSessionManager>,
    service: StreamableHttpService<Server, LocalSessionManager>,
    longest_body: usize,
    patience: Duration,
}

impl Requests {
    pub(super) fn new(
        host: Arc<Host>,
        guard: Guard,
        limits: SessionLimits,
        longest_body: usize,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Self {
        let mut manager = LocalSessionManager::default();
        // The seats know when a session is over; a call that says nothing for a while is not the end of one.
        manager.session_config.keep_alive = None;
        manager.session_config.completed_cache_ttl = KEPT_ANSWERS;
        let manager = Arc::new(manager);
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(longest_body)
            // The guard is stricter.
            .disable_allowed_hosts();
        let service =
            StreamableHttpService::new(move || Ok(Server::in_session(Arc::clone(&host))), Arc::clone(&manager), config);
        Self { guard, seats: Seats::new(limits), manager, service, longest_body, patience }
    }

    /// Answers, whatever was asked.
    pub(super) async fn answer(self: &Arc<Self>, request: Request<Incoming>, visitor: &Visitor) -> Answer {
        let full = Refusal { status: StatusCode::SERVICE_UNAVAILABLE, why: "there are too many connections" };
        let (parts, body) = request.into_parts();
        let answered = async {
            let owner = self.guard.check(&parts)?;
            visitor.admit().then_some(()).ok_or(full)?;
            let body = self.body(&parts, body).await?;
            self.route(owner, parts, body).await
        };
        answered.await.unwrap_or_else(|refusal| refuse(&refusal))
    }

    async fn body(&self, parts: &Parts, body: Incoming) -> Result<Bytes, Refusal> {
        let too_long = Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, why: "the body is too long" };
        if parts.method != Method::POST {
            return Ok(Bytes::new());
        }
        if usize::try_from(body.size_hint().lower()).is_ok_and(|length| length > self.longest_body) {
            return Err(too_long);
        }
        let read = tokio::time::timeout(self.patience, Limited::new(body, self.longest_body).collect()).await;
        let body = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long),
            Ok(Err(_)) => return Err(Refusal { status: StatusCode::BAD_REQUEST, why: "the body broke off" }),
            Err(_) => return Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, why: "the body took too long" }),
        };
        match serde_json::from_slice::<IgnoredAny>(&body) {
            Ok(_) if values(&body) > MOST_VALUES => {
                Err(Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, why: "the body has too many values" })
            }
            Ok(_) => Ok(body),
            Err(_) => Err(Refusal { status: StatusCode::BAD_REQUEST, why: "the body is not JSON" }),
        }
    }

    async fn route(self: &Arc<Self>, owner: Owner, parts: Parts, body: Bytes) -> Result<Answer, Refusal> {
        let unknown = Refusal { status: StatusCode::NOT_FOUND, why: "there is no such session" };
        if !parts.headers.contains_key(SESSION) {
            return self.begin(owner, parts, body).await;
        }
        let id =
            guard::only(&parts.headers, &SESSION).filter(|id| self.seats.admit(id, owner)).ok_or(unknown)?.to_owned();
        if parts.method == Method::DELETE {
            self.end(&id).await;
            let mut answer = Response::new(Full::default().boxed());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            return Ok(answer);
        }
        let answer = self.pass(parts, body).await;
        // A method that does not exist can be the reason too.
        if answer.status() == StatusCode::NOT_FOUND && !self.is_alive(&id).await {
            self.end(&id).await;
        }
        Ok(answer)
    }

    /// What comes without a session can begin one, if there is a place for it.
    async fn begin(self: &Arc<Self>, owner: Owner, mut parts: Parts, body: Bytes) -> Result<Answer, Refusal> {
        let full = Refusal { status: StatusCode::SERVICE_UNAVAILABLE, why: "there are too many sessions; end one" };
        let lost = Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, why: "the session could not begin" };
        let seat = self.seats.reserve(owner).ok_or(full)?;
        parts.extensions.insert(Arc::clone(&seat));
        let (tell, told) = oneshot::channel();
        let requests = Arc::clone(self);
        // In a task of its own: this future is dropped when the client goes away, and what rmcp has begun by then has to end.
        tokio::spawn(async move {
            let answer = requests.pass(parts, body).await;
            let id = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
            if let Some(id) = &id {
                requests.seats.occupy(id, seat);
            }
            if let (Err(_), Some(id)) = (tell.send(answer), &id) {
                requests.end(id).await;
            }
        });
        told.await.map_err(|_| lost)
    }

    async fn pass(&self, parts: Parts, body: Bytes) -> Answer {
        let no_message =
            Refusal { status: StatusCode::BAD_REQUEST, why: "the body is not one message of the protocol" };
        let mut answer = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        // The guard has seen the type of the body: this is about what is in it.
        if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return refuse(&no_message);
        }
        if answer.status().is_client_error() || answer.status().is_server_error() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// Whether rmcp has not given this session up by itself.
    async fn is_alive(&self, id: &str) -> bool {
        self.manager.has_session(&id.into()).await.unwrap_or(false)
    }

    /// Ends sessions whose time is over, for ever.
    pub(super) async fn end_sessions(&self) {
        loop {
            tokio::time::sleep(self.seats.interval()).await;
            for id in self.seats.over() {
                self.end(&id).await;
            }
        }
    }

    /// Ends all of them.
    pub(super) async fn close(&self) {
        for id in self.seats.all() {
            self.end(&id).await;
        }
    }

    /// Ends one, and waits for the end of its box.
    async fn end(&self, id: &str) {
        let Some(seat) = self.seats.vacate(id) else { return };
        let (manager, id) = (Arc::clone(&self.manager), id.to_owned());
        // In a task of its own: the session ends also if whoever asked for that does not wait.
        let box_ended = tokio::spawn(async move {
            // Calls that run end first: rmcp would wait for them.
            seat.close().await;
            // A client that does not read its stream can hold this up.
            tokio::spawn(async move { manager.close_session(&id.into()).await });
        });
        let _ = box_ended.await;
    }
}

/// How many values a text has that is JSON.
fn values(json: &[u8]) -> usize {
    let (mut values, mut quoted, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    values
}

/// A refusal as JSON-RPC has it, and the end of the connection. No header of it grants anything to a page.
fn refuse(refusal: &Refusal) -> Answer {
    let message = json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": refusal.why } });
    let mut answer = Response::new(Full::new(Bytes::from(message.to_string())).boxed());
    *answer.status_mut() = refusal.status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let more = match refusal.status {
        StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "POST, GET, DELETE")),
        StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "30")),
        _ => None,
    };
    if let Some((name, value)) = more {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
