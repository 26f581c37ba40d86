//! Tools for models that are called as Anthropic's are: `tool_use` blocks, answered by `tool_result` blocks.
//!
//! ```
//! use hotcell::tools::{Toolbox, ToolboxOptions, anthropic};
//! use hotcell::{Engine, Policy};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new().await?;
//! let toolbox = Toolbox::open(&engine, ToolboxOptions::new(Policy::default(), "/tmp")).await?;
//! let tools = anthropic::definitions(&toolbox);
//! // Send `tools` with the conversation. The model answers with blocks such as this one:
//! let block = json!({"type": "tool_use", "id": "toolu_1", "name": "exec_shell", "input": {"command": "echo hi"}});
//! let result = anthropic::call(&toolbox, &block).await;
//! assert_eq!(result["type"], "tool_result");
//! assert_eq!(result["tool_use_id"], "toolu_1");
//! # assert!(tools.len() > 5 && result["content"][0]["text"].as_str().is_some_and(|text| text.contains("hi")));
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

use serde_json::{Value, json};

use super::Toolbox;

/// The tools for a request of the Messages API.
pub fn definitions(toolbox: &Toolbox) -> Vec<Value> {
    let tool = |tool: super::ToolDefinition| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema });
    toolbox.definitions().into_iter().map(tool).collect()
}

/// Does what a `tool_use` block asks for and gives the `tool_result` block to send back, with text and images. What is wrong with a call is
/// told to the model.
pub async fn call(toolbox: &Toolbox, block: &Value) -> Value {
    let name = block["name"].as_str().unwrap_or_default();
    let result = toolbox.call(name, block["input"].clone(), None).await;
    let mut content = vec![json!({ "type": "text", "text": result.text })];
    content.extend(result.images.into_iter().map(|image| {
        json!({ "type": "image", "source": { "type": "base64", "media_type": image.media_type, "data": image.data } })
    }));
    json!({
        "type": "tool_result",
        "tool_use_id": block["id"],
        "content": content,
        "is_error": result.is_error,
    })
}
