//! `sandbox_status`: what holds the box, what it allows, and what runs in it.

use hotcell_core::capability::Capability;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Shared;
use super::exec::{codes, millis};
use super::result::Render;
use super::{ToolError, Toolbox, rules, text};

/// What `sandbox_status` takes: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxStatus {}

/// What `sandbox_status` gives.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SandboxStatusResult {
    /// The kind of box.
    pub backend: String,
    /// How strongly it is isolated.
    pub isolation: String,
    /// The directory that relative paths start from.
    pub workspace: String,
    /// The shell of exec_shell.
    pub shell: String,
    /// `deny` or `open`.
    pub network: String,
    /// Which paths of the host can be seen, with which access. Everything else is hidden, but for read-only system directories.
    pub paths: Vec<PathAccess>,
    /// Names that cannot be changed in writable trees, and single places in them.
    pub protected: Vec<String>,
    /// How much may be used.
    pub limits: Vec<LimitShown>,
    /// What holds each of these rules.
    pub controls: Vec<ControlShown>,
    /// Processes in the background, those that ended a while ago included.
    pub processes: Vec<ProcessShown>,
    /// Contexts of run_code that remember.
    pub contexts: Vec<ContextShown>,
    /// The languages of run_code.
    pub languages: Vec<String>,
}

/// A path and what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PathAccess {
    /// The path and all that is beneath it.
    pub path: String,
    /// `read`, `write`, `overlay` (writes stay apart until workspace_commit) or `deny`.
    pub access: String,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LimitShown {
    /// Its name in configuration.
    pub name: String,
    /// The most that is allowed.
    pub value: String,
}

/// A control and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ControlShown {
    /// Its name.
    pub control: String,
    /// What the policy asks for.
    pub requested: String,
    /// `enforced`, `approximated` or `unsupported`.
    pub level: String,
    /// By what, or why not.
    pub by: String,
}

/// A process in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ProcessShown {
    /// Its name.
    pub process: String,
    /// The command.
    pub command: String,
    /// `running`, or how it ended.
    pub status: String,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// How long it has been running, or ran.
    pub wall_ms: u64,
    /// How many bytes it has written.
    pub output_bytes: u64,
}

/// A context of run_code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextShown {
    /// Its name.
    pub context: String,
    /// Its language.
    pub language: String,
    /// How many pieces of code it has run.
    pub count: u64,
    /// Whether it is running one.
    pub busy: bool,
}

impl Render for SandboxStatusResult {
    fn text(&self) -> String {
        let mut shown = format!(
            "{} box, isolation {}; workspace {}; shell {}; network {}",
            self.backend, self.isolation, self.workspace, self.shell, self.network
        );
        let mut section = |name: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                shown.push_str(&format!("\n{name}:\n  {}", lines.join("\n  ")));
            }
        };
        section("paths", self.paths.iter().map(|path| format!("{:<8}{}", path.access, path.path)).collect());
        section("protected names", self.protected.clone());
        section("limits", self.limits.iter().map(|limit| format!("{} = {}", limit.name, limit.value)).collect());
        let controls = self.controls.iter();
        section("held by", controls.map(|held| format!("{}: {} by {}", held.control, held.level, held.by)).collect());
        let process = |process: &ProcessShown| {
            format!("{} {} after {} ms: {}", process.process, process.status, process.wall_ms, process.command)
        };
        section("processes", self.processes.iter().map(process).collect());
        let context = |context: &ContextShown| {
            let busy = if context.busy { ", busy" } else { "" };
            format!("{} ({}): {} runs{busy}", context.context, context.language, context.count)
        };
        section("contexts", self.contexts.iter().map(context).collect());
        section("languages", vec![self.languages.join(", ")]);
        shown
    }
}

impl Toolbox {
    /// What holds the box, what it allows, and what runs in it.
    pub async fn sandbox_status(&self, _: SandboxStatus) -> Result<SandboxStatusResult, ToolError> {
        // One that is gone has no status.
        drop(self.shared.sandbox().await?);
        Ok(status(&self.shared))
    }
}

fn status(shared: &Shared) -> SandboxStatusResult {
    let policy = &shared.options.policy;
    let control = |held: &hotcell_core::plan::Enforcement| ControlShown {
        control: held.control.as_str().to_owned(),
        requested: text::line(&held.requested),
        level: held.actual.level().to_owned(),
        by: text::line(&match &held.actual {
            Capability::Enforced { by } => by.clone(),
            Capability::Approximated { by, how } => format!("{by} ({how})"),
            Capability::Unsupported { why, .. } => why.clone(),
            other => other.to_string(),
        }),
    };
    SandboxStatusResult {
        backend: shared.report.backend.to_string(),
        isolation: shared.report.isolation.to_string(),
        workspace: text::path(&shared.options.workspace),
        shell: shared.shell.to_owned(),
        network: policy.network.to_string(),
        paths: policy
            .filesystem
            .rules
            .iter()
            .map(|rule| PathAccess { path: text::path(&rule.path), access: rule.access.to_string() })
            .collect(),
        protected: policy
            .filesystem
            .protect
            .iter()
            .chain(&policy.filesystem.protect_paths)
            .map(|name| text::path(name))
            .collect(),
        limits: limits(shared),
        controls: shared.report.controls.iter().map(control).collect(),
        processes: processes(shared),
        contexts: shared
            .interpreter
            .contexts()
            .into_iter()
            .map(|context| ContextShown {
                context: text::line(&context.name),
                language: text::line(&context.language),
                count: context.count,
                busy: context.busy,
            })
            .collect(),
        languages: shared.interpreter.languages().names().into_iter().map(text::line).collect(),
    }
}

fn limits(shared: &Shared) -> Vec<LimitShown> {
    let limits = &shared.options.policy.limits;
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs_f64());
    let all = [
        ("memory", limits.memory.value.map(rules::bytes)),
        ("cpus", limits.cpus.value.map(|cpus| cpus.to_string())),
        ("cpu_time", limits.cpu_time.value.map(seconds)),
        ("processes", limits.processes.value.map(|most| most.to_string())),
        ("open_files", limits.open_files.value.map(|most| most.to_string())),
        ("disk", limits.disk.value.map(rules::bytes)),
        ("output", limits.output.value.map(rules::bytes)),
        ("timeout", limits.timeout.value.map(seconds)),
    ];
    let value = |value: Option<String>| value.unwrap_or_else(|| "unlimited".to_owned());
    all.into_iter().map(|(name, most)| LimitShown { name: name.to_owned(), value: value(most) }).collect()
}

fn processes(shared: &Shared) -> Vec<ProcessShown> {
    let shown = |process: std::sync::Arc<super::background::Process>| {
        let state = process.state();
        let ended =
            state.ended.as_ref().map(|ended| ended.as_ref().map(|outcome| (outcome.status, outcome.usage.wall)));
        let (status, exit_code, wall_ms) = match ended {
            None => ("running", None, process.running_ms()),
            Some(Ok((status, wall))) => (status.as_str(), codes(status).0, millis(wall)),
            Some(Err(_)) => ("lost", None, process.running_ms()),
        };
        ProcessShown {
            process: process.id.clone(),
            command: process.command.clone(),
            status: status.to_owned(),
            exit_code,
            wall_ms,
            output_bytes: state.written,
        }
    };
    shared.processes.all().into_iter().map(shown).collect()
}
