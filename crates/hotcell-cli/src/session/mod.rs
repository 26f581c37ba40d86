//! One command, from its start to its end: streams, signals and terminal, while the engine holds the policy.

mod signals;
mod sink;
mod stdin;

use hotcell::outcome::Outcome;
use hotcell::policy::Policy;
use hotcell::{Engine, Isolation, OneShot};
use hotcell::{OutputEvents, ProcessStdin, SpawnConfig};

use crate::failure::Failure;
use crate::progress::Pulls;
use crate::report::Streams;
use crate::terminal::{self, RawMode};

pub(crate) use signals::{Event, Signals};
pub(crate) use sink::Sink;
pub(crate) use stdin::{mode as stdin_mode, pump};

/// Runs a command to its end: when this returns, all its output is where it belongs. None if whoever read our stdout is
/// gone; the command was then ended.
pub(crate) async fn run(
    engine: &Engine,
    policy: &Policy,
    config: SpawnConfig,
    mut sink: Sink,
    pulls: &Pulls,
) -> Result<Option<(Outcome, Streams)>, Failure> {
    let raw_terminal = config.tty.is_some() && sink.is_live();
    let mut signals = Signals::listen().map_err(|error| Failure::new("signals", error))?;
    let started = engine.start(policy, config).await;
    pulls.end();
    let mut command = started.map_err(|error| Failure::engine(error, &engine.capabilities()))?;
    let raw_mode = match raw_terminal.then(RawMode::enter).transpose() {
        Ok(raw_mode) => raw_mode.flatten(),
        Err(error) => {
            // Without it the command would get half of what is typed.
            let _ = command.destroy().await;
            return Err(Failure::new("terminal", format!("could not switch your terminal to raw mode: {error}")));
        }
    };
    let io = command.take_io();
    let written = drive(&command, io.stdin, io.output, &mut signals, &mut sink).await;
    drop(raw_mode);
    let outcome = finish(command, engine).await?;
    match written {
        Ok(()) => Ok(Some((outcome, sink.streams()))),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::unwritten("stdout", &error)),
    }
}

/// Waits for the command. A local box is only let go of: whoever ends the engine waits for all of it at once. One on a server
/// is removed, after what it changed was brought back.
async fn finish(command: OneShot, engine: &Engine) -> Result<Outcome, Failure> {
    let ended = match command.report().isolation {
        Isolation::Remote => command.finish().await,
        _ => command.wait().await,
    };
    ended.map_err(|error| Failure::engine(error, &engine.capabilities()))
}

/// Carries bytes and signals until the command and all its output have ended, or the user insists.
async fn drive(
    command: &OneShot,
    stdin: Option<Box<dyn ProcessStdin>>,
    output: Option<Box<dyn OutputEvents>>,
    signals: &mut Signals,
    sink: &mut Sink,
) -> std::io::Result<()> {
    let input = async {
        if let Some(stdin) = stdin {
            pump(stdin).await;
        }
        // The end of the input is not the end of the session.
        std::future::pending::<()>().await;
    };
    let output = async {
        if let Some(mut output) = output {
            while let Some(event) = output.next().await {
                sink.write(event).await?;
            }
        }
        sink.finish().await
    };
    let control = async {
        let mut asked_to_end = false;
        loop {
            match signals.next().await {
                Event::Resized => {
                    let _ = command.resize(terminal::size()).await;
                }
                // Whoever asks twice means it, also when only a slow reader of the output holds us up.
                Event::Asked(_) if asked_to_end => {
                    let _ = command.kill().await;
                    return;
                }
                Event::Asked(signal) => {
                    asked_to_end = true;
                    let _ = command.signal(signal).await;
                }
            }
        }
    };
    let ended = async {
        let end = async {
            // How it ended is asked again when the box is removed.
            let _ = command.wait().await;
            Ok(())
        };
        tokio::try_join!(end, output).map(|_| ())
    };
    let written = tokio::select! {
        biased;
        () = control => Ok(()),
        () = input => Ok(()),
        written = ended => written,
    };
    if written.is_err() {
        let _ = command.kill().await;
    }
    written
}
