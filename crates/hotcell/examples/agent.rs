//! An agent in miniature: a loop in which a model calls tools. Everything that it calls happens in one box.
//!
//! `cargo run -p hotcell --example agent`
//!
//! The model is a script here, with a mistake in its first attempt. A real one is sent `toolbox.definitions()` (or what
//! `hotcell::tools::anthropic` and `hotcell::tools::openai` make of them) and the results, and answers with the next call.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fs;
use std::path::Path;

use hotcell::tools::{ToolResult, Toolbox, ToolboxOptions};
use hotcell::{Engine, Policy};
use serde_json::{Value, json};

/// What a model says in its turn.
enum Turn {
    Call(&'static str, Value),
    Done(String),
}

/// Sums a column of numbers, and looks at what comes back, as a model would.
fn scripted_model(turn: usize, last: Option<&ToolResult>) -> Turn {
    let exit_code = last.and_then(|result| result.structured["exit_code"].as_i64());
    match turn {
        0 => Turn::Call("read_file", json!({ "path": "sales.txt" })),
        1 => Turn::Call(
            "write_file",
            json!({ "path": "total.sh", "content": "awk '{ s += $2 } END { print s' sales.txt\n" }),
        ),
        2 => Turn::Call("exec_shell", json!({ "command": "sh total.sh", "timeout_ms": 10_000 })),
        // awk complained about a brace.
        3 if exit_code != Some(0) => {
            Turn::Call("edit_file", json!({ "path": "total.sh", "old_text": "print s'", "new_text": "print s }'" }))
        }
        4 => Turn::Call("exec_shell", json!({ "command": "sh total.sh | tee total.txt" })),
        // Not in the workspace: refused, whatever the reason.
        5 => Turn::Call("read_file", json!({ "path": "/etc/shadow" })),
        6 => Turn::Call("workspace_diff", json!({})),
        7 => Turn::Call("workspace_commit", json!({})),
        _ => Turn::Done("The total is in total.txt.".to_owned()),
    }
}

/// Lets the model work in a directory until it is done; what it called, and whether that failed.
pub(crate) async fn work(project: &Path) -> Result<Vec<(&'static str, bool)>, Box<dyn Error>> {
    let engine = Engine::new().await?;
    // What the model writes stays in a layer of the box until it is committed.
    let policy = Policy::builder().overlay(project).cwd(project).build()?;
    let toolbox = Toolbox::open(&engine, ToolboxOptions::new(policy, project)).await?;
    println!("tools: {}", toolbox.definitions().iter().map(|tool| tool.name).collect::<Vec<_>>().join(", "));

    let mut calls = Vec::new();
    let mut last: Option<ToolResult> = None;
    loop {
        match scripted_model(calls.len(), last.as_ref()) {
            Turn::Done(text) => {
                println!("\n{text}");
                break;
            }
            Turn::Call(name, arguments) => {
                println!("\n> {name} {arguments}");
                // A refusal is a result as well: the model reads which rule it was, and what it may do instead.
                let result = toolbox.call(name, arguments, None).await;
                println!("{}", result.text);
                calls.push((name, result.is_error));
                last = Some(result);
            }
        }
    }
    // Everything of it ends here: processes, files that were not committed, the box itself.
    toolbox.close().await;
    Ok(calls)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let project = directory.path().canonicalize()?;
    fs::write(project.join("sales.txt"), "pears 12\nfigs 30\n")?;
    work(&project).await?;
    println!("on the host: {}", fs::read_to_string(project.join("total.txt"))?.trim());
    Ok(())
}
