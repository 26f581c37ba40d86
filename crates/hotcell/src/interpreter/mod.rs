//! Running code in a box: once, or in a context that remembers.
//!
//! A context is a process in the box that keeps variables between pieces of code. It speaks a small framed protocol over its
//! standard input and output. What it says is what untrusted code says: it is bounded and checked, and never trusted.
//!
//! ```
//! use hotcell::interpreter::{Code, CodeStatus, Interpreter, Languages};
//! use hotcell::{Engine, Policy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new().await?;
//! let sandbox = engine.create(&Policy::default()).await?;
//! let interpreter = Interpreter::new(Languages::default());
//! for source in ["x = 6", "print(x)\nx * 7"] {
//!     let code = Code::new("python", source).context("main");
//!     let output = interpreter.run(&*sandbox, &code, &|_| {}).await?;
//!     assert_eq!(output.status, CodeStatus::Done);
//! }
//! # Ok(())
//! # }
//! ```

mod call;
mod code;
mod contexts;
mod error;
mod frames;
mod kernel;
mod languages;
mod launch;
mod messages;
mod once;

use std::time::Instant;

use hotcell_core::backend::{CaptureLimits, Sandbox};

pub use code::{Code, CodeEvent, CodeOutput, CodeStatus, ContextInfo, Exception, Feed, OnEvent, RichResult};
pub use error::CodeError;
pub use languages::Languages;

use call::Call;
use contexts::{Context, Contexts};
use kernel::{Asked, Kernel, Started};
use languages::Runner;
use messages::Collector;

/// The most bytes of a piece of code.
const SOURCE: usize = 4 << 20;

/// How much is kept of what nobody asked for, for error messages.
const START_CAPTURE: CaptureLimits = CaptureLimits { head: 2 << 10, tail: 2 << 10 };

/// Runs code in one box, and keeps its contexts.
///
/// Calls may come from any task at any time. Code that runs once runs at the same time as other code; calls to one context queue, in the order in
/// which they came, and the time limit of each begins when its turn does. There are at most 8 contexts.
#[derive(Default)]
pub struct Interpreter {
    languages: Languages,
    capture: CaptureLimits,
    contexts: Contexts,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").field("languages", &self.languages).field("contexts", &self.contexts()).finish()
    }
}

impl Interpreter {
    /// Without any context yet.
    pub fn new(languages: Languages) -> Self {
        Self { languages, ..Self::default() }
    }

    /// Says how much of each stream to keep.
    #[must_use]
    pub fn capture(mut self, capture: CaptureLimits) -> Self {
        self.capture = capture;
        self
    }

    /// The languages that it knows.
    pub fn languages(&self) -> &Languages {
        &self.languages
    }

    /// Runs a piece of code to its end.
    ///
    /// All calls must name the same box. Dropping the future ends what ran once; code in a context is interrupted, and if it does not
    /// obey, its process is killed and the next call finds the context anew.
    pub async fn run(
        &self,
        sandbox: &dyn Sandbox,
        code: &Code,
        on_event: OnEvent<'_>,
    ) -> Result<CodeOutput, CodeError> {
        self.run_or_feed(sandbox, code, on_event, None).await
    }

    /// Runs a piece of code that has a standard input, once and to its end.
    ///
    /// `feed` is called when the code is about to run, with the one end of its input, and what it returns is polled until the code has ended: then it
    /// is dropped. The input ends when that end is closed or dropped.
    pub async fn run_with_stdin(
        &self,
        sandbox: &dyn Sandbox,
        code: &Code,
        on_event: OnEvent<'_>,
        feed: Feed<'_>,
    ) -> Result<CodeOutput, CodeError> {
        if code.context.is_some() {
            return Err(CodeError::invalid(
                "a standard input for code in a context",
                "only code that runs once has one",
            ));
        }
        self.run_or_feed(sandbox, code, on_event, Some(feed)).await
    }

    async fn run_or_feed(
        &self,
        sandbox: &dyn Sandbox,
        code: &Code,
        on_event: OnEvent<'_>,
        feed: Option<Feed<'_>>,
    ) -> Result<CodeOutput, CodeError> {
        check(code)?;
        let language = self.languages.find(&code.language)?;
        let collector = Collector::new(self.capture, on_event);
        match (&code.context, language.runner) {
            (None, Runner::Kernel(kind)) => once::run(sandbox, kind, code, feed, collector).await,
            (None, Runner::File(command)) => once::run_file(sandbox, "", &command, code, feed, collector).await,
            (Some(_), Runner::File(_)) => Err(CodeError::NoContexts { language: language.name }),
            (Some(name), Runner::Kernel(kind)) => {
                let context = self.contexts.open(name, &language.name, kind)?;
                self.run_in(sandbox, &context, code, collector).await
            }
        }
    }

    async fn run_in(
        &self,
        sandbox: &dyn Sandbox,
        context: &std::sync::Arc<Context>,
        code: &Code,
        mut collector: Collector<'_>,
    ) -> Result<CodeOutput, CodeError> {
        let mut held = context.hold().await?;
        let begun = Instant::now();
        // One moment for all of it: also a process that does not get ready, or does not answer, takes no more time than the call has.
        let deadline = code.timeout.and_then(|timeout| tokio::time::Instant::now().checked_add(timeout));
        let mut wishes = context.wishes();
        let Some(place) = held.place() else { return Err(CodeError::context(context.name(), "it is gone")) };
        loop {
            let is_new = place.is_none();
            if is_new {
                match Kernel::start(sandbox, context.kind, deadline, &mut wishes).await {
                    Ok(Started::Ready(kernel)) => *place = Some(*kernel),
                    // The next call is the first one that finds variables missing, if any were lost.
                    Ok(Started::Ended(call)) => return Ok(output(call, collector, context.is_lost(), begun)),
                    Err(error) => {
                        if context.is_fresh() {
                            self.contexts.forget(context);
                        }
                        context.lose();
                        return Err(error);
                    }
                }
            }
            let Some(kernel) = place.as_mut() else { continue };
            if kernel.sandbox() != sandbox.id() {
                return Err(CodeError::context(context.name(), "it lives in another box"));
            }
            let asked = kernel.call(&code.source, deadline, &mut wishes, &mut collector).await;
            match asked {
                Ok(Asked::Ended(call)) => {
                    context.counted();
                    // Only now is somebody told: a call that is dropped on the way tells nobody.
                    let was_lost = context.take_lost();
                    if call.is_lost {
                        *place = None;
                        context.lose();
                    }
                    return Ok(output(call, collector, was_lost, begun));
                }
                Ok(Asked::NotBegun) => {
                    kernel.end().await;
                    *place = None;
                    context.lose();
                    if is_new {
                        let program = context.kind.program().to_owned();
                        let reason = "it does not answer any more".to_owned();
                        return Err(CodeError::NotReady { program, reason });
                    }
                    // It ended between two calls, and nothing of this one has run.
                }
                Err(error) => {
                    *place = None;
                    context.lose();
                    return Err(error);
                }
            }
        }
    }

    /// Interrupts what a context runs; whether it ran something. It does not wait: the call that is interrupted says how that went.
    pub async fn interrupt(&self, context: &str) -> Result<bool, CodeError> {
        Ok(self.contexts.interrupt(context))
    }

    /// Makes a context anew, without its variables; whether there was one. Code that it runs is ended; calls that wait for their turn
    /// run in the new one.
    pub async fn restart(&self, sandbox: &dyn Sandbox, context: &str) -> Result<bool, CodeError> {
        let Some(context) = self.contexts.get(context) else { return Ok(false) };
        let mut held = context.hold_anew().await?;
        let Some(place) = held.place() else { return Ok(false) };
        // Nobody has to be told of what was asked for.
        context.take_lost();
        match Kernel::start(sandbox, context.kind, None, &mut context.wishes()).await? {
            Started::Ready(kernel) => *place = Some(*kernel),
            Started::Ended(_) => return Err(CodeError::context(context.name(), "it was ended while it started")),
        }
        Ok(true)
    }

    /// Ends a context; whether there was one. Returns when its process is gone.
    pub async fn remove(&self, context: &str) -> Result<bool, CodeError> {
        Ok(self.contexts.remove(context).await)
    }

    /// The contexts that there are, sorted by name.
    pub fn contexts(&self) -> Vec<ContextInfo> {
        self.contexts.list()
    }

    /// Ends all contexts, and returns when their processes are gone.
    pub async fn close(&self) {
        self.contexts.remove_all().await;
    }
}

fn output(call: Call, collector: Collector<'_>, was_lost: bool, begun: Instant) -> CodeOutput {
    let collected = collector.finish();
    CodeOutput {
        status: call.status,
        stdout: collected.stdout,
        stderr: collected.stderr,
        results: collected.results,
        results_left_out: collected.left_out,
        exception: call.exception,
        exited: call.exited,
        context_was_replaced: was_lost || call.is_lost,
        hint: call.hint,
        process: call.process,
        wall: begun.elapsed(),
    }
}

/// Finds what no language takes, before anything is started.
fn check(code: &Code) -> Result<(), CodeError> {
    if code.source.len() > SOURCE {
        let reason = format!("it has {} bytes, and {SOURCE} are possible; put data into a file", code.source.len());
        return Err(CodeError::invalid("the code", reason));
    }
    if code.source.contains('\0') {
        return Err(CodeError::invalid("the code", "it contains a NUL character"));
    }
    if code.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(CodeError::invalid("the timeout", "it is zero"));
    }
    if code.context.is_some() && (code.name.is_some() || !code.args.is_empty()) {
        let reason = "a context is no program: put what it should know into the code";
        return Err(CodeError::invalid("a name or an argument for code in a context", reason));
    }
    if code.context.is_some() && (code.cwd.is_some() || !code.env.is_empty()) {
        let reason = "a context has one directory and one environment for all its code; change them in the code";
        return Err(CodeError::invalid("a directory or a variable for code in a context", reason));
    }
    Ok(())
}
