//! The tools in one visible list: names, what models are told about them, and which method each one is.

use std::future::Future;

use hotcell_core::policy::{Access, NetworkMode};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access::Shared;
use super::result::{Render, input_schema, schema};
use super::{
    ErrorKind, ExecShell, ExecShellResult, ListFiles, ListFilesResult, OnProgress, OpenError, ReadFile, ReadFileResult,
    ToolDefinition, ToolError, ToolResult, Toolbox, WriteFile, WriteFileResult, rules, text,
};

/// One tool.
struct Entry {
    name: &'static str,
    title: &'static str,
    describe: fn(&Shared) -> String,
    input: fn() -> Value,
    output: fn() -> Value,
    /// What it changes.
    changes: Changes,
    idempotent: bool,
    /// Only where the policy has an overlay.
    overlay: bool,
}

/// What a tool changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Nothing,
    /// Files and processes of the box; and files of the user's where the policy lets them be written directly.
    Box,
    /// Files of the user's.
    Host,
}

const fn entry<I: JsonSchema, O: JsonSchema>(
    name: &'static str,
    title: &'static str,
    changes: Changes,
    describe: fn(&Shared) -> String,
) -> Entry {
    Entry {
        name,
        title,
        describe,
        input: input_schema::<I>,
        output: schema::<O>,
        changes,
        idempotent: false,
        overlay: false,
    }
}

impl Entry {
    const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// Every tool, in the order in which models see them.
const TOOLS: &[Entry] = &[
    entry::<ExecShell, ExecShellResult>("exec_shell", "Run a command", Changes::Box, about_exec),
    entry::<ReadFile, ReadFileResult>("read_file", "Read a file", Changes::Nothing, about_read).idempotent(),
    entry::<WriteFile, WriteFileResult>("write_file", "Write a file", Changes::Box, about_write).idempotent(),
    entry::<ListFiles, ListFilesResult>("list_files", "List files", Changes::Nothing, about_list).idempotent(),
];

fn about_exec(shared: &Shared) -> String {
    format!(
        "Runs a command with {} in a sandbox and returns its exit code and output. Use it for everything that a terminal is for: building, \
         testing, git, moving files. {} {} Files stay between calls; variables and the working directory of the shell do not. There is no \
         terminal and no standard input: do not start editors or anything that asks questions. Long output is shortened in the middle. A \
         command ends after {} s unless `timeout_ms` says otherwise (at most {} ms).",
        shared.shell,
        network(shared),
        places(shared),
        shared.options.limits.timeout.as_secs(),
        shared.options.limits.longest.as_millis()
    )
}

fn about_read(shared: &Shared) -> String {
    format!(
        "Reads a file of the sandbox as text; PNG, JPEG, GIF and WebP files come back as images. Text longer than {} is shortened in the \
         middle: ask for a part with `first_line` and `lines`. Files larger than {} are refused. Control characters are shown as \\u{{…}}; \
         `encoding`: \"base64\" gives exact bytes.",
        rules::bytes(shared.options.limits.text as u64),
        rules::bytes(shared.options.limits.file)
    )
}

fn about_write(shared: &Shared) -> String {
    format!(
        "Creates a file in the sandbox, or replaces all that is in it. {} To change a part of a file, use edit_file. At most {}.",
        places(shared),
        rules::bytes(shared.options.limits.file)
    )
}

fn about_list(shared: &Shared) -> String {
    format!(
        "Lists a directory of the sandbox: names, kinds and sizes, at most {} entries. Use it to find your way; with `glob` it finds files by \
         name. It does not follow links.",
        shared.options.limits.entries
    )
}

/// What the policy says about the network, for models.
fn network(shared: &Shared) -> &'static str {
    match shared.options.policy.network {
        NetworkMode::Deny => {
            "There is no network: downloads, package installation from the internet and requests to other machines fail; servers on 127.0.0.1 \
             inside the sandbox work."
        }
        _ => "The network of the host can be used.",
    }
}

/// What the policy says about files, for models.
fn places(shared: &Shared) -> String {
    let policy = &shared.options.policy;
    let named = |wanted: fn(Access) -> bool| {
        let rules = policy.filesystem.rules.iter().filter(|rule| wanted(rule.access));
        rules.map(|rule| text::path(&rule.path)).collect::<Vec<_>>().join(", ")
    };
    let workspace = text::path(&shared.options.workspace);
    let mut said = format!("The workspace is {workspace}; relative paths start there.");
    let (direct, overlay) = (named(|access| access == Access::Write), named(|access| access == Access::Overlay));
    if !direct.is_empty() {
        said.push_str(&format!(" Writable, and the user sees it at once: {direct}."));
    }
    if !overlay.is_empty() {
        said.push_str(&format!(" Writable, but apart from the user's own files until workspace_commit: {overlay}."));
    }
    said.push_str(" /tmp is writable and private. Everything else is read-only or hidden.");
    said
}

/// The tools of a toolbox.
fn available(shared: &Shared) -> impl Iterator<Item = &'static Entry> {
    let has_overlay = shared.options.policy.filesystem.rules.iter().any(|rule| rule.access == Access::Overlay);
    TOOLS.iter().filter(move |tool| match &shared.options.tools {
        Some(wanted) => wanted.iter().any(|name| name == tool.name),
        None => has_overlay || !tool.overlay,
    })
}

fn names<'a>(tools: impl Iterator<Item = &'a Entry>) -> String {
    tools.map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}

/// Finds names of tools that do not exist.
pub(super) fn check_names(wanted: Option<&[String]>) -> Result<(), OpenError> {
    let unknown = wanted.into_iter().flatten().find(|name| !TOOLS.iter().any(|tool| tool.name == *name));
    match unknown {
        Some(name) => Err(OpenError::UnknownTool { name: name.clone(), known: names(TOOLS.iter()) }),
        None => Ok(()),
    }
}

pub(super) fn definitions(shared: &Shared) -> Vec<ToolDefinition> {
    let writes = shared.options.policy.filesystem.rules.iter().any(|rule| rule.access == Access::Write);
    available(shared)
        .map(|tool| ToolDefinition {
            name: tool.name,
            title: tool.title,
            description: (tool.describe)(shared),
            input_schema: with_longest((tool.input)(), shared),
            output_schema: (tool.output)(),
            read_only: tool.changes == Changes::Nothing,
            destructive: tool.changes == Changes::Host || (tool.changes == Changes::Box && writes),
            idempotent: tool.idempotent,
        })
        .collect()
}

/// Says how long a call may take where it can be told.
fn with_longest(mut schema: Value, shared: &Shared) -> Value {
    let longest = u64::try_from(shared.options.limits.longest.as_millis()).unwrap_or(u64::MAX);
    for name in ["timeout_ms", "wait_ms"] {
        if let Some(time) = schema.pointer_mut(&format!("/properties/{name}")).and_then(Value::as_object_mut) {
            time.insert("maximum".to_owned(), json!(longest));
        }
    }
    schema
}

pub(super) async fn call(toolbox: &Toolbox, name: &str, arguments: Value, progress: Option<OnProgress>) -> ToolResult {
    if !available(&toolbox.shared).any(|tool| tool.name == name) {
        let message = format!("there is no tool `{}`", text::cut(&text::line(name), 200));
        let known = names(available(&toolbox.shared));
        return ToolError::new(ErrorKind::NotFound, message).instead(format!("the tools are {known}")).into();
    }
    match name {
        "exec_shell" => with(arguments, |input| toolbox.exec_shell_with(input, progress)).await,
        "read_file" => with(arguments, |input| toolbox.read_file(input)).await,
        "write_file" => with(arguments, |input| toolbox.write_file(input)).await,
        "list_files" => with(arguments, |input| toolbox.list_files(input)).await,
        // A test calls everything that is listed.
        _ => ToolError::new(ErrorKind::Unsupported, format!("`{name}` is listed and cannot be called")).into(),
    }
}

/// Calls a method with arguments from outside.
async fn with<I, O, F>(arguments: Value, method: impl FnOnce(I) -> F) -> ToolResult
where
    I: DeserializeOwned,
    O: Serialize + Render,
    F: Future<Output = Result<O, ToolError>>,
{
    // Some clients leave out the arguments of a tool that needs none.
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    let input = match serde_json::from_value::<I>(arguments) {
        Ok(input) => input,
        Err(error) => {
            let why = text::cut(&text::line(&error.to_string()), 500);
            return ToolError::invalid(format!("the arguments are not what the tool takes: {why}"))
                .instead("follow the tool's input schema")
                .into();
        }
    };
    match method(input).await {
        Ok(result) => ToolResult::of(result),
        Err(error) => error.into(),
    }
}
