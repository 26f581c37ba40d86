//! Tools for models that are called as OpenAI's are: functions, with arguments as text.
//!
//! ```
//! use hotcell::tools::{Toolbox, ToolboxOptions, openai};
//! use hotcell::{Engine, Policy};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new().await?;
//! let toolbox = Toolbox::open(&engine, ToolboxOptions::new(Policy::default(), "/tmp")).await?;
//! let tools = openai::definitions(&toolbox);
//! // Send `tools` with the conversation. The model answers with calls such as this one:
//! let call = json!({"id": "call_1", "type": "function",
//!     "function": {"name": "exec_shell", "arguments": "{\"command\": \"echo hi\"}"}});
//! let message = openai::call(&toolbox, &call).await;
//! assert_eq!(message["role"], "tool");
//! assert_eq!(message["tool_call_id"], "call_1");
//! # assert!(tools.len() > 5 && message["content"].as_str().is_some_and(|text| text.contains("hi")));
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

use serde_json::{Value, json};

use super::{ToolError, ToolResult, Toolbox, text};

/// The longest arguments that are parsed.
const LONGEST_ARGUMENTS: usize = 32 << 20;

/// The tools for a request of the Chat Completions API.
pub fn definitions(toolbox: &Toolbox) -> Vec<Value> {
    let function = |tool: super::ToolDefinition| {
        json!({ "type": "function", "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        }})
    };
    toolbox.definitions().into_iter().map(function).collect()
}

/// The tools for a request of the Responses API.
pub fn responses_definitions(toolbox: &Toolbox) -> Vec<Value> {
    let function = |tool: super::ToolDefinition| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "strict": false,
        })
    };
    toolbox.definitions().into_iter().map(function).collect()
}

/// Does what a model called and gives what to send back: for an entry of `tool_calls` a message of the role `tool`, for an item of the type
/// `function_call` (Responses API) one of the type `function_call_output`. What is wrong with a call is told to the model.
pub async fn call(toolbox: &Toolbox, call: &Value) -> Value {
    let is_item = call["type"] == "function_call";
    let function = if is_item { call } else { &call["function"] };
    let result = match arguments(&function["arguments"]) {
        Ok(arguments) => toolbox.call(function["name"].as_str().unwrap_or_default(), arguments, None).await,
        Err(error) => error.into(),
    };
    if is_item {
        return json!({ "type": "function_call_output", "call_id": call["call_id"], "output": output(result) });
    }
    let mut content = result.text;
    if !result.images.is_empty() {
        content.push_str(&format!("\n({} images, which a message of this role cannot carry)", result.images.len()));
    }
    json!({ "role": "tool", "tool_call_id": call["id"], "content": content })
}

/// Text alone, or a list with images.
fn output(result: ToolResult) -> Value {
    if result.images.is_empty() {
        return Value::String(result.text);
    }
    let mut parts = vec![json!({ "type": "input_text", "text": result.text })];
    parts.extend(result.images.into_iter().map(|image| {
        json!({ "type": "input_image", "image_url": format!("data:{};base64,{}", image.media_type, image.data) })
    }));
    Value::Array(parts)
}

/// Arguments as the model wrote them: text that should be JSON.
fn arguments(written: &Value) -> Result<Value, ToolError> {
    let text = match written {
        Value::String(text) => text,
        // Some servers parse them.
        Value::Object(_) | Value::Null => return Ok(written.clone()),
        _ => return Err(ToolError::invalid("the arguments are neither text nor an object")),
    };
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    if text.len() > LONGEST_ARGUMENTS {
        return Err(ToolError::new(super::ErrorKind::TooLarge, format!("the arguments have {} bytes", text.len())));
    }
    serde_json::from_str(text).map_err(|error| {
        ToolError::invalid(format!("the arguments are not JSON: {}", text::line(&error.to_string())))
            .instead("write one JSON object that follows the tool's schema")
    })
}
