//! `run_code`: code in the box, once or in a context that remembers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Shared;
use super::exec::{Teller, millis, push_denials, push_section};
use super::result::Render;
use super::text::{self, Returns};
use super::{Denial, ErrorKind, Image, OnProgress, ToolError, Toolbox, denials};
use crate::interpreter::{Code, CodeError, CodeEvent, CodeOutput, CodeStatus, RichResult};

/// The longest piece of code.
const LONGEST_CODE: usize = 1 << 20;
/// The longest name of a context or language.
const LONGEST_NAME: usize = 64;
/// How many results and images are returned.
const MOST_RESULTS: usize = 32;
const MOST_IMAGES: usize = 8;
/// How many streams' worth of text all results together take.
const MOST_TEXTS: usize = 4;
/// Images that models can look at.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Other formats, those that say most to a model first.
const PREFERRED: [&str; 6] =
    ["text/markdown", "text/plain", "application/json", "text/html", "text/latex", "image/svg+xml"];

/// What `run_code` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCode {
    /// The language.
    pub language: String,
    /// The code. In a context the value of its last expression is returned.
    pub code: String,
    /// A name of yours for a context that keeps variables, functions and imports between calls. Without it the code runs in a process of
    /// its own that remembers nothing.
    #[serde(default)]
    pub context: Option<String>,
    /// Milliseconds after which the code is ended.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
}

impl RunCode {
    /// Code that runs once.
    pub fn new(language: impl Into<String>, code: impl Into<String>) -> Self {
        Self { language: language.into(), code: code.into(), ..Self::default() }
    }

    /// In a context that remembers.
    #[must_use]
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }
}

/// What `run_code` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunCodeResult {
    /// `done`, `failed`, `timed-out`, `interrupted` or `crashed`.
    pub status: String,
    /// The exit code of code that ran once and failed.
    pub exit_code: Option<i32>,
    /// What it wrote to standard output: all of it, or head and tail.
    pub stdout: String,
    /// What it wrote to standard error: all of it, or head and tail.
    pub stderr: String,
    /// What it showed, and the value of its last expression.
    pub results: Vec<ShownResult>,
    /// How many more it showed that are left out, because they are too many or too large.
    pub results_left_out: u64,
    /// What it raised.
    pub exception: Option<Raised>,
    /// What ended it, where it crashed.
    pub reason: Option<String>,
    /// Whether the context had to be made anew: its variables are lost.
    pub context_was_replaced: bool,
    /// What might help.
    pub hint: Option<String>,
    /// How many bytes of output are not shown.
    pub left_out_bytes: u64,
    /// Whether it wrote bytes that are no UTF-8; they are shown as U+FFFD.
    pub not_utf8: bool,
    /// How long it took.
    pub wall_ms: u64,
    /// What the policy denied, as far as that is known.
    pub denials: Vec<Denial>,
    #[serde(skip)]
    images: Vec<Image>,
}

/// Something that code shows: the same thing in one or more formats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ShownResult {
    /// Whether it is the value of the last expression.
    pub is_value: bool,
    /// Content by media type. An image is `image 1` and so on, and is beside the result.
    pub data: BTreeMap<String, String>,
}

/// What was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Raised {
    /// Its type.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it came from.
    pub traceback: String,
}

impl Render for RunCodeResult {
    fn text(&self) -> String {
        let mut shown = match self.exit_code {
            Some(code) => format!("{} with exit code {code} after {} ms", self.status, self.wall_ms),
            None => format!("{} after {} ms", self.status, self.wall_ms),
        };
        if let Some(reason) = &self.reason {
            shown.push_str(&format!(": {reason}"));
        }
        if self.context_was_replaced {
            shown.push_str("\nthe context is new: its variables are lost");
        }
        if let Some(hint) = &self.hint {
            shown.push_str(&format!("\nhint: {hint}"));
        }
        push_denials(&mut shown, &self.denials);
        push_section(&mut shown, "stdout", &self.stdout);
        push_section(&mut shown, "stderr", &self.stderr);
        for result in &self.results {
            push_section(&mut shown, if result.is_value { "value" } else { "shown" }, best(result));
        }
        if self.results_left_out > 0 {
            shown.push_str(&format!("\n({} more results are left out)", self.results_left_out));
        }
        if let Some(raised) = &self.exception {
            let summary = format!("{}: {}", raised.name, raised.message);
            push_section(
                &mut shown,
                "exception",
                if raised.traceback.is_empty() { &summary } else { &raised.traceback },
            );
        }
        shown
    }

    fn take_images(&mut self) -> Vec<Image> {
        std::mem::take(&mut self.images)
    }
}

/// The format that says most to a model.
fn best(result: &ShownResult) -> &str {
    let images = IMAGES.iter().copied();
    let found = PREFERRED.into_iter().chain(images).find_map(|kind| result.data.get(kind));
    found.or_else(|| result.data.values().next()).map_or("", String::as_str)
}

impl Toolbox {
    /// Runs code in the box.
    pub async fn run_code(&self, input: RunCode) -> Result<RunCodeResult, ToolError> {
        self.run_code_with(input, None).await
    }

    pub(super) async fn run_code_with(
        &self,
        input: RunCode,
        progress: Option<OnProgress>,
    ) -> Result<RunCodeResult, ToolError> {
        self.shared.until_closed(run(&self.shared, input, progress)).await
    }
}

async fn run(shared: &Shared, input: RunCode, progress: Option<OnProgress>) -> Result<RunCodeResult, ToolError> {
    if input.code.len() > LONGEST_CODE {
        let message = format!("the code has {} bytes, {LONGEST_CODE} are possible", input.code.len());
        return Err(
            ToolError::new(ErrorKind::TooLarge, message).instead("put it into a file with write_file and run that")
        );
    }
    for (what, name) in [("language", Some(&input.language)), ("context", input.context.as_ref())] {
        if let Some(name) = name
            && (name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0'))
        {
            return Err(ToolError::invalid(format!("`{what}` is not a name of 1 to {LONGEST_NAME} bytes")));
        }
    }
    if let Some(name) = input.context.as_deref().filter(|name| is_name_of_process(name)) {
        return Err(ToolError::invalid(format!("`{name}` is how processes in the background are named"))
            .instead("give the context another name, for instance `main`"));
    }
    let time = shared.time(input.timeout_ms)?;
    let mut code = Code::new(input.language, input.code).timeout(time);
    code.context = input.context;
    let teller = Mutex::new(Teller::new(progress));
    let told = |event: CodeEvent<'_>| {
        if let CodeEvent::Output(_, bytes) = event {
            teller.lock().unwrap_or_else(PoisonError::into_inner).tell(bytes);
        }
    };
    let _quiet = shared.quiet.read().await;
    let sandbox = shared.sandbox().await?;
    let output = shared.interpreter.run(&*sandbox, &code, &told).await.map_err(code_error)?;
    Ok(result(shared, output, time))
}

/// Whether stop_process would look for a process of this name.
fn is_name_of_process(name: &str) -> bool {
    let digits = name.strip_prefix('p').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn result(shared: &Shared, output: CodeOutput, time: Duration) -> RunCodeResult {
    let (status, exit_code, reason) = match output.status {
        CodeStatus::Done => ("done", None, None),
        CodeStatus::Failed { exit_code } => ("failed", exit_code, None),
        CodeStatus::TimedOut => ("timed-out", None, None),
        CodeStatus::Interrupted => ("interrupted", None, None),
        CodeStatus::Crashed { reason } => ("crashed", None, Some(text::line(&reason))),
    };
    let mut words = [output.stdout.bytes().as_slice(), b"\n", &output.stderr.bytes()].concat();
    if let Some(raised) = &output.exception {
        words.extend_from_slice(format!("\n{}: {}", raised.name, raised.message).as_bytes());
    }
    let denials = denials::of_code(shared, output.process, time, status != "done", &words);
    let most = shared.options.limits.text;
    let bounded = |part: &str| text::bounded(part.as_bytes(), most, Returns::EndLines).text;
    let (stdout, stderr) = (text::stream(&output.stdout, most), text::stream(&output.stderr, most));
    let mut images = Vec::new();
    let mut room = most.saturating_mul(MOST_TEXTS);
    let mut results = Vec::new();
    let mut results_left_out = output.results_left_out;
    for result in output.results {
        if results.len() == MOST_RESULTS || room == 0 {
            results_left_out += 1;
        } else {
            results.push(shown_result(shared, result, &mut room, &mut images));
        }
    }
    RunCodeResult {
        status: status.to_owned(),
        exit_code,
        left_out_bytes: stdout.left_out + stderr.left_out,
        not_utf8: stdout.lossy || stderr.lossy,
        stdout: stdout.text,
        stderr: stderr.text,
        results,
        results_left_out,
        exception: output.exception.map(|raised| Raised {
            name: text::cut(&text::line(&raised.name), 200),
            message: bounded(&raised.message),
            traceback: bounded(&raised.traceback),
        }),
        reason,
        context_was_replaced: output.context_was_replaced,
        hint: output.hint.map(|hint| text::lines(&hint)),
        wall_ms: millis(output.wall),
        denials,
        images,
    }
}

fn shown_result(shared: &Shared, result: RichResult, room: &mut usize, images: &mut Vec<Image>) -> ShownResult {
    let (most, most_image) = (shared.options.limits.text, shared.options.limits.image);
    let mut shown = |kind: &str, content: String| {
        if !IMAGES.contains(&kind) {
            let text = text::bounded(content.as_bytes(), most, Returns::EndLines).text;
            if text.len() > *room {
                *room = 0;
                return format!("{} bytes that are not shown", content.len());
            }
            *room -= text.len();
            return text;
        }
        // What an untrusted process calls Base64 may be anything.
        let is_base64 = content.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        if !is_base64 {
            return "an image that is not Base64".to_owned();
        }
        if content.len() as u64 / 4 * 3 > most_image || images.len() == MOST_IMAGES {
            return format!("an image of {} bytes that is not shown", content.len() / 4 * 3);
        }
        images.push(Image { media_type: kind.to_owned(), data: content });
        format!("image {}", images.len())
    };
    let mut entries: Vec<_> = result.data.into_iter().take(MOST_RESULTS).collect();
    // What says most gets its room first.
    entries.sort_by_key(|(kind, _)| PREFERRED.iter().position(|preferred| preferred == kind).unwrap_or(usize::MAX));
    let data = entries
        .into_iter()
        .map(|(kind, content)| (text::cut(&text::line(&kind), 100), shown(&kind, content)))
        .collect();
    ShownResult { is_value: result.is_value, data }
}

pub(super) fn code_error(error: CodeError) -> ToolError {
    let message = text::lines(&error.to_string());
    match error {
        CodeError::UnknownLanguage { .. } => {
            ToolError::invalid(message).instead("use one of these languages, or exec_shell for other programs")
        }
        CodeError::NoContexts { .. } => ToolError::new(ErrorKind::Unsupported, message).instead("leave `context` out"),
        CodeError::NotInstalled { hint, .. } => {
            ToolError::new(ErrorKind::NotFound, message).instead(text::lines(&hint))
        }
        CodeError::NotReady { .. } => ToolError::new(ErrorKind::Failed, message)
            .instead("see with sandbox_status whether a limit is too low for it, or use another language"),
        CodeError::Context { .. } => ToolError::new(ErrorKind::Busy, message).instead(
            "use another name for `context`; sandbox_status lists contexts, and stop_process ends one that is not needed",
        ),
        CodeError::Invalid { .. } => ToolError::invalid(message),
        CodeError::Spawn(error) => error.into(),
        CodeError::Process(error) => error.into(),
        CodeError::Files(error) => super::error::of_files(&error),
    }
}
