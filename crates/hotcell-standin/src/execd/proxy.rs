//! `/proxy/PORT/…`: another server in the same sandbox, or execd itself.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower_service::Service;

use super::{Execd, PORT};
use crate::reply;

/// Serves what is asked of itself through the prefix, and passes on what is asked of others.
pub(super) async fn pass_on(
    State((execd, mut routes)): State<(Arc<Execd>, Router)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let Some(rest) = path.strip_prefix("/proxy/") else { return next.run(request).await };
    let (port, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let Ok(port) = port.parse::<u16>() else { return plain(StatusCode::BAD_REQUEST, "port is required\n") };
    let itself = port == PORT || port == execd.port;
    let host = if itself { String::new() } else { format!("http://127.0.0.1:{port}") };
    let Ok(uri) = format!("{host}/{rest}").parse::<Uri>() else { return reply::empty(StatusCode::BAD_REQUEST) };
    *request.uri_mut() = uri;
    if itself {
        return match routes.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
    }
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
    match client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(_) => plain(StatusCode::BAD_GATEWAY, "Bad Gateway\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    reply::with_type(status, "text/plain; charset=utf-8", text)
}
