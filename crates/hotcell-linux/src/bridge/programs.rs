//! What an agent was asked for, and so may speak of. It may have been taken over by the code in its box: it is believed
//! about nothing else.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::Broken;
use super::flow::{Input, Output};
use crate::wire::{Writer, order, stream};

/// What is to be connected with a program once it runs.
#[derive(Debug)]
pub(super) enum Ends {
    /// Its standard input, where it has one, and its two outputs.
    Pipes { input: Option<OwnedFd>, output: OwnedFd, error: OwnedFd },
    /// A terminal, of which we make our own end.
    Terminal,
}

/// An answer that is still to come.
#[derive(Debug)]
pub(super) enum Asked {
    Program(Ends),
    Done,
    Sample,
}

/// A program that runs.
#[derive(Debug)]
struct Program {
    /// Those that have not ended.
    outputs: [Option<Arc<Output>>; 2],
    input: Option<Arc<Input>>,
}

/// Everything that an agent was asked for.
#[derive(Debug, Default)]
pub(super) struct Programs {
    asked: HashMap<u32, Asked>,
    running: HashMap<u32, Program>,
    setting_up: bool,
}

impl Programs {
    pub(super) fn ask_set_up(&mut self) {
        self.setting_up = true;
    }

    pub(super) fn ask(&mut self, token: u32, asked: Asked) {
        self.asked.insert(token, asked);
    }

    pub(super) fn set_up(&mut self) -> Result<(), Broken> {
        if std::mem::take(&mut self.setting_up) { Ok(()) } else { Err(Broken::Unexpected("that it is ready again")) }
    }

    pub(super) fn done(&mut self, token: u32) -> Result<(), Broken> {
        match self.asked.remove(&token) {
            Some(Asked::Done) => Ok(()),
            _ => Err(Broken::Unexpected("an answer that nobody asked for")),
        }
    }

    pub(super) fn sampled(&mut self, token: u32) -> Result<(), Broken> {
        match self.asked.remove(&token) {
            Some(Asked::Sample) => Ok(()),
            _ => Err(Broken::Unexpected("an answer that nobody asked for")),
        }
    }

    pub(super) fn not_started(&mut self, token: u32) -> Result<(), Broken> {
        self.asked_program(token).map(drop)
    }

    fn asked_program(&mut self, token: u32) -> Result<Ends, Broken> {
        match self.asked.remove(&token) {
            Some(Asked::Program(ends)) => Ok(ends),
            _ => Err(Broken::Unexpected("the start of a program that nobody asked for")),
        }
    }

    /// Connects a program that runs. Gives the library's end of its terminal, if it has one.
    pub(super) fn started(&mut self, token: u32, frames: &mpsc::Sender<Vec<u8>>) -> Result<Option<OwnedFd>, Broken> {
        let (program, terminal) = match self.asked_program(token)? {
            Ends::Pipes { input, output, error } => {
                let output = connect_output(pipe::Sender::from_owned_fd(output)?, token, stream::OUTPUT, frames);
                let error = connect_output(pipe::Sender::from_owned_fd(error)?, token, stream::ERROR, frames);
                let input = input.map(pipe::Receiver::from_owned_fd).transpose()?;
                let at_end = Writer::new(order::INPUT_END).u32(token);
                let input = input.map(|input| connect_input(input, token, at_end, frames));
                (Program { outputs: [Some(output), Some(error)], input }, None)
            }
            Ends::Terminal => {
                let (ours, theirs) = UnixStream::pair()?;
                let (keyboard, screen) = ours.into_split();
                let output = connect_output(screen, token, stream::OUTPUT, frames);
                // When nobody has the library's end any more, the terminal is gone.
                let at_end = Writer::new(order::OUTPUT_CLOSE).u32(token).u8(stream::OUTPUT);
                let input = connect_input(keyboard, token, at_end, frames);
                (Program { outputs: [Some(output), None], input: Some(input) }, Some(theirs.into_std()?.into()))
            }
        };
        self.running.insert(token, program);
        Ok(terminal)
    }

    fn running(&mut self, token: u32) -> Result<&mut Program, Broken> {
        self.running.get_mut(&token).ok_or(Broken::Unexpected("something about a program that does not run"))
    }

    fn output_of(&mut self, token: u32, stream: u8) -> Result<&mut Option<Arc<Output>>, Broken> {
        self.running(token)?.outputs.get_mut(usize::from(stream)).ok_or(Broken::Unexpected("an output without a name"))
    }

    pub(super) fn output(&mut self, token: u32, stream: u8, bytes: &[u8]) -> Result<(), Broken> {
        match self.output_of(token, stream)? {
            Some(output) => output.receive(bytes),
            None => Err(Broken::Unexpected("output after its end")),
        }
    }

    pub(super) fn output_end(&mut self, token: u32, stream: u8) -> Result<(), Broken> {
        let output = self.output_of(token, stream)?.take();
        output.ok_or(Broken::Unexpected("the end of an output a second time"))?.end();
        Ok(())
    }

    pub(super) fn input_credit(&mut self, token: u32, bytes: u32) -> Result<(), Broken> {
        match &self.running(token)?.input {
            Some(input) => input.allow(bytes),
            None => Err(Broken::Unexpected("the receipt of input that was not sent")),
        }
    }

    pub(super) fn input_closed(&mut self, token: u32) -> Result<(), Broken> {
        match self.running(token)?.input.take() {
            Some(input) => input.close(),
            None => return Err(Broken::Unexpected("the end of an input that there is not")),
        }
        Ok(())
    }

    pub(super) fn exited(&mut self, token: u32) -> Result<(), Broken> {
        let program = self.running.remove(&token);
        let program = program.ok_or(Broken::Unexpected("the end of a program that does not run"))?;
        let outputs_ended = program.outputs.iter().all(Option::is_none);
        program.disconnect();
        if outputs_ended { Ok(()) } else { Err(Broken::Unexpected("the end of a program before that of its output")) }
    }
}

impl Program {
    /// What has come is still handed on; more does not come.
    fn disconnect(&self) {
        for output in self.outputs.iter().flatten() {
            output.end();
        }
        if let Some(input) = &self.input {
            input.close();
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.running.values().for_each(Program::disconnect);
    }
}

fn connect_output(
    pipe: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
    token: u32,
    stream: u8,
    frames: &mpsc::Sender<Vec<u8>>,
) -> Arc<Output> {
    let output = Arc::<Output>::default();
    tokio::spawn(Arc::clone(&output).pump(pipe, token, stream, frames.clone()));
    output
}

fn connect_input(
    pipe: impl tokio::io::AsyncRead + Unpin + Send + 'static,
    token: u32,
    at_end: Writer,
    frames: &mpsc::Sender<Vec<u8>>,
) -> Arc<Input> {
    let input = Arc::new(Input::new());
    tokio::spawn(Arc::clone(&input).pump(pipe, token, at_end, frames.clone()));
    input
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}
