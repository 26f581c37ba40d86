//! No box at all: the control.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::Pid;
use tokio::process::Command;

use super::{Job, NotRun, Ran, Target};

/// Runs attacks as the user who asked, with nothing around them.
#[derive(Debug)]
pub struct Host;

#[async_trait]
impl Target for Host {
    fn name(&self) -> &str {
        "host"
    }

    async fn run(&self, job: &Job<'_>) -> Result<Ran, NotRun> {
        let Some((program, arguments)) = job.command.split_first() else {
            return Err(NotRun::Failed("there is no command".into()));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/");
        run(command, job.timeout()).await
    }
}

/// Runs a command as a naive supervisor would: it ends the one process that it started when time is up.
///
/// The output goes through a file, so that a process that outlives the command cannot keep us waiting.
pub(super) async fn run(mut command: Command, timeout: Duration) -> Result<Ran, NotRun> {
    let failed = |error: std::io::Error| NotRun::Failed(error.to_string());
    let mut output = tempfile::tempfile().map_err(failed)?;
    let copy = |file: &File| file.try_clone().map_err(failed);
    command.stdin(Stdio::null()).stdout(copy(&output)?).stderr(copy(&output)?);
    command.process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let ended = tokio::time::timeout(timeout, child.wait()).await;
    let end = match ended {
        Ok(status) => describe(status.map_err(failed)?),
        Err(_) => {
            child.kill().await.map_err(failed)?;
            "ended by the timeout".to_owned()
        }
    };
    let mut bytes = Vec::new();
    output.rewind().map_err(failed)?;
    output.read_to_end(&mut bytes).map_err(failed)?;
    let output = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { output, end, ended_by_box: false, refused_calls: Vec::new(), group })
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
