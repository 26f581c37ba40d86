//! A toolbox on a place of the host, and calls of it.

use hotcell::policy::PolicyBuilder;
use hotcell::tools::{ToolResult, Toolbox, ToolboxOptions};
use hotcell::{Engine, Policy};
use serde_json::Value;

use crate::common::{Place, engine};

/// A box with a place as its workspace.
pub(crate) struct Bench {
    pub(crate) place: Place,
    pub(crate) toolbox: Toolbox,
    pub(crate) engine: Engine,
}

impl Bench {
    /// With the place as an overlay, as `hotcell mcp` does it.
    pub(crate) async fn overlay(test: &str) -> Option<Self> {
        Self::with(test, |place, policy| policy.overlay(place.path()), |_| {}).await
    }

    /// With a policy and options of the test's own.
    pub(crate) async fn with(
        test: &str,
        policy: impl FnOnce(&Place, PolicyBuilder) -> PolicyBuilder,
        options: impl FnOnce(&mut ToolboxOptions),
    ) -> Option<Self> {
        let engine = engine(test).await?;
        let place = Place::new();
        let policy = policy(&place, Policy::builder()).build().unwrap();
        let mut wanted = ToolboxOptions::new(policy, place.path());
        options(&mut wanted);
        let toolbox = Toolbox::open(&engine, wanted).await.unwrap();
        Some(Self { place, toolbox, engine })
    }

    /// Calls a tool; what it gives fits its schema.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolResult {
        let result = self.toolbox.call(name, arguments, None).await;
        check(&self.toolbox, name, &result);
        result
    }

    /// Calls a tool that must succeed; what programs get.
    pub(crate) async fn works(&self, name: &str, arguments: Value) -> Value {
        let shown = arguments.to_string();
        let result = self.call(name, arguments).await;
        assert!(!result.is_error, "{name} {shown}: {}", result.text);
        result.structured
    }

    /// Calls a tool that must fail; the error.
    pub(crate) async fn fails(&self, name: &str, arguments: Value) -> Value {
        let result = self.call(name, arguments).await;
        assert!(result.is_error, "{name} worked: {}", result.text);
        result.structured["error"].clone()
    }
}

/// What holds for every result.
fn check(toolbox: &Toolbox, name: &str, result: &ToolResult) {
    let drives = |c: char| c != '\n' && c != '\t' && hotcell::text::drives_terminals(c);
    assert!(!result.text.chars().any(drives), "{name}: {:?}", result.text);
    for text in strings(&result.structured) {
        assert!(!text.chars().any(drives), "{name}: {text:?}");
    }
    if result.is_error {
        let error = &result.structured["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{name}: {error}");
        return;
    }
    let definition = toolbox.definitions().into_iter().find(|tool| tool.name == name).unwrap();
    let schema = jsonschema::validator_for(&definition.output_schema).unwrap();
    let wrong: Vec<String> = schema.iter_errors(&result.structured).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?} in {}", result.structured);
}

fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(strings).collect(),
        Value::Object(values) => values.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}
