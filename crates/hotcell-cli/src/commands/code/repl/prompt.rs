//! The line that somebody types into.

use std::thread;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor};
use tokio::sync::mpsc;

use super::complete::{Dialect, is_complete};
use super::history::History;
use crate::failure::Failure;

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// A thread that reads lines: waiting for keys must not hold up what the box needs. It ends with the process.
pub(super) struct Prompt {
    asked: mpsc::Sender<()>,
    typed: mpsc::Receiver<Result<Typed, ReadlineError>>,
}

impl Prompt {
    pub(super) fn start(language: &str) -> Result<Self, Failure> {
        let mut editor = editor(language).map_err(|error| broken(&error))?;
        let history = History::of(language);
        history.load(&mut editor);
        let (asked, mut questions) = mpsc::channel(1);
        let (answers, typed) = mpsc::channel(1);
        let prompt = format!("{language}> ");
        let read = move || {
            while questions.blocking_recv().is_some() {
                let answer = match editor.readline(&prompt) {
                    Ok(text) => {
                        if !text.trim().is_empty() && editor.add_history_entry(text.as_str()).is_ok() {
                            history.append(&mut editor);
                        }
                        Ok(Typed::Text(text))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Typed::End),
                    Err(error) => Err(error),
                };
                if answers.blocking_send(answer).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("prompt".to_owned())
            .spawn(read)
            .map_err(|error| Failure::new("terminal", format!("cannot start a thread: {error}")))?;
        Ok(Self { asked, typed })
    }

    /// Shows the prompt and waits for what is typed.
    pub(super) async fn ask(&mut self) -> Result<Typed, Failure> {
        if self.asked.send(()).await.is_err() {
            return Ok(Typed::End);
        }
        match self.typed.recv().await {
            Some(answer) => answer.map_err(|error| broken(&error)),
            None => Ok(Typed::End),
        }
    }
}

fn editor(language: &str) -> rustyline::Result<Editor<Lines, FileHistory>> {
    let config = Config::builder().max_history_size(History::ENTRIES)?.history_ignore_space(true).build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Lines { dialect: Dialect::of(language) }));
    Ok(editor)
}

fn broken(error: &ReadlineError) -> Failure {
    Failure::new("terminal", format!("cannot read from the terminal: {error}"))
}

/// Tells whether Enter runs the code or makes a new line.
struct Lines {
    dialect: Dialect,
}

impl Validator for Lines {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(self.dialect, context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl rustyline::completion::Completer for Lines {
    type Candidate = String;
}

impl rustyline::hint::Hinter for Lines {
    type Hint = String;
}

impl rustyline::highlight::Highlighter for Lines {}

impl rustyline::Helper for Lines {}
