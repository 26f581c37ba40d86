//! What a guest says, and what the host makes of it.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use hotcell::{Control, SpawnConfig, Status, StdinMode};

use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Seen, Supervised, check};
use crate::checks::kept::{Kept, LONG, SHORT, host_shell, on_host, policy, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check("supervisor.output-bytes", Supervisor, "write bytes that are no text, NUL among them")
        .safe("the host gets exactly these bytes")
        .impact(Impact::Integrity)
        .supervised(Supervised {
            naive: |arena| {
                let said = host_shell(arena, ALL_BYTES)?.output().map_err(text)?.stdout;
                Ok(compare(String::from_utf8_lossy(&said).as_bytes()))
            },
            hotcell: |boxed, arena| Box::pin(output_bytes(boxed, arena)),
        }),
    check("supervisor.output-flood", Supervisor, "fill the host's memory with output")
        .safe("the head and the tail are kept, the rest is counted")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: |arena| {
                let said = host_shell(arena, "head -c 67108864 /dev/zero")?.output().map_err(text)?.stdout;
                Ok(format!("reached {} bytes of output in the host's memory\n", said.len()))
            },
            hotcell: |boxed, arena| Box::pin(output_flood(boxed, arena)),
        }),
    check("supervisor.held-pipe", Supervisor, "leave a daemon behind that keeps the output open")
        .safe("the command has ended when it has ended, whoever holds its pipes")
        .impact(Impact::HostDoS)
        .supervised(Supervised { naive: held_pipe_naively, hotcell: |boxed, arena| Box::pin(held_pipe(boxed, arena)) }),
    check("supervisor.closed-output", Supervisor, "close the output, ignore signals and stay")
        .safe("the timeout ends it")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: closed_output_naively,
            hotcell: |boxed, arena| Box::pin(closed_output(boxed, arena)),
        }),
    check("supervisor.unread-input", Supervisor, "never read the input that the host sends")
        .safe("the writer waits no longer than the command lives")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: unread_input_naively,
            hotcell: |boxed, arena| Box::pin(unread_input(boxed, arena)),
        }),
    check(
        "supervisor.forged-messages",
        Supervisor,
        "say what the box's own init would say, on every descriptor there is",
    )
    .safe("output is only ever output, and the exit status is the kernel's")
    .impact(Impact::Integrity)
    .supervised(Supervised {
        naive: |arena| {
            // A trailer tells the naive host how the command ended.
            let said = on_host(arena, "sh -c 'echo exit: 0; exit 1'; echo exit: $?")?;
            let believed = said.lines().find_map(|line| line.strip_prefix("exit: "));
            Ok(format!("reached a forged exit status, {}\n", believed.unwrap_or_default()))
        },
        hotcell: |boxed, arena| Box::pin(forged_messages(boxed, arena)),
    }),
    check("supervisor.signaled-init", Supervisor, "send signals to the process that runs the box from inside")
        .safe("it does not notice, and the box goes on")
        .impact(Impact::SelfDoS)
        .supervised(Supervised {
            naive: |arena| {
                let status = host_shell(arena, "sh -c 'kill -KILL $PPID'; exit 0")?.output().map_err(text)?.status;
                let ended = status.signal().is_some();
                Ok(if ended { "reached the end of the program that runs the guest\n" } else { "" }.to_owned())
            },
            hotcell: |boxed, arena| Box::pin(signaled_init(boxed, arena)),
        }),
    check("supervisor.mistaken-end", Supervisor, "end in ways that look like success")
        .safe("signals, exit codes and limits are told apart")
        .impact(Impact::Integrity)
        .supervised(Supervised {
            naive: |arena| {
                // The last command of a pipeline decides, and no code means none.
                let code = host_shell(arena, "sh -c 'kill -KILL $$' | cat")?.output().map_err(text)?.status.code();
                Ok(if code.unwrap_or(0) == 0 { "reached success by being killed\n" } else { "" }.to_owned())
            },
            hotcell: |boxed, arena| Box::pin(mistaken_end(boxed, arena)),
        }),
];

const ALL_BYTES: &str = "for i in 0 1 2 3; do for j in 0 1 2 3 4 5 6 7; do for k in 0 1 2 3 4 5 6 7; do printf \"\\\\$i$j$k\"; done; done; done";

/// Whether these are all bytes, in order.
fn compare(said: &[u8]) -> String {
    let expected: Vec<u8> = (0..=255).collect();
    if said == expected { String::new() } else { format!("reached {} bytes that are not those written\n", said.len()) }
}

async fn output_bytes(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let output = kept.run(sh(ALL_BYTES)).await?;
    kept.close().await?;
    Ok(compare(&output.stdout.bytes()))
}

/// The memory of this process, in bytes.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(text)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kibibytes: u64 = line.trim_end_matches("kB").trim().parse().map_err(text)?;
    Ok(kibibytes << 10)
}

async fn output_flood(boxed: &Boxed, arena: &Arena) -> Seen {
    const FLOOD: u64 = 256 << 20;
    const ROOM: u64 = 32 << 20;
    let kept = Kept::new(boxed, policy(arena).unlimited(Control::Output)).await?;
    let before = resident()?;
    let output = kept.run(sh(format!("head -c {FLOOD} /dev/zero"))).await?;
    let grown = resident()?.saturating_sub(before);
    kept.close().await?;
    if output.stdout.total != FLOOD {
        return Err(format!("only {} bytes came", output.stdout.total));
    }
    let reached = if grown > ROOM { format!("reached {grown} bytes more of memory\n") } else { String::new() };
    Ok(reached + &format!("refused to keep {} of {FLOOD} bytes; memory grew by {grown}\n", output.stdout.dropped()))
}

/// Ends a naive command.
fn end(mut child: Child) -> Result<(), String> {
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    Ok(())
}

/// Whether `work` takes longer than it should.
fn hangs(work: impl FnOnce() + Send + 'static) -> (bool, std::thread::JoinHandle<()>) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    (ended.recv_timeout(SHORT).is_err(), thread)
}

fn held_pipe_naively(arena: &Arena) -> Seen {
    let script = "mkfifo '{workspace}/hold' && { sh -c 'read x < \"$1\"' '{marker}' '{workspace}/hold' & } && exit 0";
    let mut child = host_shell(arena, script)?.stdout(Stdio::piped()).spawn().map_err(text)?;
    let Some(mut stdout) = child.stdout.take() else { return Err("there is no pipe".into()) };
    child.wait().map_err(text)?;
    let (hung, thread) = hangs(move || {
        let _ = stdout.read_to_end(&mut Vec::new());
    });
    arena.end_survivors();
    let _ = thread.join();
    Ok(if hung { "reached a wait that never ends\n" } else { "" }.to_owned())
}

async fn held_pipe(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let script = "cd ~ && mkfifo hold && { setsid sh -c 'read x < hold' '{marker}' & } && exit 3";
    let run = kept.run(sh(arena.expand(script).map_err(text)?));
    let seen = match tokio::time::timeout(LONG, run).await {
        Err(_) => "reached a wait that never ends\n".to_owned(),
        Ok(output) => match output?.status() {
            Status::Exited(3) => String::new(),
            status => format!("reached another end than its own: {status}\n"),
        },
    };
    kept.close().await?;
    Ok(seen)
}

fn closed_output_naively(arena: &Arena) -> Seen {
    let script = "mkfifo '{workspace}/hold'; exec > /dev/null 2>&1; read x < '{workspace}/hold'";
    let mut child = host_shell(arena, script)?.stdout(Stdio::piped()).spawn().map_err(text)?;
    if let Some(mut stdout) = child.stdout.take() {
        // The output has ended, so the command has, or has it?
        stdout.read_to_end(&mut Vec::new()).map_err(text)?;
    }
    let running = child.try_wait().map_err(text)?.is_none();
    end(child)?;
    Ok(if running { "reached a wait that never ends\n" } else { "" }.to_owned())
}

async fn closed_output(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let script = "trap '' TERM HUP INT; cd ~ && mkfifo hold; exec >&- 2>&-; read x < hold";
    let run = kept.run(sh(script).timeout(Duration::from_millis(100)));
    let seen = match tokio::time::timeout(LONG, run).await {
        Err(_) => "reached a wait that never ends\n".to_owned(),
        Ok(output) => match output?.status() {
            Status::TimedOut => String::new(),
            status => format!("reached another end than the timeout: {status}\n"),
        },
    };
    kept.close().await?;
    Ok(seen)
}

fn unread_input_naively(arena: &Arena) -> Seen {
    let script = "mkfifo '{workspace}/hold'; read x < '{workspace}/hold'";
    let mut child = host_shell(arena, script)?.stdin(Stdio::piped()).spawn().map_err(text)?;
    let Some(mut stdin) = child.stdin.take() else { return Err("there is no pipe".into()) };
    let (hung, thread) = hangs(move || {
        let _ = stdin.write_all(&vec![0; 1 << 20]);
    });
    end(child)?;
    let _ = thread.join();
    Ok(if hung { "reached a write that never ends\n" } else { "" }.to_owned())
}

async fn unread_input(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let config = sh("cd ~ && mkfifo hold; read x < hold").stdin(StdinMode::Piped).timeout(Duration::from_millis(100));
    let mut process = kept.spawn(config).await?;
    let mut stdin = process.take_io().stdin.ok_or("there is no pipe")?;
    let written = tokio::time::timeout(LONG, stdin.write_all(&vec![0; 1 << 20])).await;
    let ended = tokio::time::timeout(LONG, process.wait()).await;
    let seen = match (written, ended) {
        (Err(_), _) => "reached a write that never ends\n".to_owned(),
        (_, Err(_)) => "reached a wait that never ends\n".to_owned(),
        (Ok(Ok(())), _) => "reached input that nobody read\n".to_owned(),
        (Ok(Err(error)), _) => format!("refused write: {error}\n"),
    };
    kept.close().await?;
    Ok(seen)
}

async fn forged_messages(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    // The init says how a command ended with the byte 5, the number of the command and a status.
    // Only that one is meant, wherever this /proc comes from.
    let forge = "say() { printf \"\\005\\00$1\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\"; }; \
        grep -q hotcell /proc/1/comm && init=/proc/1/fd; \
        for number in 0 1 2 3; do \
            for place in /proc/self/fd/* ${init-/dev/fd}/*; do (say $number >> \"$place\"); done; \
            for open in 3 4 5 6 7 8 9; do (say $number >& $open); done; \
        done 2> /dev/null; echo 'exit: 0'; exit 7";
    let mut seen = String::new();
    for (script, expected) in [(forge, 7), ("exit 3", 3)] {
        match kept.run(sh(script)).await {
            Ok(output) if output.status() == Status::Exited(expected) => {}
            Ok(output) => seen.push_str(&format!("reached another end than its own: {}\n", output.status())),
            Err(error) => seen.push_str(&format!("reached the end of the box: {error}\n")),
        }
    }
    let read = kept.files()?.read("/etc/passwd".as_ref(), 1 << 20).await;
    if let Err(error) = read {
        seen.push_str(&format!("reached an answer to another question: {}\n", in_full(&error)));
    }
    kept.close().await?;
    Ok(seen)
}

async fn signaled_init(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let script = "for signal in 1 2 3 6 9 11 13 14 15 17 19 20 31; do kill -$signal 1 2> /dev/null; done; exit 4";
    let mut seen = String::new();
    for (script, expected) in [(script, 4), ("exit 3", 3)] {
        match tokio::time::timeout(LONG, kept.run(sh(script))).await {
            Ok(Ok(output)) if output.status() == Status::Exited(expected) => {}
            Ok(Ok(output)) => seen.push_str(&format!("reached another end than its own: {}\n", output.status())),
            Ok(Err(error)) => seen.push_str(&format!("reached the end of the box: {error}\n")),
            Err(_) => seen.push_str("reached a box that does not answer\n"),
        }
    }
    kept.close().await?;
    Ok(seen)
}

async fn mistaken_end(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).output(4096)).await?;
    let short = Duration::from_millis(100);
    let ends = [
        (sh("kill -KILL $$"), Status::Signaled(9)),
        (sh("kill -TERM $$"), Status::Signaled(15)),
        (sh("exit 137"), Status::Exited(137)),
        (sh("exec sh -c 'exec sh -c \"exit 5\"'"), Status::Exited(5)),
        // It answers the request to end with success.
        (sh("trap 'exit 0' TERM; while :; do sleep 0.01; done").timeout(short), Status::TimedOut),
        (sh("head -c 65536 /dev/zero; exit 0"), Status::Output),
    ];
    let mut seen = String::new();
    for (config, expected) in ends {
        let status = kept.run(config).await?.status();
        if status != expected {
            seen.push_str(&format!("reached `{status}` instead of `{expected}`\n"));
        }
    }
    let missing = kept.sandbox.spawn(SpawnConfig::new("/none")).await.map(drop);
    if missing.is_ok() {
        seen.push_str("reached the start of a program that does not exist\n");
    }
    kept.close().await?;
    Ok(seen)
}
