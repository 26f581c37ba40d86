//! The shortest use: run a command that nobody trusts, in a box that holds nothing but the system's own programs.
//!
//! `cargo run -p hotcell --example three_lines`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use hotcell::{Engine, SpawnConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new().await?;
    let output = engine.run(SpawnConfig::new("sh").args(["-c", "id -un; ls /home; echo $((6*7))"])).await?;
    println!("{}: {}", output.status(), String::from_utf8_lossy(&output.stdout.bytes()).escape_debug());
    Ok(())
}
