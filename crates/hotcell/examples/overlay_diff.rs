//! An overlay: let a command change a project, look at what it did, and only then keep it.
//!
//! `cargo run -p hotcell --example overlay_diff`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;

use hotcell::{Engine, Policy, SpawnConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let project = directory.path().canonicalize()?;
    fs::write(project.join("notes.txt"), "first\n")?;
    fs::write(project.join("old.txt"), "no longer needed\n")?;

    let engine = Engine::new().await?;
    let policy = Policy::builder().overlay(&project).cwd(&project).build()?;
    let sandbox = engine.create(&policy).await?;
    let script =
        "echo second >> notes.txt; rm old.txt; mkdir src; echo 'fn main() {}' > src/main.rs; chmod 755 src/main.rs";
    let process = sandbox.spawn(SpawnConfig::new("sh").args(["-c", script])).await?;
    println!("{}", process.wait().await?.status);

    // Nothing on the host has changed so far.
    assert_eq!(fs::read_to_string(project.join("notes.txt"))?, "first\n");
    let workspace = sandbox.workspace().ok_or("this backend has no overlays")?;
    for change in workspace.diff().await? {
        let path = change.path.strip_prefix(&project).unwrap_or(&change.path);
        println!("{:?} {:?} {}", change.kind, change.file, path.display().to_string().escape_debug());
    }

    // `discard` would throw it away.
    workspace.commit().await?;
    assert_eq!(fs::read_to_string(project.join("notes.txt"))?, "first\nsecond\n");
    assert!(!project.join("old.txt").exists());
    sandbox.destroy().await?;
    Ok(())
}
