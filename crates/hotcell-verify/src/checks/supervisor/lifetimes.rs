//! The ends of boxes, and what one box can see of another.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hotcell::Sandbox;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::helpers;
use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Need, Seen, Supervised, check};
use crate::checks::kept::{Kept, LONG, host_shell, on_host, policy, said, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check("supervisor.dropped-box", Supervisor, "outlive a box that the host program just drops")
        .safe("everything in the box ends with it")
        .impact(Impact::HostDoS)
        .supervised(Supervised { naive: leave_naively, hotcell: |boxed, arena| Box::pin(dropped_box(boxed, arena)) }),
    check("supervisor.destroyed-box", Supervisor, "still be there when the end of the box is reported")
        .safe("the end is reported when nothing is left")
        .impact(Impact::HostDoS)
        .supervised(Supervised { naive: leave_naively, hotcell: |boxed, arena| Box::pin(destroyed_box(boxed, arena)) }),
    check("supervisor.dropped-command", Supervisor, "outlive a command that the host program just drops")
        .safe("everything that it started ends with it")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: leave_naively,
            hotcell: |boxed, arena| Box::pin(dropped_command(boxed, arena)),
        }),
    check("supervisor.killed-helper", Supervisor, "outlive Hotcell's helper when that is killed")
        .safe("every box ends, and whoever asks is told")
        .impact(Impact::HostDoS)
        .supervised(Supervised { naive: leave_naively, hotcell: |boxed, arena| Box::pin(killed_helper(boxed, arena)) })
        .needs(&[Need::Helper]),
    check("supervisor.other-box", Supervisor, "find files, processes and sockets of another box")
        .safe("boxes share nothing")
        .impact(Impact::Lateral)
        .supervised(Supervised {
            naive: |arena| {
                let mut first = host_shell(arena, HOLD_TOKEN_ON_HOST)?.arg(arena.token()).spawn().map_err(text)?;
                let seen = wait_for(|| arena.workspace().join("ready").exists())
                    .then(|| on_host(arena, &LOOK_AROUND.replace("/tmp/", "{workspace}/")));
                first.kill().map_err(text)?;
                first.wait().map_err(text)?;
                seen.unwrap_or_else(|| Err("the first program did not start".into()))
            },
            hotcell: |boxed, arena| Box::pin(other_box(boxed, arena)),
        }),
    check(
        "supervisor.earlier-box",
        Supervisor,
        "find what an earlier box left in /tmp, /dev/shm and the home directory",
    )
    .safe("every box starts empty")
    .impact(Impact::Lateral)
    .supervised(Supervised {
        naive: |arena| {
            on_host(arena, &format!("echo {} > '{{workspace}}/left'", arena.token()))?;
            on_host(arena, "cat '{workspace}/left'")
        },
        hotcell: |boxed, arena| Box::pin(earlier_box(boxed, arena)),
    }),
];

/// Starts a daemon that waits for a pipe that nobody opens, and says so.
const DAEMON: &str = "mkfifo hold && { setsid sh -c 'echo ready; read x < hold' '{marker}' & } && read x < hold";

/// What that daemon says.
const READY: &str = "ready\n";

/// Starts a daemon, and ends the one process that is known.
fn leave_naively(arena: &Arena) -> Seen {
    let script = format!("cd '{{workspace}}' && {DAEMON}");
    let mut child = host_shell(arena, &script)?.stdout(Stdio::piped()).spawn().map_err(text)?;
    // Its own word and not its arguments: while one program takes the place of another there are none to be seen.
    let started = child.stdout.take().is_some_and(|mut said| said.read_exact(&mut [0; READY.len()]).is_ok());
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    if started { Ok(String::new()) } else { Err("the daemon did not start".into()) }
}

fn wait_for(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + LONG;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Starts a daemon in a box and waits until it runs. The command that started it runs, too.
async fn start_daemon(sandbox: &dyn Sandbox, arena: &Arena) -> Result<Box<dyn hotcell::SandboxedProcess>, String> {
    let script = arena.expand(&format!("cd ~ && {DAEMON}")).map_err(text)?;
    let mut process = sandbox.spawn(sh(script)).await.map_err(|error| in_full(&error))?;
    let mut output = process.take_io().output.ok_or("there is no output")?;
    let ready = tokio::time::timeout(LONG, output.next()).await.map_err(|_| "the daemon did not start")?;
    match ready {
        Some(_) if arena.has_survivors() => Ok(process),
        _ => Err("the daemon did not start".into()),
    }
}

async fn dropped_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let Kept { engine, sandbox } = Kept::new(boxed, policy(arena)).await?;
    let process = start_daemon(&*sandbox, arena).await?;
    drop(sandbox);
    // Dropping does not wait. The engine still runs, so it is not its end that ends the box.
    let gone = wait_for_async(|| !arena.has_survivors()).await;
    drop(process);
    engine.close().await;
    Ok(if gone { String::new() } else { "reached a life after the box\n".to_owned() })
}

async fn destroyed_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let Kept { engine, sandbox } = Kept::new(boxed, policy(arena)).await?;
    let process = start_daemon(&*sandbox, arena).await?;
    sandbox.destroy().await.map_err(|error| in_full(&error))?;
    let left = arena.has_survivors();
    drop(process);
    engine.close().await;
    Ok(if left { "reached a life after the reported end\n".to_owned() } else { String::new() })
}

async fn dropped_command(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let process = start_daemon(&*kept.sandbox, arena).await?;
    drop(process);
    let gone = wait_for_async(|| !arena.has_survivors()).await;
    let goes_on = kept.run(sh("exit 0")).await.is_ok_and(|output| output.status().success());
    kept.close().await?;
    if !goes_on {
        return Err("the box ended with the command".into());
    }
    Ok(if gone { String::new() } else { "reached a life after the command\n".to_owned() })
}

/// Like [`wait_for`], where a task has to go on meanwhile.
async fn wait_for_async(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + LONG;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

async fn killed_helper(boxed: &Boxed, arena: &Arena) -> Seen {
    let before = helpers();
    let kept = Kept::new(boxed, policy(arena)).await?;
    let helper = helpers().difference(&before).next().copied().ok_or("there is no helper to kill")?;
    let process = start_daemon(&*kept.sandbox, arena).await?;
    let pid = i32::try_from(helper).ok().and_then(Pid::from_raw).ok_or("the helper has no number")?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).map_err(text)?;
    pidfd_send_signal(&descriptor, Signal::KILL).map_err(text)?;
    let mut seen = String::new();
    match tokio::time::timeout(LONG, process.wait()).await {
        Err(_) => seen.push_str("reached a wait that never ends\n"),
        Ok(Ok(outcome)) if outcome.status.success() => seen.push_str("reached success\n"),
        Ok(Ok(outcome)) => seen.push_str(&format!("the command {}\n", outcome.status)),
        Ok(Err(error)) => seen.push_str(&format!("refused {}\n", in_full(&error))),
    }
    if !wait_for_async(|| !arena.has_survivors()).await {
        seen.push_str("reached a life after the helper\n");
    }
    match tokio::time::timeout(LONG, kept.sandbox.spawn(sh("exit 0"))).await {
        Err(_) => seen.push_str("reached a start that never ends\n"),
        Ok(Ok(_)) => seen.push_str("reached a start in a box that is gone\n"),
        Ok(Err(error)) => seen.push_str(&format!("refused {}\n", in_full(&error))),
    }
    drop(process);
    // It may or may not be able to say that the box is gone; it must not hang.
    if tokio::time::timeout(LONG, kept.close()).await.is_err() {
        seen.push_str("reached an end that is never reported\n");
    }
    Ok(seen)
}

/// Has the token in files, in its arguments and on a socket.
const HOLD_TOKEN: &str = "umask 0; for place in /tmp /dev/shm ~; do echo \"$1\" > $place/{marker}; done; \
     mkfifo ~/hold; echo ready; read x < ~/hold";

const HOLD_TOKEN_ON_HOST: &str = "mkfifo '{workspace}/hold'; echo \"$0\" > '{workspace}/{marker}'; touch '{workspace}/ready'; read x < '{workspace}/hold'";

const LOOK_AROUND: &str = "cat '/tmp/{marker}' /dev/shm/{marker} ~/{marker} 2> /dev/null; \
     cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' '\\n' | grep '^CANARY-'; exit 0";

async fn other_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let first = Kept::new(boxed, policy(arena)).await?;
    let hold = sh(arena.expand(HOLD_TOKEN).map_err(text)?).arg("sh").arg(arena.token());
    let mut holding = first.spawn(hold).await?;
    let mut output = holding.take_io().output.ok_or("there is no output")?;
    tokio::time::timeout(LONG, output.next()).await.map_err(|_| "the first box did not start")?;
    // It is really there.
    if !first.script(arena, LOOK_AROUND).await?.contains(arena.token()) {
        return Err("the first box has no secret".into());
    }
    let accepted = boxed.accept(policy(arena).build().map_err(|error| in_full(&error))?);
    // Of the same engine and, in case that matters, of another.
    let sibling = first.engine.create(&accepted).await.map_err(|error| in_full(&error))?;
    let mut process =
        sibling.spawn(sh(arena.expand(LOOK_AROUND).map_err(text)?)).await.map_err(|error| in_full(&error))?;
    let output = hotcell::SandboxOutput::collect(&mut *process, Default::default()).await;
    let mut seen = said(&output.map_err(|error| in_full(&error))?);
    drop(process);
    let stranger = Kept::new(boxed, policy(arena)).await?;
    seen.push_str(&stranger.script(arena, LOOK_AROUND).await?);
    stranger.close().await?;
    sibling.destroy().await.map_err(|error| in_full(&error))?;
    drop(holding);
    first.close().await?;
    take_away(arena)?;
    Ok(seen)
}

async fn earlier_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let first = Kept::new(boxed, policy(arena)).await?;
    let leave = "umask 0; for place in /tmp /dev/shm ~; do echo \"$1\" > $place/{marker}; done; exit 0";
    first.run(sh(arena.expand(leave).map_err(text)?).arg("sh").arg(arena.token())).await?;
    let Kept { engine, sandbox } = first;
    sandbox.destroy().await.map_err(|error| in_full(&error))?;
    let accepted = boxed.accept(policy(arena).build().map_err(|error| in_full(&error))?);
    let sandbox = engine.create(&accepted).await.map_err(|error| in_full(&error))?;
    let second = Kept { engine, sandbox };
    let seen = second.script(arena, LOOK_AROUND).await;
    second.close().await?;
    take_away(arena)?;
    seen
}

/// Boxes that lack a view of their own leave it on the host.
fn take_away(arena: &Arena) -> Result<(), String> {
    on_host(arena, "rm -f /tmp/{marker} /dev/shm/{marker}").map(drop)
}
