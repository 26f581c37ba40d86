//! The tools as models of other vendors call them.

use hotcell::tools::{anthropic, openai};
use serde_json::json;

use crate::support::Bench;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn functions_with_arguments_as_text() {
    let Some(bench) = Bench::overlay("functions_with_arguments_as_text").await else { return };
    let count = bench.toolbox.definitions().len();
    let tools = openai::definitions(&bench.toolbox);
    assert_eq!(tools.len(), count);
    assert_eq!((&tools[0]["type"], &tools[0]["function"]["name"]), (&json!("function"), &json!("exec_shell")));
    assert_eq!(tools[0]["function"]["parameters"]["type"], "object");
    let flat = openai::responses_definitions(&bench.toolbox);
    assert_eq!((flat.len(), &flat[0]["name"]), (count, &json!("exec_shell")));

    let call = |arguments: &str| json!({"id": "c1", "type": "function", "function": {"name": "exec_shell", "arguments": arguments}});
    let said = openai::call(&bench.toolbox, &call(r#"{"command": "echo hi"}"#)).await;
    assert_eq!((&said["role"], &said["tool_call_id"]), (&json!("tool"), &json!("c1")));
    assert!(said["content"].as_str().unwrap().contains("hi"));
    for wrong in
        ["{\"command\": ", "[]", "7", "\"x\"", "{\"command\": 7}", "{\"command\": \"x\", \"no\": 1}", "", "\u{1b}"]
    {
        let said = openai::call(&bench.toolbox, &call(wrong)).await;
        assert!(said["content"].as_str().unwrap().starts_with("error (invalid_input)"), "{wrong}: {said}");
    }
    let said = openai::call(&bench.toolbox, &json!({"id": "c2"})).await;
    assert!(said["content"].as_str().unwrap().starts_with("error (not_found)"), "{said}");
    let item = json!({"type": "function_call", "call_id": "c3", "name": "exec_shell", "arguments": "{\"command\": \"echo hi\"}"});
    let said = openai::call(&bench.toolbox, &item).await;
    assert_eq!((&said["type"], &said["call_id"]), (&json!("function_call_output"), &json!("c3")));
    assert!(said["output"].as_str().unwrap().contains("hi"));
    bench.works("write_file", json!({"path": "p.png", "content": PNG, "encoding": "base64"})).await;
    let item =
        json!({"type": "function_call", "call_id": "c4", "name": "read_file", "arguments": "{\"path\": \"p.png\"}"});
    let said = openai::call(&bench.toolbox, &item).await;
    assert_eq!(said["output"][1]["image_url"], format!("data:image/png;base64,{PNG}"));
}

#[tokio::test]
async fn tool_use_blocks() {
    let Some(bench) = Bench::overlay("tool_use_blocks").await else { return };
    let tools = anthropic::definitions(&bench.toolbox);
    assert_eq!(tools.len(), bench.toolbox.definitions().len());
    assert!(tools.iter().all(|tool| tool["input_schema"]["type"] == "object"), "{tools:?}");
    let block = |name: &str, input| json!({"type": "tool_use", "id": "t1", "name": name, "input": input});
    let said = anthropic::call(&bench.toolbox, &block("exec_shell", json!({"command": "echo hi"}))).await;
    assert_eq!(
        (&said["type"], &said["tool_use_id"], &said["is_error"]),
        (&json!("tool_result"), &json!("t1"), &json!(false))
    );
    assert!(said["content"][0]["text"].as_str().unwrap().contains("hi"));
    let said = anthropic::call(&bench.toolbox, &block("exec_shell", json!({"cmd": "echo hi"}))).await;
    assert_eq!(said["is_error"], true);
    bench.works("write_file", json!({"path": "p.png", "content": PNG, "encoding": "base64"})).await;
    let said = anthropic::call(&bench.toolbox, &block("read_file", json!({"path": "p.png"}))).await;
    assert_eq!(said["content"][1]["source"], json!({"type": "base64", "media_type": "image/png", "data": PNG}));
}
