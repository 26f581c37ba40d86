//! Tools and their results in the protocol's terms.

use std::sync::Arc;

use hotcell::tools::{ToolDefinition, ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

/// A tool as a client sees it; `open_world` is whether the box has a network.
pub(crate) fn tool(definition: ToolDefinition, open_world: bool) -> Tool {
    let ToolDefinition { name, title, description, input_schema, output_schema, .. } = definition;
    let annotations = ToolAnnotations::from_raw(
        Some(title.to_owned()),
        Some(definition.read_only),
        Some(definition.destructive),
        Some(definition.idempotent),
        Some(open_world),
    );
    let mut tool = Tool::new(name, description, object(input_schema)).with_title(title).with_annotations(annotations);
    tool.output_schema = match output_schema {
        Value::Object(schema) => Some(Arc::new(schema)),
        _ => None,
    };
    tool
}

/// A result as a client sees it: text for the model, images, and the same as a value for programs.
pub(crate) fn result(result: ToolResult) -> CallToolResult {
    let ToolResult { text, structured, images, is_error, .. } = result;
    let text = std::iter::once(ContentBlock::text(text));
    let images = images.into_iter().map(|image| ContentBlock::image(image.data, image.media_type));
    let content = text.chain(images).collect();
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    // An output schema describes an object; nothing else fits one.
    result.structured_content = structured.is_object().then_some(structured);
    result
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::new(JsonObject::new()),
    }
}
