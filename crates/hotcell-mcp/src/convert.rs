//! Tools and their results in the protocol's terms.

use std::sync::Arc;

use hotcell::tools::{ToolDefinition, ToolResult};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

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
        Value::Object(schema) => Some(Arc::new(or_error(schema))),
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

/// The schema of a result or of a failure: some clients check one like the other.
fn or_error(mut result: JsonObject) -> JsonObject {
    let mut schema = JsonObject::new();
    // What a schema refers to is looked for at its top.
    for key in ["$schema", "$defs"] {
        schema.extend(result.remove_entry(key));
    }
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["kind", "message"],
            "properties": {
                "kind": { "type": "string" },
                "rule": { "type": ["string", "null"], "description": "The rule of the policy that refused it." },
                "message": { "type": "string" },
                "instead": { "type": ["string", "null"], "description": "What may be done instead." },
            },
        }},
    });
    schema.insert("type".to_owned(), "object".into());
    schema.insert("anyOf".to_owned(), json!([result, error]));
    schema
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::new(JsonObject::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_refers_to_stays_at_its_top() {
        let result = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": { "Kind": { "type": "string" } },
            "type": "object",
            "properties": { "kind": { "$ref": "#/$defs/Kind" } },
        });
        let Value::Object(result) = result else { panic!("it is an object") };
        let schema = Value::Object(or_error(result));
        assert_eq!(schema.pointer("/$defs/Kind/type"), Some(&json!("string")));
        assert_eq!(schema["type"], "object");
        assert_eq!(schema.pointer("/anyOf/0/properties/kind/$ref"), Some(&json!("#/$defs/Kind")));
        assert_eq!(schema.pointer("/anyOf/0/$defs"), None);
        assert_eq!(schema.pointer("/anyOf/1/required/0"), Some(&json!("error")));
    }
}
