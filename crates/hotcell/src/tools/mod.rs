//! What an agent's model may call: commands, code and files in one box that is kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hotcell_core::plan::EnforcementReport;
use hotcell_core::policy::Policy;
use serde::Serialize;
use serde_json::Value;

use crate::interpreter::Languages;
use crate::{Engine, EngineError};

/// What a toolbox is made of. Everything a model asks for can only be narrower than this.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolboxOptions {
    /// What the code in the box may do.
    pub policy: Policy,
    /// The directory that relative paths start from; one that the policy shows.
    pub workspace: PathBuf,
    /// The languages of `run_code`.
    pub languages: Languages,
    /// The tools that there are; none means all that the policy has a use for.
    pub tools: Option<Vec<String>>,
    /// How much of everything a result holds.
    pub limits: ToolLimits,
}

impl ToolboxOptions {
    /// For boxes of this policy, with this workspace.
    pub fn new(policy: Policy, workspace: impl Into<PathBuf>) -> Self {
        Self {
            policy,
            workspace: workspace.into(),
            languages: Languages::default(),
            tools: None,
            limits: ToolLimits::default(),
        }
    }
}

/// How much a result holds, and how long a call takes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolLimits {
    /// The most bytes of text of each stream or file in a result: half from its head, half from its tail.
    pub text: usize,
    /// The most entries of a list.
    pub entries: usize,
    /// The most bytes of a file that is read, written or edited.
    pub file: u64,
    /// The most processes in the background.
    pub background: usize,
    /// How long a call takes unless it says otherwise.
    pub timeout: Duration,
    /// The longest that a call may ask for.
    pub longest: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            text: 32 << 10,
            entries: 1000,
            file: 8 << 20,
            background: 16,
            timeout: Duration::from_secs(120),
            longest: Duration::from_secs(600),
        }
    }
}

/// A tool, as a model and its host program see it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// What it is called by.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it does, written for a model.
    pub description: String,
    /// What it takes: a JSON Schema.
    pub input_schema: Value,
    /// What it gives: a JSON Schema.
    pub output_schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may destroy something of the user's.
    pub destructive: bool,
    /// Whether calling it twice is like calling it once.
    pub idempotent: bool,
}

/// An image in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Image {
    /// Its media type.
    pub media_type: String,
    /// Its content in Base64.
    pub data: String,
}

/// What a call gave: for the model as text, for programs as a value.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// For the model. Nothing in it drives a terminal.
    pub text: String,
    /// For programs; it fits the tool's output schema, or is an error object with `error`.
    pub structured: Value,
    /// What the code drew.
    pub images: Vec<Image>,
    /// Whether the call failed or was refused.
    pub is_error: bool,
}

/// Something that a call did, told while it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallProgress {
    /// How many bytes of output there are so far.
    pub bytes: u64,
    /// The newest line of it, fit for showing.
    pub line: String,
}

/// Who hears how far a call is.
pub type OnProgress = Arc<dyn Fn(CallProgress) + Send + Sync>;

/// A box and what a model may do in it. Cheap to clone; [`Toolbox::close`] removes the box.
#[derive(Debug, Clone)]
pub struct Toolbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    #[expect(dead_code, reason = "for what comes")]
    options: ToolboxOptions,
    report: EnforcementReport,
}

impl Toolbox {
    /// Makes the box.
    pub async fn open(engine: &Engine, options: ToolboxOptions) -> Result<Self, EngineError> {
        let sandbox = engine.create(&options.policy).await?;
        let report = sandbox.report().clone();
        Ok(Self { shared: Arc::new(Shared { options, report }) })
    }

    /// The tools that there are.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    /// Calls a tool. What fails is part of the result. Dropping the future ends what the call had started in the foreground.
    pub async fn call(&self, name: &str, _arguments: Value, _progress: Option<OnProgress>) -> ToolResult {
        ToolResult {
            text: format!("there is no tool `{name}`"),
            structured: Value::Null,
            images: Vec::new(),
            is_error: true,
        }
    }

    /// What holds the box, by which mechanism.
    pub fn report(&self) -> &EnforcementReport {
        &self.shared.report
    }

    /// Removes the box and everything in it.
    pub async fn close(&self) {}
}
