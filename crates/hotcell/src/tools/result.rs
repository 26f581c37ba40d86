//! Tools and results as a model and its host program see them.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::ToolError;

/// A tool, as a model and its host program see it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// What it is called by.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it does, written for a model.
    pub description: String,
    /// What it takes: a JSON Schema.
    pub input_schema: Value,
    /// What it gives: a JSON Schema.
    pub output_schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may destroy something of the user's.
    pub destructive: bool,
    /// Whether calling it twice is like calling it once.
    pub idempotent: bool,
}

/// An image in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Image {
    /// Its media type.
    pub media_type: String,
    /// Its content in Base64.
    pub data: String,
}

/// What a call gave: for the model as text, for programs as a value.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// For the model. Nothing in it drives a terminal.
    pub text: String,
    /// For programs; it fits the tool's output schema, or is an error object with `error`.
    pub structured: Value,
    /// What the code drew.
    pub images: Vec<Image>,
    /// Whether the call failed or was refused.
    pub is_error: bool,
}

impl ToolResult {
    /// Of a call that gave something.
    pub(super) fn of<T: Serialize + Render>(mut result: T) -> Self {
        let images = result.take_images();
        match serde_json::to_value(&result) {
            Ok(structured) => Self { text: result.text(), structured, images, is_error: false },
            Err(error) => {
                Self::from(ToolError::new(super::ErrorKind::Failed, format!("the result cannot be written: {error}")))
            }
        }
    }
}

impl From<ToolError> for ToolResult {
    fn from(error: ToolError) -> Self {
        Self { text: error.to_text(), structured: error.to_value(), images: Vec::new(), is_error: true }
    }
}

/// How a typed result is shown to a model. What we say comes first: what the box says cannot be taken for it.
pub(super) trait Render {
    fn text(&self) -> String;

    fn take_images(&mut self) -> Vec<Image> {
        Vec::new()
    }
}

/// Something that a call did, told while it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallProgress {
    /// How many bytes of output there are so far.
    pub bytes: u64,
    /// The newest line of it, fit for showing.
    pub line: String,
}

/// Who hears how far a call is.
pub type OnProgress = Arc<dyn Fn(CallProgress) + Send + Sync>;

/// What a tool takes or gives, as a JSON Schema without references: not every client follows them.
pub(super) fn schema<T: schemars::JsonSchema>() -> Value {
    let settings =
        schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    without_format(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("$schema");
        // A tool without arguments is called with an object all the same.
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Takes out what says how wide a number is in memory: JSON Schema has no such formats, and clients complain of what they do not know.
fn without_format(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            object.values_mut().for_each(without_format);
        }
        Value::Array(values) => values.iter_mut().for_each(without_format),
        _ => {}
    }
}

/// Like [`schema`], without the `null` that an absent value may also be written as: models take it for an invitation.
pub(super) fn input_schema<T: schemars::JsonSchema>() -> Value {
    let mut schema = schema::<T>();
    without_null(&mut schema);
    schema
}

fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|one| one != "null");
                if let [one] = types.as_mut_slice() {
                    let one = one.take();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|one| one.get("type").is_none_or(|of| of != "null"));
                if let [Value::Object(one)] = any.as_mut_slice() {
                    let one = std::mem::take(one);
                    object.remove("anyOf");
                    for (key, value) in one {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(values) => values.iter_mut().for_each(without_null),
        _ => {}
    }
}
