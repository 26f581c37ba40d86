//! What code did, as one JSON object.

use std::path::PathBuf;

use hotcell::interpreter::{CodeOutput, CodeStatus, Exception, RichResult};
use hotcell::plan::Enforcement;
use hotcell::runtime::{Isolation, RuntimeKind};
use serde::Serialize;

use super::Session;
use crate::json;
use crate::report::{Streams, StreamsReport};

#[derive(Serialize)]
struct CodeReport<'a> {
    backend: RuntimeKind,
    isolation: Isolation,
    language: &'a str,
    #[serde(flatten)]
    status: CodeStatus,
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
    wall_ms: u128,
    enforcement: &'a [Enforcement],
}

pub(super) fn line(
    session: &Session,
    language: &str,
    output: CodeOutput,
    exit_code: u8,
    saved: Vec<PathBuf>,
) -> String {
    let report = session.sandbox.report();
    json::line(&CodeReport {
        backend: report.backend,
        isolation: report.isolation,
        language,
        status: output.status,
        exit_code,
        streams: Streams::Captured { stdout: output.stdout, stderr: output.stderr }.into(),
        results: output.results,
        exception: output.exception,
        hint: output.hint,
        images: saved.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        wall_ms: output.wall.as_millis(),
        enforcement: &report.controls,
    })
}
