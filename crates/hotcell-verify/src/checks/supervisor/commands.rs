//! Commands that the host starts in a box: where, what, and with what in its hands.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hotcell::{SpawnConfig, SpawnError};

use super::helpers;
use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Need, Seen, Supervised, check};
use crate::checks::kept::{Kept, on_host, policy, said, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check("supervisor.working-directory", Supervisor, "start a command in a directory outside, by name, link or /proc")
        .safe("such a directory does not exist in the box")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2024-21626", "CVE-2025-59532"])
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, LINK)?;
                let mut said = String::new();
                for place in places(arena) {
                    let output = Command::new("/bin/cat").arg("target").current_dir(place).output();
                    said.push_str(
                        &output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default(),
                    );
                }
                Ok(said)
            },
            hotcell: |boxed, arena| Box::pin(working_directory(boxed, arena)),
        }),
    check("supervisor.planted-program", Supervisor, "put programs with well-known names where the command starts")
        .safe("the current directory is not searched, and Hotcell's own helper is part of it")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_PROGRAMS)?;
                on_host(arena, "cd '{workspace}' && PATH=.:$PATH && ls && bwrap && hotcell-spawner")
            },
            hotcell: |boxed, arena| Box::pin(planted_program(boxed, arena)),
        }),
    check("supervisor.argument-injection", Supervisor, "choose a file name that is a command to a shell")
        .safe("arguments reach the program as they are, and too many are an error")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| on_host(arena, "echo checking x; cat '{secret}'"),
            hotcell: |boxed, arena| Box::pin(argument_injection(boxed, arena)),
        }),
    check("supervisor.inherited-descriptor", Supervisor, "use a file that the host program has open")
        .safe("neither the helper nor any command has it")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2024-21626"])
        .supervised(Supervised {
            naive: |arena| on_host(arena, "cat /proc/self/fd/{fd}"),
            hotcell: |boxed, arena| Box::pin(inherited_descriptor(boxed, arena)),
        }),
    check("supervisor.helper-environment", Supervisor, "find the host's variables in the memory of Hotcell's helper")
        .safe("the helper has none")
        .impact(Impact::HostLeak)
        .supervised(Supervised {
            naive: |_| variables_of_a_child(),
            hotcell: |boxed, arena| Box::pin(helper_environment(boxed, arena)),
        })
        .needs(&[Need::Helper]),
];

const LINK: &str = "cd '{workspace}' && ln -s '{host}' link && ln -s ../host relative";

fn places(arena: &Arena) -> Vec<PathBuf> {
    let below_root = arena.host().strip_prefix("/").map(Path::to_owned).unwrap_or_default();
    let mut places = vec![arena.host(), arena.workspace().join("link"), arena.workspace().join("relative")];
    places.push(arena.workspace().join("../host"));
    places.push(Path::new("/proc/self/root").join(&below_root));
    // Whatever whoever changes the directory has open at that moment.
    let up = Path::new("../../../../../../../..").join(below_root);
    places.extend((3..20).map(|number| PathBuf::from(format!("/proc/self/fd/{number}")).join(&up)));
    places
}

async fn working_directory(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    kept.prepare(arena, LINK).await?;
    let mut seen = String::new();
    for place in places(arena) {
        match kept.run(SpawnConfig::new("/bin/cat").arg("target").cwd(&place)).await {
            Ok(output) => seen.push_str(&format!("started in {place:?}: {}\n", said(&output))),
            Err(error) => seen.push_str(&format!("refused {error}\n")),
        }
    }
    kept.close().await?;
    // The policy's own directory is no way out, either.
    for place in [arena.host(), arena.workspace().join("link")] {
        let kept = match Kept::new(boxed, policy(arena).write(arena.workspace()).cwd(&place)).await {
            Ok(kept) => kept,
            Err(error) => {
                seen.push_str(&format!("refused {error}\n"));
                continue;
            }
        };
        match kept.run(SpawnConfig::new("/bin/cat").arg("target")).await {
            Ok(output) => seen.push_str(&format!("started in {place:?}: {}\n", said(&output))),
            Err(error) => seen.push_str(&format!("refused {error}\n")),
        }
        kept.close().await?;
    }
    Ok(seen)
}

const PLANT_PROGRAMS: &str = "cd '{workspace}' && for name in ls bwrap hotcell hotcell-spawner newuidmap; do \
     printf '#!/bin/sh\\necho reached a planted %s\\n' $name > $name; chmod 755 $name; done";

async fn planted_program(boxed: &Boxed, arena: &Arena) -> Seen {
    let first = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    first.prepare(arena, PLANT_PROGRAMS).await?;
    first.close().await?;
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace()).cwd(arena.workspace())).await?;
    let mut seen = String::new();
    for program in ["ls", "hotcell-spawner", "newuidmap"] {
        match kept.run(SpawnConfig::new(program)).await {
            Ok(output) => seen.push_str(&said(&output)),
            Err(error) => seen.push_str(&format!("refused {program}: {error}\n")),
        }
    }
    kept.close().await?;
    Ok(seen)
}

async fn argument_injection(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    let name = "x; echo reached a command in an argument\n`echo reached it` $(echo reached it) ' \" \\ *";
    let output = kept.run(SpawnConfig::new("/usr/bin/printf").args(["%s", name]).env("ODD", name)).await?;
    let mut seen = String::new();
    if output.stdout.bytes() != name.as_bytes() {
        seen.push_str("reached an argument that is not the one given\n");
    }
    // More than the kernel takes: an error that says so, and the box goes on.
    let long = "x".repeat(100_000);
    let config = SpawnConfig::new("/bin/true").args(std::iter::repeat_n(long.as_str(), 100));
    match kept.sandbox.spawn(config).await.map(drop) {
        Err(SpawnError::TooLong { .. } | SpawnError::NotExecutable { .. }) => {}
        Err(error) => seen.push_str(&format!("reached an error about something else: {}\n", in_full(&error))),
        Ok(()) => seen.push_str("reached a start with arguments that were cut\n"),
    }
    if !kept.run(sh("exit 0")).await.is_ok_and(|output| output.status().success()) {
        seen.push_str("reached the end of the box\n");
    }
    kept.close().await?;
    Ok(seen)
}

async fn inherited_descriptor(boxed: &Boxed, arena: &Arena) -> Seen {
    // Open before the engine starts, and for every program that this one starts.
    arena.expand("{fd}").map_err(text)?;
    let before = helpers();
    let kept = Kept::new(boxed, policy(arena)).await?;
    let mut seen = String::new();
    for helper in helpers().difference(&before) {
        for entry in fs::read_dir(format!("/proc/{helper}/fd")).into_iter().flatten().flatten() {
            let leads_to = fs::read_link(entry.path()).unwrap_or_default();
            if leads_to.starts_with(arena.host()) {
                seen.push_str(&format!("reached {leads_to:?}, which the helper has open\n"));
            }
        }
    }
    // A later command has no more than the first.
    for _ in 0..2 {
        seen.push_str(
            &kept.script(arena, "cat /proc/self/fd/{fd}; grep -q hotcell /proc/1/comm && cat /proc/1/fd/*").await?,
        );
    }
    let open = kept.script(arena, "ls /proc/self/fd | tr '\\n' ' '").await?;
    // The fourth is the directory that is being listed.
    if open.trim() != "0 1 2 3" {
        seen.push_str(&format!("reached more descriptors than three: {open}\n"));
    }
    kept.close().await?;
    Ok(seen)
}

/// Names the variables of this process that another one has, too.
fn variables(process: u32) -> Seen {
    let theirs = fs::read(format!("/proc/{process}/environ")).map_err(text)?;
    let theirs: Vec<&[u8]> = theirs.split(|byte| *byte == 0).collect();
    let is_theirs = |(name, value): &(OsString, OsString)| {
        theirs.contains(&[name.as_bytes(), b"=", value.as_bytes()].concat().as_slice())
    };
    let shared = std::env::vars_os().filter(is_theirs);
    Ok(shared.map(|(name, _)| format!("reached the variable {}\n", name.display())).collect())
}

/// The variables of a program that was started in the obvious way.
fn variables_of_a_child() -> Seen {
    let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
    // When it answers, it has taken the place of this program's copy.
    if let (Some(stdin), Some(stdout)) = (&mut child.stdin, &mut child.stdout) {
        stdin.write_all(b"x").and_then(|()| stdout.read_exact(&mut [0])).map_err(text)?;
    }
    let seen = variables(child.id());
    drop(child.stdin.take());
    child.wait().map_err(text)?;
    seen
}

async fn helper_environment(boxed: &Boxed, arena: &Arena) -> Seen {
    let before = helpers();
    let kept = Kept::new(boxed, policy(arena)).await?;
    let found: Vec<u32> = helpers().difference(&before).copied().collect();
    if found.is_empty() {
        return Err("there is no helper to look at".into());
    }
    let seen = found.into_iter().map(variables).collect::<Result<String, String>>();
    kept.close().await?;
    seen
}
