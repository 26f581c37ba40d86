//! What must still work of the host's side of a box. The control does the same without one.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotcell::contracts::OutputEvents;
use hotcell::{ChangeKind, SpawnConfig, Status, StdinMode, TtySize};

use crate::arena::Arena;
use crate::check::Group::Work;
use crate::check::{Check, Impact, Need, Seen, Supervised, check};
use crate::checks::kept::{Kept, host_shell, on_host, policy, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    case("work.write-to-the-host", "change a tree of the host's from the box").supervised(Supervised {
        naive: |arena| {
            on_host(arena, CHANGE)?;
            changed(arena)
        },
        hotcell: |boxed, arena| Box::pin(write_to_the_host(boxed, arena)),
    }),
    case("work.overlay", "change a tree in an overlay, look at the difference and commit it").supervised(Supervised {
        naive: |arena| {
            on_host(arena, CHANGE)?;
            changed(arena)
        },
        hotcell: |boxed, arena| Box::pin(overlay(boxed, arena)),
    }),
    case("work.input", "send a megabyte through a command and get it back")
        .supervised(Supervised { naive: |_| input_on_host(), hotcell: |boxed, arena| Box::pin(input(boxed, arena)) }),
    case("work.statuses", "tell exit codes, signals and the end of time apart")
        .supervised(Supervised { naive: statuses_on_host, hotcell: |boxed, arena| Box::pin(statuses(boxed, arena)) }),
    case("work.files", "write, list, read and remove files of a box from outside")
        .supervised(Supervised { naive: files_on_host, hotcell: |boxed, arena| Box::pin(files(boxed, arena)) }),
    case("work.interactive-shell", "type into a shell on a terminal, with job control")
        .supervised(Supervised {
            naive: |arena| {
                let said =
                    on_host(arena, "printf 'echo $((6*7))-typed\\nexit\\n' | script -qc 'bash --norc -i' /dev/null")?;
                works(said.contains("42-typed"))
            },
            hotcell: |boxed, arena| Box::pin(interactive(boxed, arena)),
        })
        .needs(&[Need::Program("/bin/bash"), Need::Program("script")]),
];

const fn case(id: &'static str, tries: &'static str) -> Check {
    check(id, Work, tries).safe("it works").impact(Impact::SelfDoS)
}

fn works(right: bool) -> Seen {
    Ok(if right { "works\n" } else { "it does not work\n" }.to_owned())
}

const CHANGE: &str = "cd '{workspace}' && echo new > file && mkdir made && echo 1 > made/one && chmod 750 made/one";

/// Whether the host sees what [`CHANGE`] does.
fn changed(arena: &Arena) -> Seen {
    let read = |name| fs::read_to_string(arena.workspace().join(name)).unwrap_or_default();
    let mode = fs::metadata(arena.workspace().join("made/one"))
        .map(|metadata| std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777);
    works(read("file") == "new\n" && read("made/one") == "1\n" && mode.ok() == Some(0o750))
}

async fn write_to_the_host(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    kept.prepare(arena, CHANGE).await?;
    let seen = changed(arena);
    kept.close().await?;
    seen
}

async fn overlay(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).overlay(arena.workspace())).await?;
    kept.prepare(arena, CHANGE).await?;
    let untouched = fs::read_to_string(arena.workspace().join("file")).map_err(text)? == "work\n";
    let changes = kept.workspace()?.diff().await.map_err(|error| in_full(&error))?;
    let kinds: Vec<ChangeKind> = changes.iter().map(|change| change.kind).collect();
    if !untouched || kinds != [ChangeKind::Changed, ChangeKind::Added, ChangeKind::Added] {
        return Ok(format!("the overlay showed {kinds:?}\n"));
    }
    kept.workspace()?.commit().await.map_err(|error| in_full(&error))?;
    let seen = changed(arena);
    kept.close().await?;
    seen
}

/// A megabyte in which no two neighbouring blocks are the same.
fn megabyte() -> Vec<u8> {
    (0..1u32 << 18).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn input_on_host() -> Seen {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("cat has no pipes".into());
    };
    let writer = std::thread::spawn(move || stdin.write_all(&megabyte()));
    let mut back = Vec::new();
    stdout.read_to_end(&mut back).map_err(text)?;
    let written = writer.join().is_ok_and(|result| result.is_ok());
    child.wait().map_err(text)?;
    works(written && back == megabyte())
}

async fn input(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let mut process = kept.spawn(SpawnConfig::new("cat").stdin(StdinMode::Piped)).await?;
    let io = process.take_io();
    let (Some(mut stdin), Some(mut output)) = (io.stdin, io.output) else { return Err("cat has no pipes".into()) };
    let bytes = megabyte();
    let write = async {
        stdin.write_all(&bytes).await.map_err(text)?;
        stdin.close().await.map_err(text)
    };
    let (written, back) = tokio::join!(write, all(&mut *output));
    written?;
    let status = process.wait().await.map_err(|error| in_full(&error))?.status;
    kept.close().await?;
    works(back == bytes && status.success())
}

async fn all(output: &mut dyn OutputEvents) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(event) = output.next().await {
        bytes.extend_from_slice(&event.bytes);
    }
    bytes
}

fn statuses_on_host(arena: &Arena) -> Seen {
    let status = |script| host_shell(arena, script)?.status().map_err(text);
    let (exited, ended) = (status("exit 143")?, status("kill -TERM $$")?);
    works(exited.code() == Some(143) && ended.signal() == Some(15))
}

async fn statuses(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let short = Duration::from_millis(100);
    let expected = [
        (sh("exit 143"), Status::Exited(143)),
        (sh("kill -TERM $$"), Status::Signaled(15)),
        (sh("(exit 3); exec sh -c 'exec sh -c \"exit 5\"'"), Status::Exited(5)),
        (sh("exec sleep 600").timeout(short), Status::TimedOut),
    ];
    let mut wrong = String::new();
    for (config, status) in expected {
        let is = kept.run(config).await?.status();
        if is != status {
            wrong.push_str(&format!("{is} instead of {status}\n"));
        }
    }
    kept.close().await?;
    if wrong.is_empty() { works(true) } else { Ok(wrong) }
}

fn files_on_host(arena: &Arena) -> Seen {
    let directory = arena.workspace().join("a/b");
    fs::create_dir_all(&directory).map_err(text)?;
    fs::write(directory.join("f"), "content").map_err(text)?;
    let read = fs::read(directory.join("f")).map_err(text)?;
    fs::remove_dir_all(arena.workspace().join("a")).map_err(text)?;
    works(read == b"content" && !directory.exists())
}

async fn files(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let files = kept.files()?;
    let told = |error: hotcell::FilesError| in_full(&error);
    files.make_directory(Path::new("a/b")).await.map_err(told)?;
    files.write(Path::new("a/b/f"), b"from outside", 0o640).await.map_err(told)?;
    let inside = kept.script(arena, "cd ~/a/b && cat f && echo from inside > g").await?;
    let read = files.read(Path::new("a/b/g"), 100).await.map_err(told)?;
    let listed = files.list(Path::new("a/b"), 10).await.map_err(told)?;
    files.remove(Path::new("a")).await.map_err(told)?;
    let gone = files.stat(Path::new("a")).await.is_err();
    kept.close().await?;
    works(inside == "from outside" && read == b"from inside\n" && listed.len() == 2 && gone)
}

async fn interactive(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).tty(true)).await?;
    let bash = SpawnConfig::new("/bin/bash").args(["--norc", "--noprofile", "-i"]).tty(TtySize::default());
    let mut process = kept.spawn(bash).await?;
    let io = process.take_io();
    let (Some(mut stdin), Some(mut output)) = (io.stdin, io.output) else { return Err("there is no terminal".into()) };
    stdin.write_all(b"sleep 600 &\njobs; kill %1; echo $((6*7))-typed; exit 5\n").await.map_err(text)?;
    let seen = String::from_utf8_lossy(&all(&mut *output).await).into_owned();
    let status = process.wait().await.map_err(|error| in_full(&error))?.status;
    kept.close().await?;
    let right = seen.contains("42-typed") && seen.contains("Running") && !seen.contains("no job control");
    if right && status == Status::Exited(5) { works(true) } else { Ok(format!("{status}: {seen:?}\n")) }
}
