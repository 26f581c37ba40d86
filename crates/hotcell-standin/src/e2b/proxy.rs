//! The way to what is in a sandbox.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;

use super::state::Cloud;
use crate::envd::{INTERPRETER_PORT, PORT, PORT_HEADER};
use crate::reply;

/// Passes on what names a sandbox.
pub(super) async fn pass_on(State(cloud): State<Arc<Cloud>>, mut request: Request, next: Next) -> Response {
    let Some((id, port)) = target(request.headers()) else { return next.run(request).await };
    let Some(envd) = cloud.address(&id).await else {
        let body = json!({ "sandboxId": id, "message": "The sandbox was not found", "code": 502 });
        return reply::json(StatusCode::BAD_GATEWAY, &body);
    };
    // What sandboxes listen on, they listen on here.
    let inside = if [PORT, INTERPRETER_PORT].contains(&port) { envd.port() } else { port };
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let Ok(uri) = format!("http://127.0.0.1:{inside}{path}").parse::<Uri>() else {
        return reply::empty(StatusCode::BAD_REQUEST);
    };
    *request.uri_mut() = uri;
    if let Ok(port) = port.to_string().parse() {
        request.headers_mut().insert(PORT_HEADER, port);
    }
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
    match client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(_) => {
            let message = "The sandbox is running but port is not open";
            let body = json!({ "sandboxId": id, "message": message, "port": port, "code": 502 });
            reply::json(StatusCode::BAD_GATEWAY, &body)
        }
    }
}

/// The sandbox and the port that a request is for, by its headers or by the name of its host.
fn target(headers: &HeaderMap) -> Option<(String, u16)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let (Some(id), Some(port)) = (text("e2b-sandbox-id"), text(PORT_HEADER)) {
        return Some((id.to_owned(), port.parse().ok()?));
    }
    let (port, rest) = text(HOST.as_str())?.split_once('.')?.0.split_once('-')?;
    let id = rest.split('-').next()?;
    Some((id.to_owned(), port.parse().ok()?))
}
