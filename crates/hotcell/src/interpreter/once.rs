//! Code that runs once, in a process of its own.

use std::time::Instant;

use hotcell_core::backend::{CaptureLimits, Sandbox, SandboxOutput, SpawnConfig};
use hotcell_core::outcome::Status;

use super::code::{Code, CodeOutput, CodeStatus, Exception, Feed};
use super::error::CodeError;
use super::kernel::{Kernel, Once, no_typescript};
use super::languages::KernelKind;
use super::launch::{self, OnceRequest, TYPESCRIPT_RUNNERS};
use super::messages::Collector;

/// Runs a piece of code in a kernel that ends with it.
pub(super) async fn run(
    sandbox: &dyn Sandbox,
    kind: KernelKind,
    code: &Code,
    mut feed: Option<Feed<'_>>,
    mut collector: Collector<'_>,
) -> Result<CodeOutput, CodeError> {
    let begun = Instant::now();
    let request = OnceRequest { text: kind.request(1, &code.source), stdin: feed.is_some() };
    let config = configured(kind.command_once(code, request.stdin), code);
    let ended = match Kernel::launch(sandbox, kind, Some(&request), config).await {
        Ok(kernel) => kernel.run_once(&request, &mut feed, &mut collector).await?,
        Err(CodeError::NotInstalled { .. }) if kind == KernelKind::TypeScript => Once::NoTypeScript,
        Err(error) => return Err(error),
    };
    match ended {
        Once::Ended { status, exception, hint } => Ok(output(status, exception, hint, collector, begun)),
        Once::NotReady(mut kernel) => match kernel.failed_start(collector).await {
            CodeError::NotInstalled { .. } if kind == KernelKind::TypeScript => Err(no_typescript()),
            error => Err(error),
        },
        Once::NoTypeScript => {
            let names: Vec<&str> = TYPESCRIPT_RUNNERS.iter().map(|(name, _)| *name).collect();
            let mut process = sandbox.spawn(launch::which(&names)).await?;
            let found = SandboxOutput::collect(&mut *process, CaptureLimits { head: 64, tail: 0 }).await?;
            let found = String::from_utf8_lossy(&found.stdout.head).trim().to_owned();
            let Some((_, command)) = TYPESCRIPT_RUNNERS.iter().find(|(name, _)| *name == found) else {
                return Err(no_typescript());
            };
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            run_file(sandbox, ".ts", &command, code, feed, collector).await
        }
    }
}

/// Runs a piece of code as a file, with a command that takes its path.
pub(super) async fn run_file(
    sandbox: &dyn Sandbox,
    ending: &str,
    command: &[String],
    code: &Code,
    feed: Option<Feed<'_>>,
    mut collector: Collector<'_>,
) -> Result<CodeOutput, CodeError> {
    let begun = Instant::now();
    let lines = feed.is_some().then(|| code.source.lines().count());
    let config = launch::file_command(ending, command, &code.args, lines);
    let mut process = sandbox.spawn(configured(config, code)).await?;
    let io = process.take_io();
    let write = async {
        if let Some(mut stdin) = io.stdin {
            // One that ends before it has read everything says why by how it ends.
            let _ = stdin.write_all(code.source.as_bytes()).await;
            match feed {
                None => drop(stdin.close().await),
                Some(feed) => {
                    if !code.source.is_empty() && !code.source.ends_with('\n') {
                        let _ = stdin.write_all(b"\n").await;
                    }
                    feed(stdin).await;
                }
            }
        }
        // The end of the input is not the end of the code.
        std::future::pending::<()>().await;
    };
    let read = async {
        if let Some(mut output) = io.output {
            while let Some(event) = output.next().await {
                collector.output(event.stream, &event.bytes);
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
    let status = process.wait().await?.status;
    let program = command.first().map_or("", String::as_str);
    let hint = (status == Status::Exited(127)).then(|| {
        format!(
            "127 often means that `{program}`, or a command of the code's, is not in the box: use an image that has it"
        )
    });
    Ok(output(status, None, hint, collector, begun))
}

fn configured(mut config: SpawnConfig, code: &Code) -> SpawnConfig {
    config.timeout = code.timeout;
    config.cwd.clone_from(&code.cwd);
    config.env = code.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    config
}

fn output(
    process: Status,
    exception: Option<Exception>,
    hint: Option<String>,
    collector: Collector<'_>,
    begun: Instant,
) -> CodeOutput {
    let collected = collector.finish();
    let status = match process {
        Status::Exited(0) => CodeStatus::Done,
        Status::Exited(code) => CodeStatus::Failed { exit_code: Some(code) },
        Status::TimedOut => CodeStatus::TimedOut,
        other => CodeStatus::Crashed { reason: format!("its process {other}") },
    };
    CodeOutput {
        status,
        stdout: collected.stdout,
        stderr: collected.stderr,
        results: collected.results,
        results_left_out: collected.left_out,
        exception,
        exited: false,
        context_was_replaced: false,
        hint,
        process: Some(process),
        wall: begun.elapsed(),
    }
}
