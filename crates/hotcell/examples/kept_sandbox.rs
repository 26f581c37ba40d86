//! A kept box: several commands, one after the other and at the same time, with files put in and taken out.
//!
//! `cargo run -p hotcell --example kept_sandbox`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::Path;
use std::time::Duration;

use hotcell::{CaptureLimits, Engine, Policy, Sandbox, SandboxOutput, SpawnConfig};

async fn run(sandbox: &dyn Sandbox, script: &str) -> Result<SandboxOutput, Box<dyn std::error::Error>> {
    let mut process = sandbox.spawn(SpawnConfig::new("sh").args(["-c", script])).await?;
    Ok(SandboxOutput::collect(&mut *process, CaptureLimits::default()).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new().await?;
    let policy = Policy::builder().processes(64).timeout(Duration::from_secs(30)).build()?;
    let sandbox = engine.create(&policy).await?;

    // What one command leaves in the box, the next one finds.
    let files = sandbox.files().ok_or("this backend has no files")?;
    files.write(Path::new("/home/hotcell/words"), b"pear\napple\nfig\n", 0o644).await?;
    run(&*sandbox, "sort words > sorted").await?;
    let sorted = files.read(Path::new("/home/hotcell/sorted"), 1 << 20).await?;
    println!("sorted: {}", String::from_utf8_lossy(&sorted).escape_debug());

    // Two at the same time.
    let (one, two) = tokio::join!(run(&*sandbox, "wc -l < words"), run(&*sandbox, "exit 3"));
    println!("lines: {}", String::from_utf8_lossy(&one?.stdout.bytes()).trim().escape_debug());
    println!("the other: {}", two?.status());

    // Dropping the box would end it, too; this waits until it has.
    sandbox.destroy().await?;
    Ok(())
}
