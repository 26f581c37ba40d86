//! The Connect protocol with JSON, as far as `envd` speaks it: calls with one answer, and calls with a stream of them.

mod code;
mod envelope;
mod stream;

pub(super) use envelope::enclosed;
pub(super) use stream::{Messages, open, send};

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{Call, CallError, Server, Why};

/// A call of a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    pub(super) operation: &'static str,
    pub(super) service: &'static str,
    pub(super) name: &'static str,
    /// Whether doing it twice is the same as once.
    pub(super) repeatable: bool,
}

impl Method {
    fn call(self, server: &Server) -> Call {
        let call = server.post(self.operation, &[self.service, self.name]);
        call.header("connect-protocol-version", "1").repeatable(self.repeatable)
    }

    /// A failure, which is told as such if it means that the server has no such call.
    fn missing(self, error: CallError) -> CallError {
        match error.status() {
            Some(501) => CallError { why: Why::Unsupported { what: self.operation.to_owned() }, ..error },
            _ => error,
        }
    }
}

/// A call with one answer.
pub(super) async fn unary<Q: Serialize, A: DeserializeOwned>(
    server: &Server,
    method: Method,
    request: &Q,
    deadline: Duration,
) -> Result<A, CallError> {
    let answer = method.call(server).json(request).deadline(deadline).send().await;
    answer.map_err(|error| method.missing(error))?.json().await
}
