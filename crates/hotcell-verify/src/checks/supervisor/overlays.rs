//! Changes in an overlay, which the host lists and commits.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use hotcell::text::PrintablePath;

use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Seen, Supervised, check};
use crate::checks::kept::{Kept, on_host, policy, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check("supervisor.commit-through-link", Supervisor, "commit a link first and then a file beneath it")
        .safe("the link is replaced, not followed")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-39861"])
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "ln -s '{host}' '{workspace}/d'")?;
                // The second commit: the directory is there, so it seems.
                fs::create_dir_all(arena.workspace().join("d")).map_err(text)?;
                fs::write(arena.workspace().join("d/target"), "overwritten").map_err(text)?;
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(commit_through_link(boxed, arena)),
        }),
    check("supervisor.commit-after-swap", Supervisor, "swap a directory of the tree for a link before the commit")
        .safe("the commit stays beneath the tree that was opened when the box was made")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "mkdir '{workspace}/d' && cd '{workspace}' && rmdir d && ln -s '{host}' d")?;
                fs::write(arena.workspace().join("d/target"), "overwritten").map_err(text)?;
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(commit_after_swap(boxed, arena)),
        }),
    check("supervisor.commit-hard-link", Supervisor, "commit to a file that has a second name elsewhere on the host")
        .safe("the file is replaced, so its other name keeps the old content")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "ln '{target}' '{workspace}/linked'")?;
                fs::write(arena.workspace().join("linked"), "overwritten").map_err(text)?;
                on_host(arena, "rm '{workspace}/linked'")
            },
            hotcell: |boxed, arena| Box::pin(commit_hard_link(boxed, arena)),
        }),
    check("supervisor.commit-protected", Supervisor, "commit a git hook and settings of an agent that were not there")
        .safe("nothing is committed")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-25725", "CVE-2026-26268"])
        .supervised(Supervised {
            naive: |arena| on_host(arena, PLANT_HOOKS),
            hotcell: |boxed, arena| Box::pin(commit(boxed, arena, PLANT_HOOKS)),
        }),
    check("supervisor.commit-set-user-id", Supervisor, "commit programs with set-user-id and set-group-id bits")
        .safe("the bits are not carried over")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_SPECIAL_MODES)?;
                Ok(odd_files(&arena.workspace()))
            },
            hotcell: |boxed, arena| Box::pin(commit(boxed, arena, PLANT_SPECIAL_MODES)),
        }),
    check(
        "supervisor.commit-special-file",
        Supervisor,
        "commit pipes and sockets, on which a program of the host's hangs",
    )
    .safe("only files, directories and links are carried over")
    .impact(Impact::HostDoS)
    .supervised(Supervised {
        naive: |arena| {
            on_host(arena, "mkfifo '{workspace}/pipe'")?;
            Ok(odd_files(&arena.workspace()))
        },
        hotcell: |boxed, arena| {
            Box::pin(commit(boxed, arena, "mkfifo '{workspace}/pipe' && echo new > '{workspace}/file'"))
        },
    }),
    check(
        "supervisor.hostile-names",
        Supervisor,
        "forge lines of a listing with names that have line ends and escapes",
    )
    .safe("names are kept as bytes and escaped wherever they are shown")
    .impact(Impact::Integrity)
    .supervised(Supervised {
        naive: |arena| {
            on_host(arena, PLANT_NAMES)?;
            let entries = fs::read_dir(arena.workspace().join("names")).map_err(text)?.flatten();
            Ok(entries.map(|entry| format!("added {}\n", entry.path().display())).collect())
        },
        hotcell: |boxed, arena| Box::pin(hostile_names(boxed, arena)),
    }),
];

const PLANT_HOOKS: &str = "cd '{workspace}' && echo evil > .git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit && \
     mkdir .claude && echo '{}' > .claude/settings.json";

/// The box may refuse to set them at all.
const PLANT_SPECIAL_MODES: &str = "cd '{workspace}' && cp /bin/true user-id && cp /bin/true group-id && mkdir shared && \
     for mode in '4755 user-id' '2755 group-id' '3777 shared' 'u+s file'; do chmod $mode; done 2> /dev/null; exit 0";

const PLANT_NAMES: &str = "mkdir '{workspace}/names' && cd '{workspace}/names' && \
     touch \"$(printf 'a\\nreached a forged line\\n\\033]0;title\\007z')\" \"$(printf 'not \\377 text')\" -- '-rf' '...'";

async fn overlaid(boxed: &Boxed, arena: &Arena) -> Result<Kept, String> {
    Kept::new(boxed, policy(arena).overlay(arena.workspace())).await
}

/// Commits; what was said about it.
async fn committed(kept: &Kept) -> Result<String, String> {
    Ok(match kept.workspace()?.commit().await {
        Ok(changes) => format!("committed {} changes\n", changes.len()),
        Err(error) => format!("refused commit: {}\n", in_full(&error)),
    })
}

async fn commit(boxed: &Boxed, arena: &Arena, script: &str) -> Seen {
    let kept = overlaid(boxed, arena).await?;
    kept.prepare(arena, script).await?;
    let said = committed(&kept).await?;
    kept.close().await?;
    Ok(said + &odd_files(&arena.workspace()))
}

/// Names whatever is neither a file, a directory nor a link, and what has more than permission bits.
fn odd_files(directory: &Path) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
            found.push_str(&format!("reached a special file, {:?}\n", entry.file_name()));
        }
        let mode = metadata.permissions().mode();
        if mode & 0o7000 != 0 {
            found.push_str(&format!("reached the mode {:o} of {:?}\n", mode & 0o7777, entry.file_name()));
        }
    }
    found
}

async fn commit_through_link(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = overlaid(boxed, arena).await?;
    kept.prepare(arena, "ln -s '{host}' '{workspace}/d'").await?;
    let mut seen = committed(&kept).await?;
    // It is a link now, and not a copy of what it leads to.
    seen.push_str(&on_host(arena, "cd '{workspace}' && test -L d || cat d/target")?);
    kept.prepare(arena, "cd '{workspace}' && rm d && mkdir d && echo overwritten > d/target && echo new > d/new")
        .await?;
    seen.push_str(&committed(&kept).await?);
    kept.close().await?;
    Ok(seen)
}

async fn commit_after_swap(boxed: &Boxed, arena: &Arena) -> Seen {
    on_host(arena, "mkdir '{workspace}/d' '{workspace}/e' && echo old > '{workspace}/d/target'")?;
    let kept = overlaid(boxed, arena).await?;
    kept.prepare(arena, "cd '{workspace}' && echo overwritten > d/target && echo new > e/new").await?;
    on_host(arena, "cd '{workspace}' && mv d d.away && ln -s '{host}' d && rmdir e && ln -s '{host}' e")?;
    let mut seen = committed(&kept).await?;
    // The whole tree, too.
    on_host(arena, "mv '{workspace}' '{workspace}.away' && ln -s '{host}' '{workspace}'")?;
    seen.push_str(&committed(&kept).await?);
    on_host(arena, "rm '{workspace}' && mv '{workspace}.away' '{workspace}'")?;
    kept.close().await?;
    Ok(seen)
}

async fn commit_hard_link(boxed: &Boxed, arena: &Arena) -> Seen {
    on_host(arena, "ln '{target}' '{workspace}/linked'")?;
    let kept = overlaid(boxed, arena).await?;
    kept.prepare(arena, "echo overwritten > '{workspace}/linked'").await?;
    let seen = committed(&kept).await?;
    kept.close().await?;
    let content = fs::read_to_string(arena.workspace().join("linked")).map_err(text)?;
    // As it was before: the number of names is part of what is compared.
    on_host(arena, "rm '{workspace}/linked'")?;
    if content == "overwritten\n" { Ok(seen) } else { Err(format!("it was not committed: {seen}")) }
}

async fn hostile_names(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = overlaid(boxed, arena).await?;
    kept.prepare(arena, PLANT_NAMES).await?;
    let told = |error: hotcell::WorkspaceError| in_full(&error);
    let changes = kept.workspace()?.diff().await.map_err(told)?;
    let mut seen: String = changes.iter().map(|change| format!("added {}\n", PrintablePath(&change.path))).collect();
    seen.push_str(&serde_json::to_string(&changes).map_err(text)?);
    seen.push('\n');
    let listed = kept.files()?.list(&arena.workspace().join("names"), 100).await.map_err(|error| in_full(&error))?;
    seen.push_str(&serde_json::to_string(&listed).map_err(text)?);
    seen.push('\n');
    // Errors repeat names, too.
    for entry in &listed {
        if let Err(error) = kept.files()?.read(&entry.path.join("below"), 10).await {
            seen.push_str(&format!("{}\n", in_full(&error)));
        }
        let config = hotcell::SpawnConfig::new(&entry.path).cwd(&entry.path);
        if let Err(error) = kept.sandbox.spawn(config).await {
            seen.push_str(&format!("{}\n", in_full(&error)));
        }
    }
    // And bytes are not mangled on the way.
    let kept_bytes = listed
        .iter()
        .any(|entry| std::os::unix::ffi::OsStrExt::as_bytes(entry.path.as_os_str()).ends_with(b"not \xff text"));
    kept.close().await?;
    if !kept_bytes {
        seen.push_str("reached a listing in which a name is not the name of the file\n");
    }
    if listed.len() == 4 && changes.len() == 5 { Ok(seen) } else { Err(format!("the names were not listed: {seen}")) }
}
