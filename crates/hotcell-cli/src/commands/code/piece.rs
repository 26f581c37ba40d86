//! A piece of code that runs, and the signals that it hears meanwhile.

use std::io;
use std::sync::Arc;
use std::thread;

use hotcell::Signal;
use hotcell::interpreter::{Code, CodeError, CodeOutput, Feed};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::screen::Screen;
use super::{Session, failure};
use crate::failure::Failure;
use crate::session::{Event, Signals, pump};

/// How it ended.
pub(super) enum Ended {
    /// It ran to its end.
    ByItself(Box<CodeOutput>),
    /// Somebody insisted; what ran was ended.
    BySignal(Signal),
    /// Whoever read our stdout is gone; what ran was ended.
    ReaderGone,
    /// Our stdout could not be written; what ran was ended.
    Unwritten(io::Error),
}

/// A running piece of code.
///
/// It has a thread of its own, because its output is written where it is read from the box: a slow reader holds up the code, as
/// it should, but neither signals nor time limits. A thread that still waits for a reader at the end ends with the process.
pub(super) struct Piece {
    context: Option<String>,
    ended: oneshot::Receiver<Option<Result<CodeOutput, CodeError>>>,
    cancel: Arc<Notify>,
    screen: Arc<Screen>,
}

impl Piece {
    /// Starts it; with `has_stdin`, our stdin is the code's.
    pub(super) fn start(session: &Session, code: Code, has_stdin: bool, screen: &Arc<Screen>) -> Result<Self, Failure> {
        let (report, ended) = oneshot::channel();
        let cancel = Arc::new(Notify::new());
        let context = code.context.clone();
        let runtime = Handle::current();
        let (sandbox, interpreter) = (Arc::clone(&session.sandbox), Arc::clone(&session.interpreter));
        let (canceled, shown) = (Arc::clone(&cancel), Arc::clone(screen));
        let run = move || {
            let on_event = |event: hotcell::interpreter::CodeEvent<'_>| shown.take(&event);
            let result = runtime.block_on(async {
                let run = async {
                    match has_stdin {
                        true => {
                            let feed: Feed<'_> = Box::new(|stdin| Box::pin(pump(stdin)));
                            interpreter.run_with_stdin(&**sandbox, &code, &on_event, feed).await
                        }
                        false => interpreter.run(&**sandbox, &code, &on_event).await,
                    }
                };
                tokio::select! {
                    biased;
                    () = canceled.notified() => None,
                    result = run => Some(result),
                }
            });
            // Given back before anybody hears of the end: the box may be removed then.
            drop((sandbox, interpreter));
            let _ = report.send(result);
        };
        thread::Builder::new()
            .name("code".to_owned())
            .spawn(run)
            .map_err(|error| Failure::new("code", format!("cannot start a thread: {error}")))?;
        Ok(Self { context, ended, cancel, screen: Arc::clone(screen) })
    }

    /// Waits for the end. The first interrupt is for the code: one that remembers hears of it, one that runs once is ended.
    pub(super) async fn finish(mut self, session: &Session, signals: &mut Signals) -> Result<Ended, Failure> {
        let mut asked: Option<Signal> = None;
        loop {
            tokio::select! {
                biased;
                result = &mut self.ended => return Ok(match (result, asked) {
                    (Ok(Some(result)), _) => match self.screen.error() {
                        None => Ended::ByItself(Box::new(result.map_err(failure)?)),
                        Some(error) => unwritten(error),
                    },
                    (Ok(None), Some(signal)) => Ended::BySignal(signal),
                    (Ok(None), None) => unwritten(self.screen.error().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
                    (Err(_), _) => return Err(Failure::new("code", "the thread that ran the code is gone")),
                }),
                () = self.screen.broken.notified() => self.cancel.notify_one(),
                event = signals.next() => match (event, asked) {
                    (Event::Resized, _) => {}
                    // Whoever asks twice means it, also when only a slow reader of the output holds us up.
                    (Event::Asked(signal), Some(_)) => {
                        self.cancel.notify_one();
                        return Ok(Ended::BySignal(signal));
                    }
                    (Event::Asked(signal), None) => {
                        asked = Some(signal);
                        match &self.context {
                            Some(context) if signal == Signal::INT => {
                                let _ = session.interpreter.interrupt(context).await;
                            }
                            _ => self.cancel.notify_one(),
                        }
                    }
                },
            }
        }
    }
}

fn unwritten(error: io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ended::ReaderGone,
        _ => Ended::Unwritten(error),
    }
}
