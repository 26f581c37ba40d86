//! Policies: what is not understood, not granted or not there any more must not turn into access.

use std::fs;

use hotcell::Policy;
use hotcell::config::{Config, Layer};
use hotcell::layers::{Context, Layers, resolve};
use hotcell::policy::NetworkMode;

use crate::arena::Arena;
use crate::check::Group::Supervisor;
use crate::check::{Check, Impact, Seen, Supervised, check};
use crate::checks::kept::{Kept, on_host, policy, said, sh, text};
use crate::target::{Boxed, in_full};

pub(in crate::checks) const CHECKS: &[Check] = &[
    check("supervisor.policy-typo", Supervisor, "run under a policy whose `deny` is misspelt")
        .safe("a key or a value that is not understood is an error, and nothing runs")
        .impact(Impact::HostLeak)
        .supervised(Supervised {
            naive: |arena| {
                // Looks for what it knows and ignores the rest.
                let denied = typos(arena).iter().any(|text| text.lines().any(|line| line.starts_with("deny = [")));
                if denied { Ok(String::new()) } else { fs::read_to_string(secret(arena)).map_err(text) }
            },
            hotcell: |boxed, arena| Box::pin(policy_typo(boxed, arena)),
        }),
    check("supervisor.empty-list", Supervisor, "run under a policy whose lists are empty")
        .safe("an empty list allows nothing")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2025-66479"])
        .supervised(Supervised {
            naive: |arena| {
                let allowed: [&str; 0] = [];
                let path = secret(arena);
                let is_allowed = allowed.is_empty() || allowed.iter().any(|place| path.starts_with(place));
                if is_allowed { fs::read_to_string(path).map_err(text) } else { Ok(String::new()) }
            },
            hotcell: |boxed, arena| Box::pin(empty_list(boxed, arena)),
        }),
    check("supervisor.project-file", Supervisor, "grant oneself more in the project's own policy file")
        .safe("a project file can only tighten; one that asks for more is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-25725"])
        .supervised(Supervised {
            naive: |arena| fs::read_to_string(secret(arena)).map_err(text),
            hotcell: |boxed, arena| Box::pin(project_file(boxed, arena)),
        }),
    check("supervisor.child-policy", Supervisor, "ask for a box with more rights from within a narrower one")
        .safe("a child gets what both grant")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-32048"])
        .supervised(Supervised {
            naive: |arena| on_host(arena, "cat '{secret}'"),
            hotcell: |boxed, arena| Box::pin(child_policy(boxed, arena)),
        }),
    check("supervisor.swapped-source", Supervisor, "swap a directory of the policy for a link before the box is made")
        .safe("the box is not made, or shows nothing of where the link leads")
        .impact(Impact::HostLeak)
        .supervised(Supervised {
            naive: |arena| {
                on_host(arena, "mkdir '{workspace}/tree'")?;
                let checked = arena.workspace().join("tree").is_dir();
                on_host(arena, SWAP)?;
                if checked {
                    fs::read_to_string(arena.workspace().join("tree/target")).map_err(text)
                } else {
                    Ok(String::new())
                }
            },
            hotcell: |boxed, arena| Box::pin(swapped_source(boxed, arena)),
        }),
    check("supervisor.ghost-files", Supervisor, "have placeholders of absent protected paths left on the host")
        .safe("they are gone with the box")
        .impact(Impact::Integrity)
        .cves(&["CVE-2026-25725"])
        .supervised(Supervised {
            naive: |arena| {
                // Something must be there to mount over.
                fs::create_dir(arena.workspace().join(".claude")).map_err(text)?;
                Ok(String::new())
            },
            hotcell: |boxed, arena| Box::pin(ghost_files(boxed, arena)),
        }),
    check(
        "supervisor.two-boxes-one-tree",
        Supervisor,
        "use a protected path when another box on the same tree has ended",
    )
    .safe("it stays protected as long as any box lives")
    .impact(Impact::Escape)
    .cves(&["CVE-2026-25725"])
    .supervised(Supervised {
        naive: |arena| {
            let placeholder = arena.workspace().join(".claude");
            fs::create_dir(&placeholder).map_err(text)?;
            // The first box ends and takes it away; the second is still there.
            fs::remove_dir(&placeholder).map_err(text)?;
            on_host(arena, PLANT_SETTINGS)
        },
        hotcell: |boxed, arena| Box::pin(two_boxes_one_tree(boxed, arena)),
    }),
];

fn secret(arena: &Arena) -> std::path::PathBuf {
    arena.host().join("home/.ssh/id_ed25519")
}

/// Tries to read the secret under a policy that was accepted.
async fn read_under(boxed: &Boxed, arena: &Arena, accepted: Policy) -> Seen {
    let engine = boxed.engine().await?;
    let sandbox = match boxed.sandbox(&engine, accepted).await {
        Ok(sandbox) => sandbox,
        Err(refusal) => {
            engine.close().await;
            return Ok(format!("refused {refusal}\n"));
        }
    };
    let kept = Kept { engine, sandbox };
    let seen = kept.script(arena, "cat '{secret}' '{workspace}/tree/target' 2>&1").await;
    kept.close().await?;
    seen
}

/// One file as the user's own.
fn as_user_file(text: &str) -> Result<Policy, String> {
    let config = Config::parse(text, "hotcell.toml", Layer::User).map_err(|error| in_full(&error))?;
    let layers = Layers { user: Some(config), ..Layers::default() };
    resolve(&layers, &Context { root: "/".into(), home: None }).map_err(|error| in_full(&error))
}

/// Policies that are meant to hide the secret, each with a mistake.
fn typos(arena: &Arena) -> [String; 5] {
    let (host, home) = (arena.host(), arena.host().join("home"));
    [
        format!("[filesystem]\nread = [{host:?}]\ndney = [{home:?}]\n"),
        format!("[filesystem]\nread = [{host:?}]\n[filesytem]\ndeny = {home:?}\n"),
        format!("[filesystem]\nread = [{host:?}]\nDeny = [{home:?}]\n"),
        format!("[filesystem]\nread = [{host:?}]\ndeny = {{ path = {home:?} }}\n"),
        format!("[filesystem]\nread = [{host:?}, {home:?}]\ndeny  =  [{home:?}]\n"),
    ]
}

async fn policy_typo(boxed: &Boxed, arena: &Arena) -> Seen {
    let mut seen = String::new();
    for text in typos(arena) {
        match as_user_file(&text) {
            Ok(accepted) => seen.push_str(&read_under(boxed, arena, accepted).await?),
            Err(error) => seen.push_str(&format!("refused {error}\n")),
        }
    }
    Ok(seen)
}

async fn empty_list(boxed: &Boxed, arena: &Arena) -> Seen {
    let text = "[filesystem]\nread = []\nwrite = []\noverlay = []\ndeny = []\n[env]\npass = []\n";
    read_under(boxed, arena, as_user_file(text)?).await
}

async fn project_file(boxed: &Boxed, arena: &Arena) -> Seen {
    let (host, workspace) = (arena.host(), arena.workspace());
    let greedy = [
        format!("[filesystem]\nread = [{host:?}]\n"),
        "[filesystem]\nread = [\"../host\"]\n".to_owned(),
        format!("[filesystem]\nwrite = [{workspace:?}]\n"),
        "[filesystem]\nunprotect = [\".git/hooks\"]\n".to_owned(),
        "[network]\nmode = \"open\"\n".to_owned(),
        "[limits]\nmemory = \"unlimited\"\n".to_owned(),
        "[limits]\ntimeout = \"1000h\"\n".to_owned(),
        "[env]\npass = [\"SSH_AUTH_SOCK\"]\n".to_owned(),
        "[sandbox]\napproximate = [\"network\"]\n".to_owned(),
    ];
    let context = Context { root: workspace.clone(), home: None };
    let without = resolve(&Layers::default(), &context).map_err(|error| in_full(&error))?;
    let mut seen = String::new();
    for text in greedy {
        let parsed = Config::parse(&text, "hotcell.toml", Layer::Project).map_err(|error| in_full(&error));
        let resolved = parsed.and_then(|config| {
            let layers = Layers { project: Some(config), ..Layers::default() };
            resolve(&layers, &context).map_err(|error| in_full(&error))
        });
        match resolved {
            Ok(accepted) => {
                if !accepted.is_at_most(&without) {
                    seen.push_str(&format!("reached a grant by {text:?}\n"));
                }
                seen.push_str(&read_under(boxed, arena, accepted).await?);
            }
            Err(error) => seen.push_str(&format!("refused {error}\n")),
        }
    }
    Ok(seen)
}

async fn child_policy(boxed: &Boxed, arena: &Arena) -> Seen {
    let told = |error: hotcell::layers::PolicyError| in_full(&error);
    let parent = Policy::builder().read(arena.program()).build().map_err(told)?;
    let child = Policy::builder()
        .read(arena.program())
        .read(arena.host())
        .network(NetworkMode::Open)
        .memory(1 << 40)
        .processes(1 << 20)
        .pass_env("HOME")
        .tty(true)
        .build()
        .map_err(told)?;
    let both = parent.narrow(&child);
    let mut seen = String::new();
    if !both.is_at_most(&parent) {
        seen.push_str("reached more than the parent has\n");
    }
    seen.push_str(&read_under(boxed, arena, both).await?);
    Ok(seen)
}

const SWAP: &str = "cd '{workspace}' && rmdir tree && ln -s '{host}' tree";

async fn swapped_source(boxed: &Boxed, arena: &Arena) -> Seen {
    on_host(arena, "mkdir '{workspace}/tree'")?;
    let asked = policy(arena).read(arena.workspace().join("tree")).build().map_err(|error| in_full(&error))?;
    // A box that may write the tree above it does the swap.
    let other = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    let planned =
        other.engine.plan(&boxed.accept(asked.clone())).await.map(drop).map_err(|refusal| refusal.to_string());
    other.prepare(arena, SWAP).await?;
    let seen = read_under(boxed, arena, asked).await;
    other.close().await?;
    planned.and(seen)
}

const PLANT_SETTINGS: &str = "cd '{workspace}' && mkdir -p .claude .vscode && echo '{}' > .claude/settings.json; echo run > .envrc; ln -s / .mcp.json";

async fn ghost_files(boxed: &Boxed, arena: &Arena) -> Seen {
    let kept = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    let seen = kept.script(arena, PLANT_SETTINGS).await;
    kept.close().await?;
    seen
}

async fn two_boxes_one_tree(boxed: &Boxed, arena: &Arena) -> Seen {
    let first = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    let second = Kept::new(boxed, policy(arena).write(arena.workspace())).await?;
    let third = first.engine.create(&boxed.accept(policy(arena).write(arena.workspace()).build().map_err(text)?)).await;
    let third = third.map_err(|error| in_full(&error))?;
    first.close().await?;
    let mut seen = second.script(arena, PLANT_SETTINGS).await?;
    second.close().await?;
    let mut process =
        third.spawn(sh(arena.expand(PLANT_SETTINGS).map_err(text)?)).await.map_err(|error| in_full(&error))?;
    let output =
        hotcell::SandboxOutput::collect(&mut *process, Default::default()).await.map_err(|error| in_full(&error))?;
    seen.push_str(&said(&output));
    drop(process);
    third.destroy().await.map_err(|error| in_full(&error))?;
    Ok(seen)
}
