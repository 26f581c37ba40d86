//! The prompt: what is typed runs in a context that remembers.

mod complete;
mod history;
mod prompt;
mod shell;

use std::sync::Arc;

use hotcell::Signal;
use hotcell::interpreter::{Code, CodeStatus};
use hotcell::outcome::Status;

use super::images::Images;
use super::piece::{Ended, Piece};
use super::screen::Screen;
use super::{Session, explain, failure, unkept};
use crate::failure::Failure;
use crate::session::{Event, Signals};
use crate::terminal::KeptMode;
use crate::{exit, output};
use prompt::{Prompt, Typed};

/// The context that everything typed runs in.
const CONTEXT: &str = "prompt";

const HELP: &str = "\
  :restart  forget all variables
  :help     this
  Enter     run what is typed, or go on with it where it is not whole; two empty lines run it in any case
  Ctrl-C    interrupt the code, or clear what is typed; twice ends code that does not listen
  Ctrl-D    leave
";

/// Asks for code and runs it, until somebody leaves.
pub(super) async fn run(
    session: &Session,
    language: &str,
    images: Option<Images>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let screen = Arc::new(Screen::live(images)?);
    // Nothing is typed yet: a language that has no contexts, or is not in the box, is better known now.
    if let Some(code) = run_piece(session, language, "", &screen, signals).await? {
        return Ok(code);
    }
    // Whoever ends us while somebody types finds the terminal as it was.
    let _mode = KeptMode::keep();
    let isolation = session.sandbox.report().isolation;
    output::message(&format!("{language} in a box, isolation {isolation}; :help helps, Ctrl-D leaves"));
    let mut prompt = Prompt::start(language)?;
    loop {
        let typed = tokio::select! {
            typed = prompt.ask() => typed,
            signal = ending(signals) => return Ok(exit::of(Status::Signaled(signal.number()))),
        };
        match typed? {
            Typed::End => {
                // What still runs in the background may change something yet.
                session.interpreter.close().await;
                unkept::tell(session).await;
                return Ok(exit::SUCCESS);
            }
            Typed::Interrupted => {}
            Typed::Text(text) => match text.trim() {
                "" => {}
                ":help" => output::lines(HELP),
                ":restart" => restart(session).await?,
                command if is_command(command) => {
                    output::message(&format!("there is no `{command}`; :help says what there is"));
                }
                _ => {
                    if let Some(code) = run_piece(session, language, &text, &screen, signals).await? {
                        return Ok(code);
                    }
                }
            },
        }
    }
}

/// Runs what was typed; an exit code if that is the end of everything.
async fn run_piece(
    session: &Session,
    language: &str,
    text: &str,
    screen: &Arc<Screen>,
    signals: &mut Signals,
) -> Result<Option<u8>, Failure> {
    let mut code = Code::new(language, text).context(CONTEXT);
    if let Some(timeout) = session.policy.limits.timeout.value {
        code = code.timeout(timeout);
    }
    let ended = Piece::start(session, code, false, screen)?.finish(session, signals).await?;
    screen.end_line();
    match ended {
        Ended::ByItself(output) => {
            explain(&output, &session.policy);
            match (output.exited, output.context_was_replaced) {
                (true, replaced) => output::message(&exited(&output.status, replaced)),
                (false, true) => output::message("the interpreter was started anew: all variables are forgotten"),
                (false, false) => {}
            }
            Ok(None)
        }
        Ended::BySignal(Signal::INT) => {
            restart(session).await?;
            Ok(None)
        }
        Ended::BySignal(signal) => Ok(Some(exit::of(Status::Signaled(signal.number())))),
        Ended::ReaderGone => Ok(Some(exit::READER_GONE)),
        Ended::Unwritten(error) => Err(Failure::unwritten("stdout", &error)),
    }
}

/// Whether it is for the prompt, and not code: `:` and a word. A shell has a command `:` of its own.
fn is_command(text: &str) -> bool {
    text.trim().strip_prefix(':').is_some_and(|word| word.starts_with(char::is_alphabetic))
}

/// What is said of code that ended itself: whoever typed `exit()` may have meant the prompt.
fn exited(status: &CodeStatus, replaced: bool) -> String {
    let code = match status {
        CodeStatus::Failed { exit_code: Some(code) } => *code,
        _ => 0,
    };
    let then = match replaced {
        true => "the interpreter was started anew, and all variables are forgotten",
        false => "the interpreter goes on, and all variables are kept",
    };
    format!("the code exited with status {code}; {then}; Ctrl-D leaves")
}

async fn restart(session: &Session) -> Result<(), Failure> {
    session.interpreter.restart(&**session.sandbox, CONTEXT).await.map_err(failure)?;
    output::message("all variables are forgotten");
    Ok(())
}

/// A signal that ends us while somebody types. Ctrl-C is a key then; one that was sent some other way is nobody's.
async fn ending(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            Event::Asked(signal) if signal != Signal::INT => return signal,
            _ => {}
        }
    }
}
