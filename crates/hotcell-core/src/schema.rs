//! The JSON Schema of `hotcell.toml`, for editors.
//!
//! The structs here describe the file to people and tools and are never read into: [`crate::config`] reads files, because
//! it can say where a mistake is. A test keeps the two in step.

// The fields are only looked at by the derived schema.
#![allow(dead_code, reason = "the fields exist for the schema that is derived from them")]

use std::collections::BTreeMap;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::capability::Control;
use crate::presets::Preset;
use crate::runtime::{Isolation, RuntimeKind};

/// The schema as indented JSON, with a newline at the end.
///
/// ```
/// assert!(hotcell_core::schema::json().contains("\"cpu_time\""));
/// ```
pub fn json() -> String {
    let mut schema = schemars::schema_for!(HotcellToml);
    nothing_is_required(&mut schema);
    schema.insert("title".to_owned(), "hotcell.toml".into());
    format!("{:#}\n", schema.to_value())
}

/// Every key may be absent; saying so here is shorter than making every field an `Option`, and TOML has no null.
fn nothing_is_required(schema: &mut Schema) {
    schema.remove("required");
    transform_subschemas(&mut nothing_is_required, schema);
}

/// What code in the box may do. See docs/policy.md.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct HotcellToml {
    /// Another name for `sandbox.mode`; "none" means the native box.
    #[schemars(schema_with = "backend_name")]
    sandbox_backend: String,
    /// Another name for `remote.url`. Not in a project file.
    #[schemars(schema_with = "address")]
    sandbox_url: String,
    /// Another name for `remote.api_key`. Not in a project file.
    #[schemars(schema_with = "text")]
    sandbox_api_key: String,
    /// Which box.
    sandbox: SandboxTable,
    /// Which host paths, with which access. The most specific rule wins, deny wins a tie.
    filesystem: FilesystemTable,
    /// Whether there is a network.
    network: NetworkTable,
    /// What the code finds in its environment; everything else is scrubbed.
    env: EnvTable,
    /// How much of everything.
    limits: LimitsTable,
    /// How commands start.
    process: ProcessTable,
    /// What containers and virtual machines are made of.
    container: ContainerTable,
    /// The server of a remote box. None of it in a project file.
    remote: RemoteTable,
    /// Languages beyond the built-in ones, and the command that runs a file in each. None of it in a project file.
    #[schemars(schema_with = "languages")]
    languages: BTreeMap<String, Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SandboxTable {
    /// A policy for a common case, which takes the place of the defaults. Not in a project file.
    #[schemars(schema_with = "preset_name")]
    preset: String,
    /// The runtime. "auto" picks the fastest local one that can hold the whole policy.
    #[schemars(schema_with = "runtime_name")]
    mode: String,
    /// The weakest isolation that is acceptable.
    #[schemars(schema_with = "isolation_level")]
    isolation: String,
    /// The controls for which an approximation is acceptable.
    #[schemars(schema_with = "control_names")]
    approximate: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FilesystemTable {
    /// Paths that can be read.
    #[schemars(schema_with = "texts")]
    read: Vec<String>,
    /// Paths that are written directly.
    #[schemars(schema_with = "texts")]
    write: Vec<String>,
    /// Paths that are written in an overlay, which can be looked at, committed or thrown away.
    #[schemars(schema_with = "texts")]
    overlay: Vec<String>,
    /// Paths that are out of reach.
    #[schemars(schema_with = "texts")]
    deny: Vec<String>,
    /// Names in writable trees that cannot be changed, beyond the built-in ones.
    #[schemars(schema_with = "texts")]
    protect: Vec<String>,
    /// Built-in protected names that may be changed. Not in a project file.
    #[schemars(schema_with = "texts")]
    unprotect: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NetworkTable {
    /// No network, or the host's.
    #[schemars(schema_with = "network_mode")]
    mode: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct EnvTable {
    /// Variables passed from the host.
    #[schemars(schema_with = "texts")]
    pass: Vec<String>,
    /// Variables set to a value.
    #[schemars(schema_with = "variables")]
    set: BTreeMap<String, String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LimitsTable {
    /// Memory over all processes, memory-backed files included. Default: 1g.
    #[schemars(schema_with = "size")]
    memory: String,
    /// CPUs used at the same time. Default: unlimited.
    #[schemars(schema_with = "cpus")]
    cpus: f64,
    /// CPU time over all processes. Default: 300s.
    #[schemars(schema_with = "duration")]
    cpu_time: String,
    /// Processes and threads. Default: 256.
    #[schemars(schema_with = "count")]
    processes: u64,
    /// Open files per process. Default: 1024.
    #[schemars(schema_with = "count")]
    open_files: u64,
    /// Bytes on disk. Default: 512m.
    #[schemars(schema_with = "size")]
    disk: String,
    /// Bytes of output. Default: 256m.
    #[schemars(schema_with = "size")]
    output: String,
    /// Wall-clock time of one command. Default: 300s.
    #[schemars(schema_with = "duration")]
    timeout: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ProcessTable {
    /// The working directory.
    #[schemars(schema_with = "text")]
    cwd: String,
    /// The user in the box: "hotcell", "root" (inside only) or a number.
    #[schemars(schema_with = "user")]
    user: String,
    /// Whether commands may have a terminal.
    #[schemars(schema_with = "boolean")]
    tty: bool,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ContainerTable {
    /// The image. One that a project names is used if it is here, and not fetched unless you say `pull`.
    #[schemars(schema_with = "text")]
    image: String,
    /// The OCI runtime, as a name or an absolute path. Not in a project file.
    #[schemars(schema_with = "text")]
    runtime: String,
    /// Whether an image may be fetched. Not in a project file.
    #[schemars(schema_with = "pull_policy")]
    pull: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RemoteTable {
    /// The address of the server's API. Default: that of the runtime.
    #[schemars(schema_with = "address")]
    url: String,
    /// The key for it. A file, or the variable HOTCELL_SANDBOX_API_KEY, is a better place.
    #[schemars(schema_with = "text")]
    api_key: String,
    /// A file with the key, which nobody else may read. Relative to this file.
    #[schemars(schema_with = "text")]
    api_key_file: String,
    /// Where sandboxes themselves are reached, where that is not <port>-<id>.<domain> (e2b, cube).
    #[schemars(schema_with = "address")]
    data_url: String,
    /// The domain beneath which sandboxes are reached (e2b, cube).
    #[schemars(schema_with = "text")]
    domain: String,
    /// The template that a sandbox is made of (e2b, cube).
    #[schemars(schema_with = "text")]
    template: String,
    /// The snapshot that a sandbox is made of (opensandbox).
    #[schemars(schema_with = "text")]
    snapshot: String,
    /// How sandboxes are reached: at addresses of their own, or through the server (opensandbox). Default: direct.
    #[schemars(schema_with = "endpoints")]
    endpoints: String,
    /// Whether plain http to another machine will do. Default: false.
    #[schemars(schema_with = "boolean")]
    plain_http: bool,
}

fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^@?#\\\\\\s]+$" })
}

fn endpoints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["direct", "proxy"] })
}

fn pull_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["never", "missing", "always"] })
}

fn runtime_names() -> Vec<&'static str> {
    std::iter::once("auto").chain(RuntimeKind::ALL.iter().map(|kind| kind.as_str())).collect()
}

fn runtime_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": runtime_names() })
}

fn backend_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": runtime_names().into_iter().chain(["none"]).collect::<Vec<_>>() })
}

fn preset_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": Preset::ALL.map(Preset::as_str) })
}

fn isolation_level(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": Isolation::LEVELS.iter().map(|level| level.as_str()).collect::<Vec<_>>() })
}

fn control_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Control::ALL.iter().map(|control| control.as_str()).collect();
    json_schema!({ "type": "array", "items": { "enum": names } })
}

fn network_mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["deny", "open"] })
}

fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1 })
}

fn boolean(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "boolean" })
}

fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
}

fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn languages(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": { "pattern": "^[a-z][a-z0-9_+-]{0,31}$" },
        "additionalProperties": {
            "type": "object",
            "properties": {
                "command": {
                    "description": "The program and its arguments; the path of the file with the code is appended.",
                    "type": "array", "minItems": 1, "maxItems": 64, "items": { "type": "string", "minLength": 1 }
                }
            },
            "additionalProperties": false
        }
    })
}

fn size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 1 },
            { "type": "string", "pattern": "^\\s*0*[1-9][0-9]*\\s*([bB]|[kKmMgGtT]([iI]?[bB])?)?\\s*$|^unlimited$" }
        ]
    })
}

fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 1 },
            { "type": "string", "pattern": "^\\s*0*[1-9][0-9]*\\s*(ms|s|m|min|h)?\\s*$|^unlimited$" }
        ]
    })
}

fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": u32::MAX },
            { "type": "string", "pattern": "^\\s*0*[1-9][0-9]*\\s*$|^unlimited$" }
        ]
    })
}

fn cpus(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "number", "minimum": 0.01, "maximum": 8192 }, { "const": "unlimited" }] })
}

fn user(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 65533 },
            { "type": "string", "pattern": "^(hotcell|root|[0-9]{1,5})$" }
        ]
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::json;
    use crate::config::KEYS;

    /// The schema's keys, with their tables.
    fn schema_keys() -> BTreeSet<String> {
        let schema: Value = serde_json::from_str(&json()).unwrap();
        let mut keys = BTreeSet::new();
        for (name, property) in schema["properties"].as_object().unwrap() {
            match table_of(&schema, property) {
                Some(table) => keys.extend(table.keys().map(|key| format!("{name}.{key}"))),
                None => {
                    keys.insert(name.clone());
                }
            }
        }
        keys
    }

    fn table_of<'a>(schema: &'a Value, property: &Value) -> Option<&'a serde_json::Map<String, Value>> {
        let reference = property.get("$ref")?.as_str()?;
        schema.pointer(reference.strip_prefix('#')?)?.get("properties")?.as_object()
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_keys() {
        let known: BTreeSet<String> = KEYS.iter().map(|info| info.name.to_owned()).collect();
        assert_eq!(schema_keys(), known);
    }

    #[test]
    fn every_key_may_be_absent_and_none_may_be_invented() {
        assert!(!json().contains("\"required\""));
        assert_eq!(json().matches("\"additionalProperties\": false").count(), 10);
    }
}
