//! The tools in one visible list: names, what models are told about them, and which method each one is.

use std::future::Future;
use std::time::Duration;

use hotcell_core::policy::{Access, NetworkMode};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access::Shared;
use super::result::{Render, input_schema, schema};
use super::{
    EditFile, EditFileResult, ErrorKind, ExecShell, ExecShellResult, ListFiles, ListFilesResult, OnProgress, OpenError,
    ProcessInput, ProcessInputResult, ProcessOutput, ProcessOutputResult, ReadFile, ReadFileResult, RunCode,
    RunCodeResult, SandboxStatus, SandboxStatusResult, SearchFiles, SearchFilesResult, StopProcess, ToolDefinition,
    ToolError, ToolResult, Toolbox, WorkspaceCommit, WorkspaceCommitResult, WorkspaceDiff, WorkspaceDiffResult,
    WriteFile, WriteFileResult, rules, text,
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
    const fn overlay(mut self) -> Self {
        self.overlay = true;
        self
    }

    const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// Every tool, in the order in which models see them.
const TOOLS: &[Entry] = &[
    entry::<ExecShell, ExecShellResult>("exec_shell", "Run a command", Changes::Box, about_exec),
    entry::<RunCode, RunCodeResult>("run_code", "Run code", Changes::Box, about_code),
    entry::<ReadFile, ReadFileResult>("read_file", "Read a file", Changes::Nothing, about_read).idempotent(),
    entry::<WriteFile, WriteFileResult>("write_file", "Write a file", Changes::Box, about_write).idempotent(),
    entry::<EditFile, EditFileResult>("edit_file", "Edit a file", Changes::Box, about_edit),
    entry::<ListFiles, ListFilesResult>("list_files", "List files", Changes::Nothing, about_list).idempotent(),
    entry::<SearchFiles, SearchFilesResult>("search_files", "Search files", Changes::Nothing, about_search)
        .idempotent(),
    entry::<ProcessOutput, ProcessOutputResult>(
        "process_output",
        "Read output of a process",
        Changes::Nothing,
        about_output,
    ),
    entry::<ProcessInput, ProcessInputResult>("process_input", "Write to a process", Changes::Box, about_input),
    entry::<StopProcess, ProcessOutputResult>("stop_process", "Stop a process", Changes::Box, about_stop).idempotent(),
    entry::<WorkspaceDiff, WorkspaceDiffResult>("workspace_diff", "Show changes", Changes::Nothing, about_diff)
        .idempotent()
        .overlay(),
    entry::<WorkspaceCommit, WorkspaceCommitResult>("workspace_commit", "Commit changes", Changes::Host, about_commit)
        .idempotent()
        .overlay(),
    entry::<SandboxStatus, SandboxStatusResult>("sandbox_status", "Show the sandbox", Changes::Nothing, about_status)
        .idempotent(),
];

fn about_exec(shared: &Shared) -> String {
    format!(
        "Runs a command with {} in a sandbox and returns its exit code and output. Use it for everything that a terminal is for: building, \
         testing, git, moving files. {} {} Files stay between calls; variables and the working directory of the shell do not. There is no \
         terminal and no standard input: do not start editors or anything that asks questions. Start servers and watchers with `background`: \
         true, where{} process_output follows them. Long output is shortened in the middle. A \
         command ends after {} s unless `timeout_ms` says otherwise (at most {} ms).",
        shared.shell,
        network(shared),
        places(shared),
        match shared.options.policy.limits.timeout.value {
            Some(most) => format!(" they may run for {} s and", most.as_secs()),
            None => String::new(),
        },
        shared.options.limits.timeout.min(shared.longest()).as_secs_f64(),
        shared.longest().as_millis()
    )
}

fn about_code(shared: &Shared) -> String {
    format!(
        "Runs code in a sandbox: {}. Give `context` a name of your choice to keep variables, functions and imports for later calls with the \
         same name and language; the value of the last expression comes back, and figures come back as images. Without `context` the code \
         runs once, in a process of its own. {} It starts in the workspace, {}. It ends after {} s unless `timeout_ms` says otherwise (at most \
         {} ms); a context that does not stop in time may lose its variables, and the result says so.",
        shared.interpreter.languages().names().join(", "),
        network(shared),
        text::path(&shared.options.workspace),
        shared.options.limits.timeout.min(shared.longest()).as_secs_f64(),
        shared.longest().as_millis()
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

fn about_edit(shared: &Shared) -> String {
    format!(
        "Replaces text in a file of the sandbox. `old_text` must occur in the file exactly once, with all its spaces and line ends, or \
         everywhere it occurs with `replace_all`; read the file first. If it is not found, the error shows what comes near. Files larger than \
         {} are refused.",
        rules::bytes(shared.options.limits.file)
    )
}

fn about_search(shared: &Shared) -> String {
    format!(
        "Finds lines in files of the sandbox, by regular expression or plain text, with file names and line numbers; at most {} matches. Use it \
         instead of grep. Binary files, files larger than {} and `.git` are left out; links are not followed.",
        shared.options.limits.entries,
        rules::bytes(shared.options.limits.file)
    )
}

fn about_output(_: &Shared) -> String {
    "Returns what a process in the background has written since the last call, and whether it still runs. Give `wait_ms` to wait for something \
     new instead of calling it again and again. Standard output and standard error come in one stream, in order. Only the newest output is \
     kept; `lost_bytes` says how much was dropped."
        .to_owned()
}

fn about_input(_: &Shared) -> String {
    "Writes text to the standard input of a process in the background, or presses a key: ctrl-c interrupts it, ctrl-d ends its input. The process \
     has no terminal: what needs one (editors, pagers, password prompts) does not work."
        .to_owned()
}

fn about_stop(_: &Shared) -> String {
    "Ends a process in the background and all that it started, first politely (SIGTERM), after at most two seconds by force. Returns how it ended and \
     its last output. Also ends a context of run_code, by its name. Stop what you do not need any more."
        .to_owned()
}

fn about_diff(_: &Shared) -> String {
    "Shows what differs from the user's own files: a list of paths, and the lines that were added and removed. Nothing of it has reached the \
     user's files yet. Use it before workspace_commit, and to see what a command has changed."
        .to_owned()
}

fn about_commit(_: &Shared) -> String {
    "Applies everything that workspace_diff lists to the user's own files. Do it when the work is done and checked; it cannot be undone from \
     here. It ends all contexts of run_code: their variables are lost. It is refused while processes run in the background or a command has \
     left some behind, if a protected path was changed, or if the user changed the same files meanwhile; then nothing is applied. If it fails \
     on the way, the error says how many changes were applied; committing again goes on."
        .to_owned()
}

fn about_status(_: &Shared) -> String {
    "Shows what the sandbox allows and what holds it: paths and access, network, limits, languages, processes in the background and contexts of \
     run_code. Use it when something was refused, and to find processes again."
        .to_owned()
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
            input_schema: with_limits((tool.input)(), shared),
            output_schema: (tool.output)(),
            read_only: tool.changes == Changes::Nothing,
            destructive: tool.changes == Changes::Host || (tool.changes == Changes::Box && writes),
            idempotent: tool.idempotent,
        })
        .collect()
}

/// Says how much a call may ask for, where that is for the toolbox to say.
fn with_limits(mut schema: Value, shared: &Shared) -> Value {
    let limits = &shared.options.limits;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    for (name, most) in [
        ("timeout_ms", millis(shared.longest())),
        ("wait_ms", millis(limits.longest)),
        ("max_matches", limits.entries as u64),
    ] {
        if let Some(number) = schema.pointer_mut(&format!("/properties/{name}")).and_then(Value::as_object_mut) {
            number.insert("maximum".to_owned(), json!(most));
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
        "run_code" => with(arguments, |input| toolbox.run_code_with(input, progress)).await,
        "workspace_diff" => with(arguments, |input| toolbox.workspace_diff(input)).await,
        "workspace_commit" => with(arguments, |input| toolbox.workspace_commit(input)).await,
        "sandbox_status" => with(arguments, |input| toolbox.sandbox_status(input)).await,
        "read_file" => with(arguments, |input| toolbox.read_file(input)).await,
        "write_file" => with(arguments, |input| toolbox.write_file(input)).await,
        "edit_file" => with(arguments, |input| toolbox.edit_file(input)).await,
        "search_files" => with(arguments, |input| toolbox.search_files(input)).await,
        "process_output" => with(arguments, |input| toolbox.process_output(input)).await,
        "process_input" => with(arguments, |input| toolbox.process_input(input)).await,
        "stop_process" => with(arguments, |input| toolbox.stop_process(input)).await,
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
