//! What code did, as one JSON object.

use std::path::PathBuf;

use hotcell::WorkspaceError;
use hotcell::interpreter::{CodeOutput, CodeStatus, Exception, RichResult};
use hotcell::plan::Enforcement;
use hotcell::runtime::{Isolation, RuntimeKind};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Session;
use crate::json;
use crate::report::{Streams, StreamsReport};

#[derive(Serialize)]
struct CodeReport<'a> {
    backend: RuntimeKind,
    isolation: Isolation,
    language: &'a str,
    #[serde(flatten)]
    status: Map<String, Value>,
    exit_code: u8,
    #[serde(flatten)]
    streams: StreamsReport,
    results: Vec<RichResult>,
    exception: Option<Exception>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Files that `--save-images` wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    /// Changes in overlays, which end with the box: their number, null if it cannot be told, nothing where there are no overlays.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes_not_kept: Option<Option<usize>>,
    wall_ms: u128,
    enforcement: &'a [Enforcement],
}

pub(super) fn line(
    session: &Session,
    language: &str,
    output: CodeOutput,
    exit_code: u8,
    saved: Vec<PathBuf>,
    unkept: Option<Result<usize, WorkspaceError>>,
) -> String {
    let report = session.sandbox.report();
    json::line(&CodeReport {
        backend: report.backend,
        isolation: report.isolation,
        language,
        status: status(&output.status),
        exit_code,
        streams: Streams::Captured { stdout: output.stdout, stderr: output.stderr }.into(),
        results: output.results,
        exception: output.exception,
        hint: output.hint,
        images: saved.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        changes_not_kept: unkept.map(Result::ok),
        wall_ms: output.wall.as_millis(),
        enforcement: &report.controls,
    })
}

/// How it ended, without the code's own exit status: what hotcell exits with is in the object under that name.
fn status(status: &CodeStatus) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // It is an object for every status; were it none, it would still not be left out.
        Ok(other) => Map::from_iter([("status".to_owned(), other)]),
        Err(error) => Map::from_iter([("status".to_owned(), error.to_string().into())]),
    };
    fields.remove("exit_code");
    fields
}
