//! Names in a writable tree that steer programs on the host: held whether they exist or not, and without a trace.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::*;
use hotcell::policy::Policy;
use hotcell::policy::protect::DEFAULT_PROTECTED;
use hotcell::{CreateError, Engine, EngineError, Status};

fn policy(tree: &Path) -> Policy {
    Policy::builder().write(tree).cwd(tree).build().unwrap()
}

/// Tries to bring every protected name into being or to change it, in every way there is.
fn attack() -> String {
    let names: Vec<&str> = DEFAULT_PROTECTED.iter().map(|entry| entry.name).collect();
    format!(
        r"
import os
names = {names:?}
def attempt(way, *arguments):
    try: way(*arguments)
    except OSError: pass
def write(name):
    with open(name, 'w') as file: file.write('planted')
def ready(name):
    made = 'made-' + name.replace('/', '-')
    write(made)
    return made
def tree(name):
    made = 'tree-' + name.replace('/', '-')
    attempt(os.makedirs, made)
    write(made + '/planted')
    return made
for name in names:
    top = name.split('/')[0]
    attempt(os.makedirs, os.path.dirname(name) or '.')
    attempt(write, name)
    attempt(write, name + '/planted')
    attempt(os.mkdir, name)
    attempt(os.symlink, ready(name), name)
    attempt(os.link, ready(name), name)
    attempt(os.mkfifo, name)
    attempt(os.mknod, name)
    attempt(os.rename, ready(name), name)
    attempt(os.rename, tree(name), name)
    attempt(os.chmod, name, 0o777)
    attempt(os.utime, name, (1, 1))
    attempt(os.truncate, name, 0)
    attempt(os.unlink, name)
    attempt(os.rmdir, name)
    attempt(os.rename, name, 'away-' + name.replace('/', '-'))
    # And from above: take the whole parent away, and put another there.
    attempt(os.rename, top, 'away-' + top)
    attempt(os.rmdir, top)
    attempt(os.symlink, 'elsewhere', top)
    attempt(os.makedirs, os.path.dirname(name) or '.')
    attempt(write, name)
    attempt(os.link, name, 'linked-' + name.replace('/', '-'))
# The tree itself cannot be exchanged either.
here = os.getcwd()
attempt(os.rename, here, here + '-away')
attempt(os.mkdir, here)
"
    )
}

/// What is on the host under the protected names: nothing, or exactly what was there.
fn protected_state(tree: &Path) -> Vec<(String, Option<String>)> {
    fn describe(path: &Path) -> Option<String> {
        let data = path.symlink_metadata().ok()?;
        let content = match data.is_dir() {
            true => {
                let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
                entries.sort();
                format!("{:?}", entries.iter().map(|entry| (entry.clone(), describe(entry))).collect::<Vec<_>>())
            }
            false => format!("{:?}", fs::read(path).unwrap_or_default()),
        };
        Some(format!("{:o} {content}", data.permissions().mode()))
    }
    DEFAULT_PROTECTED.iter().map(|entry| (entry.name.to_owned(), describe(&tree.join(entry.name)))).collect()
}

async fn assert_holds(engine: &Engine, place: &Place, what: &str) {
    let tree = place.join("tree");
    let before = protected_state(&tree);
    let output = engine.run_with(&policy(&tree), python(&attack())).await.unwrap();
    assert!(output.status().success(), "{what}: {}", text(&output.stderr));
    // The attack did reach the tree.
    assert!(
        tree.join("made-.envrc").exists() || tree.join("linked-.envrc").exists() || tree.join("tree-.envrc").exists(),
        "{what}"
    );
    assert_eq!(protected_state(&tree), before, "{what}");
}

#[tokio::test]
async fn names_that_do_not_exist_cannot_be_made() {
    let Some(engine) = engine("names_that_do_not_exist_cannot_be_made").await else { return };
    let place = Place::new();
    place.dir("tree");
    assert_holds(&engine, &place, "nothing there").await;
    // Without protection the same attack plants them all.
    let place = Place::new();
    let tree = place.dir("tree");
    let mut open = Policy::builder().write(&tree).cwd(&tree);
    for entry in DEFAULT_PROTECTED {
        open = open.unprotect(entry.name);
    }
    engine.run_with(&open.build().unwrap(), python(&attack())).await.unwrap();
    let planted = protected_state(&tree).iter().filter(|(_, state)| state.is_some()).count();
    assert!(planted > DEFAULT_PROTECTED.len() / 2, "the attack plants nothing: {:?}", place.listing());
}

#[tokio::test]
async fn names_that_exist_cannot_be_changed() {
    let Some(engine) = engine("names_that_exist_cannot_be_changed").await else { return };
    let place = Place::new();
    for entry in DEFAULT_PROTECTED {
        let directory = [
            ".git/hooks",
            ".git/modules",
            ".git/worktrees",
            ".vscode",
            ".idea",
            ".zed",
            ".claude",
            ".codex",
            ".cursor",
            ".hotcell",
        ];
        let name = if directory.contains(&entry.name) { format!("{}/file", entry.name) } else { entry.name.to_owned() };
        place.file(&format!("tree/{name}"), "original");
    }
    assert_holds(&engine, &place, "all there").await;
    // What is beside them in the same directories is ordinary.
    let tree = place.join("tree");
    let output =
        engine.run_with(&policy(&tree), sh("echo x > .git/index && cat .git/index .git/hooks/file")).await.unwrap();
    assert_eq!(stdout(&output), "x\noriginal");
}

#[tokio::test]
async fn names_that_exist_in_part_are_held() {
    let Some(engine) = engine("names_that_exist_in_part_are_held").await else { return };
    let place = Place::new();
    place.dir("tree/.git/objects");
    assert_holds(&engine, &place, "a repository without hooks and configuration").await;
    let place = Place::new();
    place.file("tree/.git", "gitdir: /elsewhere\n");
    assert_holds(&engine, &place, "a .git that is a file").await;
    assert_eq!(fs::read_to_string(place.join("tree/.git")).unwrap(), "gitdir: /elsewhere\n");
}

#[tokio::test]
async fn links_are_refused_with_the_way_out() {
    let Some(engine) = engine("links_are_refused_with_the_way_out").await else { return };
    let refused = async |tree: &Path, path: &Path| match engine.create(&policy(tree)).await {
        Err(EngineError::Create(CreateError::Path { path: named, hint, .. })) => {
            assert_eq!(named, path);
            assert!(hint.contains("unprotect"), "{hint}");
        }
        Err(other) => panic!("{}: {other}", path.display()),
        Ok(_) => panic!("{} cannot be held, but a box was made", path.display()),
    };
    for link in [".git", ".envrc"] {
        let place = Place::new();
        let tree = place.dir("tree");
        place.dir("tree/elsewhere");
        symlink("elsewhere", tree.join(link)).unwrap();
        refused(&tree, &tree.join(link)).await;
    }
    let place = Place::new();
    let config = place.file("tree/.git/config", "original");
    fs::hard_link(&config, place.join("tree/other-name")).unwrap();
    refused(&place.join("tree"), &config).await;
    assert_eq!(
        place.listing(),
        ["tree", "tree/.git", "tree/.git/config", "tree/other-name"],
        "nothing was left behind"
    );
}

/// A tree with a file of its own, and what it must look like when every box is gone.
fn ordinary_tree(place: &Place) -> Vec<String> {
    place.file("tree/plain", "x");
    place.dir("tree/.git");
    place.listing()
}

fn has_placeholders(place: &Place) -> bool {
    place.join("tree/.envrc").exists() && place.join("tree/.git/hooks").exists()
}

#[tokio::test]
async fn no_ghosts_remain() {
    let Some(engine) = engine("no_ghosts_remain").await else { return };
    let place = Place::new();
    let clean = ordinary_tree(&place);
    let tree = place.join("tree");

    let output = engine.run_with(&policy(&tree), sh("exit 0")).await.unwrap();
    assert_eq!(output.status(), Status::Exited(0));
    assert_eq!(place.listing(), clean, "after a normal end");

    let output = engine.run_with(&policy(&tree), sh("sleep 600").timeout(Duration::from_millis(100))).await.unwrap();
    assert_eq!(output.status(), Status::TimedOut);
    assert_eq!(place.listing(), clean, "after a timeout");

    let sandbox = engine.create(&policy(&tree)).await.unwrap();
    assert!(has_placeholders(&place), "there is nothing to be left behind: {:?}", place.listing());
    drop(sandbox);
    until("the tree is clean after a drop", || place.listing() == clean);

    let sandbox = engine.create(&policy(&tree)).await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(place.listing(), clean, "after the box was destroyed");

    let never = engine.run_with(&policy(&tree), hotcell::SpawnConfig::new("/no/such/program")).await;
    assert!(never.is_err());
    until("the tree is clean after a command that did not start", || place.listing() == clean);

    // A box that cannot be made, after its placeholders were.
    let bad = Policy::builder().write(&tree).read(place.join("missing")).build().unwrap();
    assert!(engine.create(&bad).await.is_err());
    assert_eq!(place.listing(), clean, "after a failure");
}

/// Names the tree for the run of this program that is killed.
const KILLED: &str = "HOTCELL_TEST_KILLED_IN";

#[tokio::test]
async fn no_ghosts_remain_when_the_supervisor_is_killed() {
    const NAME: &str = "no_ghosts_remain_when_the_supervisor_is_killed";
    if let Some(tree) = std::env::var_os(KILLED) {
        let engine = engine(NAME).await.unwrap();
        let sandbox = engine.create(&policy(Path::new(&tree))).await.unwrap();
        println!("ready {}", sandbox.id());
        return std::future::pending().await;
    }
    if engine(NAME).await.is_none() {
        return;
    }
    let place = Place::new();
    let clean = ordinary_tree(&place);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(KILLED, place.join("tree"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(output.any(|line| line.unwrap().contains("ready")), "it did not get as far as a box");
    assert!(has_placeholders(&place), "{:?}", place.listing());
    let spawners = spawners_of(child.id());
    assert_eq!(spawners.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the tree is clean after a kill", || place.listing() == clean);
    until("nothing of the box remains", || remains_of(spawners[0]).is_empty());
}

#[tokio::test]
async fn boxes_on_the_same_tree_do_not_undo_each_other() {
    let Some(engine) = engine("boxes_on_the_same_tree_do_not_undo_each_other").await else { return };
    let Some(other_engine) = common::engine("boxes_on_the_same_tree_do_not_undo_each_other").await else { return };
    for (kind, second_engine) in [("the same engine", &engine), ("another engine", &other_engine)] {
        let place = Place::new();
        let tree = place.dir("tree");
        // A denied name that does not exist is held in the same way.
        let policy = Policy::builder().write(&tree).deny(tree.join("later")).cwd(&tree).build().unwrap();
        let first = engine.create(&policy).await.unwrap();
        let second = second_engine.create(&policy).await.unwrap();
        first.destroy().await.unwrap();
        let output = run_in(&*second, python(&attack().replace("names = [", "names = ['later', "))).await;
        assert!(output.status().success(), "{kind}: {}", text(&output.stderr));
        second.destroy().await.unwrap();
        for (name, state) in protected_state(&tree) {
            assert_eq!(state, None, "{kind}: {name}");
        }
        let held = |name: &String| name.starts_with("tree/.") || name == "tree/later";
        assert!(!place.listing().iter().any(held), "{kind}: {:?}", place.listing());
    }
}

#[tokio::test]
async fn many_boxes_on_one_tree_leave_it_clean() {
    let Some(engine) = engine("many_boxes_on_one_tree_leave_it_clean").await else { return };
    let place = Place::new();
    let clean = ordinary_tree(&place);
    let tree = place.join("tree");
    let runs: Vec<_> = (0..24)
        .map(|_| {
            let (engine, policy) = (engine.clone(), policy(&tree));
            tokio::spawn(async move {
                engine
                    .run_with(&policy, sh("echo x > .envrc; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"))
                    .await
            })
        })
        .collect();
    for run in runs {
        // A box that cannot be made beside another is a defect, not a race to be lost.
        let output = run.await.unwrap().unwrap();
        assert_ne!(output.status(), Status::Exited(0));
    }
    assert_eq!(place.listing(), clean);
}

#[tokio::test]
async fn what_the_user_makes_meanwhile_survives() {
    let Some(engine) = engine("what_the_user_makes_meanwhile_survives").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let sandbox = engine.create(&policy(&tree)).await.unwrap();
    // As an editor does it: write beside, move over.
    fs::write(place.join("written-beside"), "the user's").unwrap();
    fs::rename(place.join("written-beside"), tree.join(".envrc")).unwrap();
    // As `git init` does it, in the directory that is there.
    fs::set_permissions(tree.join(".vscode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join(".vscode/settings.json"), "the user's").unwrap();
    // As a shell does it.
    fs::set_permissions(tree.join(".mcp.json"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(tree.join(".mcp.json"), "the user's").unwrap();
    sandbox.destroy().await.unwrap();
    for name in [".envrc", ".vscode/settings.json", ".mcp.json"] {
        assert_eq!(fs::read_to_string(tree.join(name)).unwrap(), "the user's", "{name}");
    }
    let others: Vec<String> = place.listing().into_iter().filter(|name| name.starts_with("tree/.")).collect();
    assert_eq!(others, ["tree/.envrc", "tree/.mcp.json", "tree/.vscode", "tree/.vscode/settings.json"]);
}
