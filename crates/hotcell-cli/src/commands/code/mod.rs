//! `hotcell code`: code in a box, once or at a prompt that remembers.

mod images;
mod piece;
mod repl;
mod report;
mod screen;
mod source;
mod unkept;
mod view;

use std::sync::Arc;

use hotcell::interpreter::{Code, CodeError, CodeOutput, CodeStatus, Interpreter, Languages};
use hotcell::outcome::Status;
use hotcell::policy::Policy;
use hotcell::settings::Settings;
use hotcell::{Engine, EngineError, Isolation, Sandbox};

use super::{block_on, over_the_workspace, prepare, without_time_limit};
use crate::arguments_code::CodeArguments;
use crate::failure::Failure;
use crate::progress::Pulls;
use crate::report::limit_message;
use crate::session::Signals;
use crate::{exit, output};
use images::Images;
use piece::{Ended, Piece};
use screen::Screen;
use source::Source;

/// Runs the code; the exit code is its own where it has one.
pub(crate) fn execute(arguments: CodeArguments) -> Result<u8, Failure> {
    let source = Source::find(arguments.code, arguments.words)?;
    if arguments.json && matches!(source, Source::Prompt) {
        return Err(Failure::usage("--json needs code: `-c`, a file, or `-` for stdin"));
    }
    // Opened before anything runs: what the code does to the path later does not matter.
    let images = arguments.save_images.as_deref().map(Images::open).transpose()?;
    let flags = arguments.policy.to_config(false)?;
    let defaults = if matches!(source, Source::Prompt) { without_time_limit() } else { Default::default() };
    let defaults = over_the_workspace(defaults);
    let job = Job { language: arguments.language, source, json: arguments.json, images };
    block_on(async move {
        let pulls = Pulls::new();
        let (engine, mut settings) = prepare(flags, defaults, arguments.policy.policy, pulls.listener()).await?;
        if view::narrow(&mut settings, &engine.capabilities()) && !job.json {
            output::message(view::READ_ONLY);
        }
        let result = in_engine(&engine, settings, job, &pulls).await;
        // Whatever happened, nothing stays behind: this waits until the helper has ended, and with it everything.
        drop(engine);
        result
    })
}

/// What is asked for, apart from the policy.
struct Job {
    language: String,
    source: Source,
    json: bool,
    images: Option<Images>,
}

/// A box with an interpreter.
struct Session {
    sandbox: Arc<Box<dyn Sandbox>>,
    interpreter: Arc<Interpreter>,
    /// What was asked for.
    policy: Policy,
}

impl Session {
    /// Removes the box, if that is for us to do: a local one ends with its engine. One on a server is removed, after what it
    /// changed was brought back.
    async fn close(self) -> Result<(), Failure> {
        self.interpreter.close().await;
        if self.sandbox.report().isolation == Isolation::Remote
            && let Ok(sandbox) = Arc::try_unwrap(self.sandbox)
        {
            sandbox.destroy().await.map_err(|error| Failure::engine(EngineError::Destroy(error), &[]))?;
        }
        Ok(())
    }
}

async fn in_engine(engine: &Engine, settings: Settings, job: Job, pulls: &Pulls) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new("signals", error))?;
    let mut policy = settings.policy.clone();
    if matches!(job.source, Source::Prompt) {
        // It is for each piece of code, and the interpreter lives longer than that.
        policy.limits.timeout.value = None;
    }
    let created = engine.create(&policy).await;
    pulls.end();
    let sandbox = created.map_err(|error| Failure::engine(error, &engine.capabilities()))?;
    let session = Session {
        sandbox: Arc::new(sandbox),
        interpreter: Arc::new(Interpreter::new(languages(&settings))),
        policy: settings.policy,
    };
    let result = match job.source {
        Source::Prompt => repl::run(&session, &job.language, job.images, &mut signals).await,
        Source::Script(script) => {
            let has_stdin = script.has_stdin;
            let code = script.code(job.language);
            once(&session, code, has_stdin, job.json, job.images, &mut signals).await
        }
    };
    let closed = session.close().await;
    let code = result?;
    closed.map(|()| code)
}

/// Those that are built in, and those of the user's file.
fn languages(settings: &Settings) -> Languages {
    settings.languages.iter().fold(Languages::default(), |known, (name, command)| known.with(name, command.clone()))
}

async fn once(
    session: &Session,
    code: Code,
    has_stdin: bool,
    json: bool,
    images: Option<Images>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let language = code.language.clone();
    let screen = Arc::new(if json { Screen::silent(images) } else { Screen::live(images)? });
    let piece = Piece::start(session, code, has_stdin, &screen)?;
    let output = match piece.finish(session, signals).await? {
        Ended::ByItself(output) => *output,
        Ended::BySignal(signal) => return Ok(exit::of(Status::Signaled(signal.number()))),
        Ended::ReaderGone => return Ok(exit::READER_GONE),
        Ended::Unwritten(error) => return Err(Failure::unwritten("stdout", &error)),
    };
    let code = exit_code(&output);
    if json {
        let saved = screen.save_all(&output.results);
        let unkept = unkept::count(session).await;
        let text = report::line(session, &language, output, code, saved, unkept);
        let written = output::to_stdout(&text)?;
        return Ok(if written == exit::SUCCESS { code } else { written });
    }
    screen.end();
    explain(&output, &session.policy);
    unkept::tell(session).await;
    Ok(code)
}

/// Says on stderr how code ended, where its own output does not.
fn explain(output: &CodeOutput, policy: &Policy) {
    if let Some(exception) = &output.exception {
        output::lines(&with_line_end(&exception.traceback));
    }
    match &output.status {
        CodeStatus::TimedOut => output::error(&timed_out(policy)),
        CodeStatus::Crashed { reason } => {
            let limit = output.process.and_then(|status| limit_message(status, &policy.limits));
            output::error(&limit.unwrap_or_else(|| format!("the code's process is gone: {reason}")));
        }
        _ => {}
    }
    if let Some(hint) = &output.hint {
        output::hint(hint);
    }
}

fn timed_out(policy: &Policy) -> String {
    limit_message(Status::TimedOut, &policy.limits).unwrap_or_else(|| "timed out".to_owned())
}

fn with_line_end(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// As `hotcell run` would have it.
fn exit_code(output: &CodeOutput) -> u8 {
    match (&output.status, output.process) {
        (CodeStatus::TimedOut, _) => exit::of(Status::TimedOut),
        (CodeStatus::Interrupted, _) => exit::of(Status::Signaled(hotcell::Signal::INT.number())),
        (CodeStatus::Failed { exit_code: Some(code) }, _) => exit::from_number(*code),
        (_, Some(status)) => exit::of(status),
        (CodeStatus::Done, None) => exit::SUCCESS,
        (_, None) => exit::INCOMPLETE,
    }
}

/// Code that could not be run.
fn failure(error: CodeError) -> Failure {
    match error {
        CodeError::Spawn(error) => Failure::engine(EngineError::Spawn(error), &[]),
        CodeError::Process(error) => Failure::engine(EngineError::Process(error), &[]),
        CodeError::NoContexts { .. } => {
            Failure::new("code", error).hint("give it code with `-c`, as a file, or on stdin")
        }
        error => Failure::new("code", error),
    }
}
