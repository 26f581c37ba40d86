//! Files that the host reads, writes and removes after the guest had its hands on them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hotcell::FilesError;

use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Seen, Supervised, check};
use crate::checks::kept::{Kept, LONG, SHORT, on_host, policy, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check(
        "supervisor.read-through-link",
        Supervisor,
        "have the host read links that the guest made to the host's files",
    )
    .safe("a link leads where it leads in the box, and the secret is not there")
    .impact(Impact::HostLeak)
    .cves(&["CVE-2026-39861"])
    .supervised(Supervised {
        naive: |arena| {
            on_host(arena, PLANT_LINKS)?;
            Ok(read_all(&linked(arena)))
        },
        hotcell: |boxed, arena| Box::pin(read_in_box(boxed, arena, linked(arena))),
    }),
    check("supervisor.read-through-proc", Supervisor, "have the host read its own root through the links of /proc")
        .safe("whoever opens the file stands in the box, so these links lead into the box")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2024-21626"])
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_LINKS)?;
                Ok(read_all(&through_proc(arena)))
            },
            hotcell: |boxed, arena| Box::pin(read_in_box(boxed, arena, through_proc(arena))),
        }),
    check("supervisor.read-outside", Supervisor, "have the host read paths with `..` and NUL bytes in them")
        .safe("`..` cannot leave the box, and a NUL byte is no path")
        .impact(Impact::HostLeak)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_LINKS)?;
                Ok(read_all(&outside(arena)))
            },
            hotcell: |boxed, arena| Box::pin(read_in_box(boxed, arena, outside(arena))),
        }),
    check("supervisor.read-pipe", Supervisor, "have the host wait forever for a pipe or a device that it was to read")
        .safe("only regular files are read, and nothing waits for another end")
        .impact(Impact::HostDoS)
        .supervised(Supervised { naive: read_pipe_naively, hotcell: |boxed, arena| Box::pin(read_pipe(boxed, arena)) }),
    check("supervisor.read-huge-file", Supervisor, "fill the host's memory with a file of zeros that takes no room")
        .safe("a read has a limit")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "truncate -s 64M '{workspace}/huge'")?;
                let length = fs::read(arena.workspace().join("huge")).map_err(text)?.len();
                Ok(format!("reached {length} bytes in the host's memory\n"))
            },
            hotcell: |boxed, arena| Box::pin(read_huge(boxed, arena)),
        }),
    check("supervisor.list-crowded-directory", Supervisor, "have the host list a directory with very many names")
        .safe("a listing has a limit")
        .impact(Impact::HostDoS)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "mkdir '{workspace}/crowd' && cd '{workspace}/crowd' && seq 1500 | xargs touch")?;
                let names = fs::read_dir(arena.workspace().join("crowd")).map_err(text)?.count();
                Ok(format!("reached {names} names in the host's memory\n"))
            },
            hotcell: |boxed, arena| Box::pin(list_crowded(boxed, arena)),
        }),
    check("supervisor.write-through-link", Supervisor, "have the host write through links that the guest made")
        .safe("what is written stays in the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-39861"])
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_LINKS)?;
                for path in [arena.workspace().join("directory-link/target"), arena.workspace().join("new-link")] {
                    fs::write(path, "overwritten").map_err(text)?;
                }
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(write_in_box(boxed, arena)),
        }),
    check(
        "supervisor.make-directory-through-link",
        Supervisor,
        "have the host make directories beneath a guest's link",
    )
    .safe("they are made in the box or not at all")
    .impact(Impact::Escape)
    .supervised(Supervised {
        naive: |arena| {
            on_host(arena, PLANT_LINKS)?;
            fs::create_dir_all(arena.workspace().join("directory-link/made/deep")).map_err(text)?;
            Ok(String::new())
        },
        hotcell: |boxed, arena| Box::pin(make_directory_in_box(boxed, arena)),
    }),
    check("supervisor.remove-through-link", Supervisor, "have the host remove a tree in which the guest put links")
        .safe("the links are removed, not what they point to")
        .impact(Impact::Escape)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_JUNK)?;
                remove_naively(&arena.workspace().join("junk")).map_err(text)?;
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(remove_in_box(boxed, arena)),
        }),
    check("supervisor.swapped-link", Supervisor, "let a link lead elsewhere while the host works beneath it")
        .safe("wherever it leads at the moment, it is in the box")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-39861"])
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, PLANT_SWAPPED)?;
                let link = arena.workspace().join("d");
                let checked = link.canonicalize().map_err(text)?.starts_with(arena.workspace());
                // The guest's moment.
                on_host(arena, "cd '{workspace}' && ln -s '{host}' t && mv -T t d")?;
                if checked {
                    fs::write(link.join("target"), "overwritten").map_err(text)?;
                }
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(swapped_link(boxed, arena)),
        }),
];

/// Every kind of link that leads out of the workspace.
const PLANT_LINKS: &str = "cd '{workspace}' && ln -s '{secret}' file-link && ln -s '{host}' directory-link && \
     ln -s ../host relative-link && ln -s directory-link/home/.ssh/id_ed25519 chained-link && \
     ln -s /proc/self/root root-link && ln -s '{host}/new' new-link";

const PLANT_JUNK: &str =
    "mkdir -p '{workspace}/junk/deep' && cd '{workspace}/junk/deep' && ln -s '{host}/tree' link && touch file";

fn linked(arena: &Arena) -> Vec<PathBuf> {
    let names = ["file-link", "directory-link/target", "relative-link/target", "chained-link"];
    names.iter().map(|name| arena.workspace().join(name)).collect()
}

fn secret(arena: &Arena) -> PathBuf {
    arena.host().join("home/.ssh/id_ed25519")
}

fn through_proc(arena: &Arena) -> Vec<PathBuf> {
    let secret = secret(arena);
    let below_root = secret.strip_prefix("/").unwrap_or(&secret);
    let roots = ["/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../../../../../..", "/proc/thread-self/root"];
    let mut paths: Vec<PathBuf> = roots.iter().map(|root| Path::new(root).join(below_root)).collect();
    paths.push(arena.workspace().join("root-link").join(below_root));
    paths.push(PathBuf::from(format!("/proc/{}/root", std::process::id())).join(below_root));
    paths
}

fn outside(arena: &Arena) -> Vec<PathBuf> {
    let mut up = PathBuf::from("../../../../../../../../../../..");
    up.push(secret(arena).strip_prefix("/").unwrap_or(Path::new("")));
    let nul = [secret(arena).as_os_str().as_bytes(), b"\0.txt"].concat();
    vec![
        arena.workspace().join("../host/target"),
        arena.workspace().join(".git/../../host/./target"),
        arena.workspace().join(&up),
        up,
        PathBuf::from(std::ffi::OsStr::from_bytes(&nul)),
    ]
}

fn read_all(paths: &[PathBuf]) -> String {
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// What came of a read, with the content if there was any.
fn came_of(path: &Path, result: Result<Vec<u8>, FilesError>) -> String {
    match result {
        Ok(bytes) => format!("read {path:?}: {}\n", String::from_utf8_lossy(&bytes)),
        Err(error) => format!("refused {}\n", in_full(&error)),
    }
}

async fn with_links(boxed: &Boxed, arena: &Arena) -> Result<Kept, String> {
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    kept.prepare(arena, PLANT_LINKS).await?;
    Ok(kept)
}

async fn read_in_box(boxed: &Boxed, arena: &Arena, paths: Vec<PathBuf>) -> Seen {
    let kept = with_links(boxed, arena).await?;
    let mut seen = String::new();
    for path in paths {
        seen.push_str(&came_of(&path, kept.files()?.read(&path, 4096).await));
    }
    // Otherwise nothing would have been tried.
    let control = kept.files()?.read(&arena.workspace().join("file"), 4096).await.map_err(|error| in_full(&error))?;
    kept.close().await?;
    if control == b"work\n" { Ok(seen) } else { Err("a file of the workspace is not what it was".into()) }
}

fn read_pipe_naively(arena: &Arena) -> Seen {
    on_host(arena, "mkfifo '{workspace}/pipe'")?;
    let pipe = arena.workspace().join("pipe");
    let (done, ended) = mpsc::channel();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || done.send(fs::read(pipe).is_ok())
    });
    let hung = ended.recv_timeout(SHORT).is_err();
    // Lets the reader go.
    const O_NONBLOCK: i32 = 0o4000;
    let writer = fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(pipe);
    drop(writer);
    let _ = reader.join();
    Ok(if hung { "reached a read that never returns\n" } else { "" }.to_owned())
}

async fn read_pipe(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    kept.prepare(arena, "cd ~ && mkfifo pipe && ln -s /dev/zero zero && ln -s /dev/ptmx terminal").await?;
    let mut seen = String::new();
    for name in ["pipe", "zero", "terminal", "/dev/random"] {
        let path = Path::new(name);
        match tokio::time::timeout(LONG, kept.files()?.read(path, 4096)).await {
            Ok(Ok(_)) => seen.push_str(&format!("reached the content of {name}\n")),
            Ok(refused) => seen.push_str(&came_of(path, refused)),
            Err(_) => seen.push_str(&format!("reached a read of {name} that never returns\n")),
        }
        if tokio::time::timeout(LONG, kept.files()?.write(path, b"x", 0o600)).await.is_err() {
            seen.push_str(&format!("reached a write to {name} that never returns\n"));
        }
    }
    kept.close().await?;
    Ok(seen)
}

async fn read_huge(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    kept.prepare(arena, "truncate -s 64M ~/huge").await?;
    let read = kept.files()?.read(Path::new("huge"), 1 << 20).await;
    kept.close().await?;
    Ok(match read {
        Ok(bytes) => format!("reached {} bytes in the host's memory\n", bytes.len()),
        Err(error) => came_of(Path::new("huge"), Err(error)),
    })
}

async fn list_crowded(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena)).await?;
    kept.prepare(arena, "mkdir ~/crowd && cd ~/crowd && seq 1500 | xargs touch").await?;
    let listed = kept.files()?.list(Path::new("crowd"), 500).await;
    kept.close().await?;
    Ok(match listed {
        Ok(entries) => format!("reached {} names in the host's memory\n", entries.len()),
        Err(error) => came_of(Path::new("crowd"), Err(error)),
    })
}

async fn write_in_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = with_links(boxed, arena).await?;
    let mut seen = String::new();
    for name in ["file-link", "directory-link/target", "directory-link/new", "relative-link/target", "new-link"] {
        let path = arena.workspace().join(name);
        let written = kept.files()?.write(&path, b"overwritten", 0o666).await;
        seen.push_str(&came_of(&path, written.map(|()| b"written".to_vec())));
    }
    kept.close().await?;
    Ok(seen)
}

async fn make_directory_in_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = with_links(boxed, arena).await?;
    let mut seen = String::new();
    for name in ["directory-link/made/deep", "relative-link/made", "../host/made"] {
        let path = arena.workspace().join(name);
        let made = kept.files()?.make_directory(&path).await;
        seen.push_str(&came_of(&path, made.map(|()| b"made".to_vec())));
    }
    kept.close().await?;
    Ok(seen)
}

/// Removes everything beneath a directory, and sees a directory where there is a link to one.
fn remove_naively(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            remove_naively(&entry?.path())?;
        }
        return fs::remove_dir(path).or_else(|_| fs::remove_file(path));
    }
    fs::remove_file(path)
}

async fn remove_in_box(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = with_links(boxed, arena).await?;
    kept.prepare(arena, PLANT_JUNK).await?;
    let mut seen = String::new();
    for name in ["junk", "directory-link/target", "relative-link/tree", "../host/target"] {
        let path = arena.workspace().join(name);
        let removed = kept.files()?.remove(&path).await;
        seen.push_str(&came_of(&path, removed.map(|()| b"removed".to_vec())));
    }
    kept.close().await?;
    let left = arena.workspace().join("junk").exists();
    if left { Err(format!("the tree itself was not removed: {seen}")) } else { Ok(seen) }
}

const PLANT_SWAPPED: &str = "cd '{workspace}' && mkdir inside && echo inside > inside/target && ln -s inside d";

/// How long the guest may swap, at least: many times, as it needs milliseconds for each.
const RACE: Duration = Duration::from_millis(300);

async fn swapped_link(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    kept.prepare(arena, PLANT_SWAPPED).await?;
    let swap = "cd '{workspace}' && while :; do ln -s '{host}' t; mv -T t d; ln -s inside t; mv -T t d; done";
    let swapping = kept.spawn(sh(arena.expand(swap).map_err(text)?)).await?;
    let (target, made) = (arena.workspace().join("d/target"), arena.workspace().join("d/made"));
    let (mut done, mut refused, mut read) = (0u64, 0u64, String::new());
    let started = Instant::now();
    // Until both were seen: a link that leads into the workspace, and one that leads out.
    while started.elapsed() < RACE || (done.min(refused) == 0 && started.elapsed() < LONG) {
        let results = [
            kept.files()?.write(&target, b"overwritten", 0o666).await.map(|()| Vec::new()),
            kept.files()?.read(&target, 4096).await,
            kept.files()?.make_directory(&made).await.map(|()| Vec::new()),
            kept.files()?.remove(&made).await.map(|()| Vec::new()),
        ];
        for result in results {
            match result {
                Ok(bytes) => {
                    done += 1;
                    read.push_str(&String::from_utf8_lossy(&bytes));
                }
                Err(_) => refused += 1,
            }
        }
    }
    swapping.kill().await.map_err(|error| in_full(&error))?;
    kept.close().await?;
    Ok(format!("{read}\nrefused {refused} of {} operations\n", done + refused))
}
