//! Answers, as the frameworks of the real servers send them.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::go;

/// JSON from gin.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    with_type(status, "application/json; charset=utf-8", go::json(value))
}

/// A body with its type.
pub(crate) fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A status and nothing else.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// The answer of gin to what it does not know.
pub(crate) async fn not_found() -> Response {
    with_type(StatusCode::NOT_FOUND, "text/plain", "404 page not found")
}

/// A body of which every piece is a chunk of its own, as long as `pieces` is fed.
pub(crate) fn chunks(pieces: mpsc::Receiver<Bytes>) -> Body {
    let pieces = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), pieces))
    });
    Body::from_stream(pieces)
}

/// Adds headers.
pub(crate) fn with_headers(mut response: Response, headers: &[(&'static str, &str)]) -> Response {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
