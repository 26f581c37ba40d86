//! Events of a process, as proto3 writes them in JSON: what has its default value is left out.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::go::Ended;

/// Which output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Stdout,
    Stderr,
    Terminal,
}

pub(super) fn start(pid: u32) -> Value {
    json!({ "event": { "start": { "pid": pid } } })
}

pub(super) fn data(source: Source, bytes: &[u8]) -> Value {
    let name = match source {
        Source::Stdout => "stdout",
        Source::Stderr => "stderr",
        Source::Terminal => "pty",
    };
    json!({ "event": { "data": { name: BASE64_STANDARD.encode(bytes) } } })
}

pub(super) fn keepalive() -> Value {
    json!({ "event": { "keepalive": {} } })
}

pub(super) fn end(ended: &Ended) -> Value {
    let mut end = json!({ "status": ended.status });
    if ended.code != 0 {
        end["exitCode"] = ended.code.into();
    }
    if ended.exited {
        end["exited"] = true.into();
    }
    if !ended.is_success() {
        end["error"] = ended.status.clone().into();
    }
    json!({ "event": { "end": end } })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn defaults_are_left_out() {
        let end = |status| end(&ExitStatus::from_raw(status).into()).to_string();
        assert_eq!(end(0), r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#);
        assert_eq!(
            end(3 << 8),
            r#"{"event":{"end":{"error":"exit status 3","exitCode":3,"exited":true,"status":"exit status 3"}}}"#
        );
        assert_eq!(end(9), r#"{"event":{"end":{"error":"signal: killed","exitCode":-1,"status":"signal: killed"}}}"#);
    }
}
