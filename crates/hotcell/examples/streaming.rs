//! Streaming: write to a command while reading what it says, and stop it when that is enough.
//!
//! Output arrives as bytes, in order; while nobody asks for the next piece, the command waits. Bytes of a stranger are
//! escaped before they reach a terminal.
//!
//! `cargo run -p hotcell --example streaming`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use hotcell::{Engine, Policy, SpawnConfig, StdinMode, Stream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new().await?;
    let policy = Policy::builder().timeout(Duration::from_secs(10)).output(1 << 20).build()?;
    let script = "while read line; do echo \"heard $line\"; echo \"(${#line} characters)\" >&2; done; yes";
    let config = SpawnConfig::new("sh").args(["-c", script]).stdin(StdinMode::Piped);
    let mut command = engine.start(&policy, config).await?;
    let io = command.take_io();
    let (Some(mut stdin), Some(mut output)) = (io.stdin, io.output) else { return Err("no streams".into()) };

    stdin.write_all(b"one\ntwo\n\x1b[31mthree\n").await?;
    stdin.close().await?;
    let mut events = 0;
    while let Some(event) = output.next().await {
        let name = if event.stream == Stream::Stdout { "out" } else { "err" };
        let start = &event.bytes[..event.bytes.len().min(60)];
        println!("{name} | {}", String::from_utf8_lossy(start).escape_debug());
        events += 1;
        if events == 10 {
            // `yes` would go on until the output limit.
            command.kill().await?;
            break;
        }
    }
    let outcome = command.finish().await?;
    println!("{}, after {:?}", outcome.status, outcome.usage.wall);
    Ok(())
}
