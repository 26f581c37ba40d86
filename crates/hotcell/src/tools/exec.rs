//! `exec_shell`: a command in the box.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_core::backend::{
    CaptureLimits, OutputEvents, Sandbox, SpawnConfig, SpawnError, StdinMode, Stream, StreamCapture,
};
use hotcell_core::outcome::{Outcome, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::access::Shared;
use super::background::Started;
use super::result::Render;
use super::rules::{self, Wish};
use super::{CallProgress, Denial, ErrorKind, OnProgress, ToolError, Toolbox, denials, text};

/// The longest command: a kernel takes 128 KiB in one argument.
const LONGEST_COMMAND: usize = 64 << 10;
/// The most variables, and the most bytes of them.
const MOST_VARIABLES: usize = 64;
const MOST_VARIABLE_BYTES: usize = 32 << 10;
/// How often progress is told at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// The longest line that progress shows.
const PROGRESS_LINE: usize = 400;

/// How many results' worth of output is kept of a process in the background.
const BUFFERED_RESULTS: usize = 4;

/// Variables that decide which code a program loads before it does anything of its own. A command can set them for what it starts;
/// they are not set for the shell itself.
const STEERING: [&str; 9] =
    ["BASH_ENV", "ENV", "GCONV_PATH", "GLIBC_TUNABLES", "IFS", "BASHOPTS", "SHELLOPTS", "PS4", "LOCPATH"];
const STEERING_PREFIXES: [&str; 3] = ["LD_", "DYLD_", "BASH_FUNC_"];

/// What `exec_shell` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecShell {
    /// The command, as you would type it in a shell. Pipes, redirections, `&&` and several lines work.
    pub command: String,
    /// The directory to start in, in the box; relative to the workspace. Default: the workspace.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables for this command only.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Milliseconds after which the command is ended.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Return at once and let the command run on; follow it with process_output, end it with stop_process. For servers and for
    /// anything that takes longer than a minute.
    #[serde(default)]
    pub background: bool,
}

impl ExecShell {
    /// A command in the workspace, in the foreground.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }
}

/// What `exec_shell` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ExecShellResult {
    /// `exited`, `signaled`, `timed-out`, `out-of-memory`, `cpu-time`, `processes`, `disk`, `output` or `canceled`; `running` in the
    /// background.
    pub status: String,
    /// The exit code of a command that exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote to standard output: all of it, or head and tail.
    pub stdout: String,
    /// What it wrote to standard error: all of it, or head and tail.
    pub stderr: String,
    /// How many bytes of both are not shown.
    pub left_out_bytes: u64,
    /// Whether it wrote bytes that are no UTF-8; they are shown as U+FFFD.
    pub not_utf8: bool,
    /// How long it took.
    pub wall_ms: u64,
    /// The process in the background.
    pub process: Option<String>,
    /// What the policy denied, as far as that is known.
    pub denials: Vec<Denial>,
}

impl Render for ExecShellResult {
    fn text(&self) -> String {
        if let Some(process) = &self.process {
            return format!("running in the background as {process}; read its output with process_output");
        }
        let mut shown = heading(&self.status, self.exit_code, self.signal, self.wall_ms);
        push_denials(&mut shown, &self.denials);
        push_section(&mut shown, "stdout", &self.stdout);
        push_section(&mut shown, "stderr", &self.stderr);
        if self.stdout.is_empty() && self.stderr.is_empty() {
            shown.push_str("\n(no output)");
        }
        shown
    }
}

/// One line that says how something ended.
pub(super) fn heading(status: &str, exit_code: Option<i32>, signal: Option<i32>, wall_ms: u64) -> String {
    match (exit_code, signal) {
        (Some(code), _) => format!("exit code {code} after {wall_ms} ms"),
        (None, Some(signal)) => format!("ended by signal {signal} after {wall_ms} ms"),
        (None, None) => format!("{status} after {wall_ms} ms"),
    }
}

pub(super) fn push_denials(to: &mut String, denials: &[Denial]) {
    for denial in denials {
        let likely = if denial.evidence == super::Evidence::Output { "probably " } else { "" };
        to.push_str(&format!("\n{likely}denied by {}: {}; instead: {}", denial.rule, denial.what, denial.instead));
    }
}

pub(super) fn push_section(to: &mut String, name: &str, content: &str) {
    if !content.is_empty() {
        to.push_str(&format!("\n--- {name} ---\n{content}"));
    }
}

impl Toolbox {
    /// Runs a command in the box, or starts one in the background.
    pub async fn exec_shell(&self, input: ExecShell) -> Result<ExecShellResult, ToolError> {
        self.exec_shell_with(input, None).await
    }

    pub(super) async fn exec_shell_with(
        &self,
        input: ExecShell,
        progress: Option<OnProgress>,
    ) -> Result<ExecShellResult, ToolError> {
        self.shared.until_closed(exec(&self.shared, input, progress)).await
    }
}

async fn exec(shared: &Shared, input: ExecShell, progress: Option<OnProgress>) -> Result<ExecShellResult, ToolError> {
    let (config, cwd) = config(shared, &input)?;
    if input.background {
        return start(shared, &input, config, cwd).await;
    }
    let time = shared.time(input.timeout_ms)?;
    let config = config.timeout(time);
    let _quiet = shared.quiet.read().await;
    let sandbox = shared.sandbox().await?;
    let mut process = match sandbox.spawn(config).await {
        Ok(process) => process,
        Err(error) => return Err(spawn_error(shared, &*sandbox, error).await),
    };
    let mut output = Captured::new(shared.options.limits.text);
    if let Some(events) = process.take_io().output {
        output.read(events, progress).await;
    }
    let outcome = process.wait().await?;
    Ok(output.result(shared, &outcome, time, &cwd))
}

/// Starts a command in the background.
async fn start(
    shared: &Shared,
    input: &ExecShell,
    config: SpawnConfig,
    cwd: PathBuf,
) -> Result<ExecShellResult, ToolError> {
    let place = shared.processes.place(shared.options.limits.background)?;
    let mut config = config.stdin(StdinMode::Piped);
    // Its time is that of the policy, unless it asks for less.
    let time = input.timeout_ms.map(|asked| shared.time(Some(asked))).transpose()?;
    config.timeout = time;
    // Until it is in the table: a commit must not miss it.
    let _quiet = shared.quiet.read().await;
    let sandbox = shared.sandbox().await?;
    let process = match sandbox.spawn(config).await {
        Ok(process) => process,
        Err(error) => return Err(spawn_error(shared, &*sandbox, error).await),
    };
    let started = Started { command: &input.command, cwd, time: time.unwrap_or(Duration::MAX) };
    let buffer = shared.options.limits.text.saturating_mul(BUFFERED_RESULTS);
    let process = shared.processes.add(place, process, started, buffer);
    Ok(ExecShellResult {
        status: "running".to_owned(),
        exit_code: None,
        signal: None,
        stdout: String::new(),
        stderr: String::new(),
        left_out_bytes: 0,
        not_utf8: false,
        wall_ms: 0,
        process: Some(process.id.clone()),
        denials: Vec::new(),
    })
}

/// The command as the box takes it, and the directory that it starts in.
fn config(shared: &Shared, input: &ExecShell) -> Result<(SpawnConfig, PathBuf), ToolError> {
    if input.command.trim().is_empty() {
        return Err(ToolError::invalid("the command is empty"));
    }
    if input.command.contains('\0') {
        return Err(ToolError::invalid("the command has a NUL byte in it"));
    }
    if input.command.len() > LONGEST_COMMAND {
        let message = format!("the command has {} bytes, {LONGEST_COMMAND} are possible", input.command.len());
        return Err(
            ToolError::new(ErrorKind::TooLarge, message).instead("put it into a file with write_file and run that")
        );
    }
    check_variables(shared, &input.env)?;
    let cwd = match &input.cwd {
        Some(named) => shared.path(named)?,
        None => shared.options.workspace.clone(),
    };
    if let Some(rule) = rules::of_path(&shared.options.policy, &cwd, Wish::Read) {
        let message = format!("`{}` is out of reach", text::path(&cwd));
        return Err(ToolError::new(ErrorKind::Refused, message).rule(rule.name).instead(rule.instead));
    }
    // Whether it is there, and where its links lead, is for the kernel to say, in the box, as the command starts: an answer from before
    // that could be out of date.
    let mut config = SpawnConfig::new(shared.shell).args(["-c", &input.command]).cwd(&cwd).stdin(StdinMode::Null);
    for (name, value) in &input.env {
        config = config.env(name, value);
    }
    Ok((config, cwd))
}

fn check_variables(shared: &Shared, variables: &BTreeMap<String, String>) -> Result<(), ToolError> {
    let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
    if variables.len() > MOST_VARIABLES || bytes > MOST_VARIABLE_BYTES {
        let message = format!(
            "there are {} variables with {bytes} bytes; {MOST_VARIABLES} with {MOST_VARIABLE_BYTES} are possible",
            variables.len()
        );
        return Err(ToolError::new(ErrorKind::TooLarge, message).instead("put the data into a file with write_file"));
    }
    for (name, value) in variables {
        let shown = text::cut(&text::line(name), 200);
        let first_is_letter = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if !first_is_letter || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(ToolError::invalid(format!("`{shown}` is not the name of a variable"))
                .instead("letters, digits and `_`, and no digit first"));
        }
        if value.contains('\0') {
            return Err(ToolError::invalid(format!("the value of `{shown}` has a NUL byte in it")));
        }
        if shared.options.policy.env.set.contains_key(name) {
            return Err(ToolError::new(ErrorKind::Refused, format!("the policy fixes the variable `{shown}`"))
                .rule(format!("env.set = {{ {shown} = … }}"))
                .instead("leave it out"));
        }
        let steers =
            STEERING.contains(&name.as_str()) || STEERING_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if steers {
            return Err(ToolError::new(
                ErrorKind::Refused,
                format!("`{shown}` decides which code the shell itself loads, and cannot be set for it"),
            )
            .rule("env: variables that steer loaders are not taken from a call")
            .instead(format!("set it inside the command, for the program that needs it: `{shown}=… program`")));
        }
    }
    Ok(())
}

/// Why a command was not started; and which rule it was that hid its directory.
async fn spawn_error(shared: &Shared, sandbox: &dyn Sandbox, error: SpawnError) -> ToolError {
    let SpawnError::BadCwd { path, .. } = &error else { return error.into() };
    let path = path.clone();
    let mut told = ToolError::from(error);
    match shared.rule_in_box(sandbox, &path, Wish::Read).await {
        Some(rule) => {
            told.kind = ErrorKind::Refused;
            told.rule = Some(rule.name);
        }
        None => told.rule = rules::of_absence(&shared.options.policy, &path).map(|rule| rule.name),
    }
    told
}

/// The output of a command, within bounds.
pub(super) struct Captured {
    stdout: StreamCapture,
    stderr: StreamCapture,
}

/// Tells how far a call is, now and then.
pub(super) struct Teller {
    progress: Option<OnProgress>,
    bytes: u64,
    told: Option<Instant>,
}

impl Teller {
    pub(super) fn new(progress: Option<OnProgress>) -> Self {
        Self { progress, bytes: 0, told: None }
    }

    /// There is more output.
    pub(super) fn tell(&mut self, bytes: &[u8]) {
        let Some(progress) = &self.progress else { return };
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.told.is_none_or(|told| told.elapsed() >= PROGRESS_INTERVAL) {
            self.told = Some(Instant::now());
            progress(CallProgress { bytes: self.bytes, line: last_line(bytes) });
        }
    }
}

impl Captured {
    pub(super) fn new(most: usize) -> Self {
        let limits = CaptureLimits { head: most / 2, tail: most - most / 2 };
        Self { stdout: StreamCapture::new(limits), stderr: StreamCapture::new(limits) }
    }

    async fn read(&mut self, mut events: Box<dyn OutputEvents>, progress: Option<OnProgress>) {
        let mut teller = Teller::new(progress);
        while let Some(event) = events.next().await {
            match event.stream {
                Stream::Stdout => self.stdout.push(&event.bytes),
                Stream::Stderr => self.stderr.push(&event.bytes),
            }
            teller.tell(&event.bytes);
        }
    }

    fn result(self, shared: &Shared, outcome: &Outcome, time: Duration, cwd: &Path) -> ExecShellResult {
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        let words = [stdout.bytes().as_slice(), b"\n", &stderr.bytes()].concat();
        let denials = denials::of_command(shared, outcome, time, cwd, &words);
        let most = shared.options.limits.text;
        let (stdout, stderr) = (text::stream(&stdout, most), text::stream(&stderr, most));
        let (exit_code, signal) = codes(outcome.status);
        ExecShellResult {
            status: outcome.status.as_str().to_owned(),
            exit_code,
            signal,
            left_out_bytes: stdout.left_out + stderr.left_out,
            not_utf8: stdout.lossy || stderr.lossy,
            stdout: stdout.text,
            stderr: stderr.text,
            wall_ms: millis(outcome.usage.wall),
            process: None,
            denials,
        }
    }
}

/// The exit code or the signal of an ended command.
pub(super) fn codes(status: Status) -> (Option<i32>, Option<i32>) {
    match status {
        Status::Exited(code) => (Some(code), None),
        Status::Signaled(signal) => (None, Some(signal)),
        _ => (None, None),
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The last line with something on it, fit for showing.
pub(super) fn last_line(bytes: &[u8]) -> String {
    let tail = &bytes[bytes.len().saturating_sub(4 * PROGRESS_LINE)..];
    let text = String::from_utf8_lossy(tail);
    let line = text.split(['\n', '\r']).rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    text::cut(&text::line(line), PROGRESS_LINE)
}
