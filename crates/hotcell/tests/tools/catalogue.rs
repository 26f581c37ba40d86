//! What models are told about the tools.

use hotcell::policy::NetworkMode;
use hotcell::tools::{OpenError, Toolbox, ToolboxOptions};
use hotcell::{Engine, Policy};
use serde_json::{Value, json};

use crate::common::{Place, engine};
use crate::support::Bench;

const ALL: [&str; 13] = [
    "exec_shell",
    "run_code",
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "search_files",
    "process_output",
    "process_input",
    "stop_process",
    "workspace_diff",
    "workspace_commit",
    "sandbox_status",
];

#[tokio::test]
async fn every_tool_is_listed_described_and_can_be_called() {
    let Some(bench) = Bench::overlay("every_tool_is_listed_described_and_can_be_called").await else { return };
    let tools = bench.toolbox.definitions();
    assert_eq!(tools.iter().map(|tool| tool.name).collect::<Vec<_>>(), ALL);
    for tool in &tools {
        assert!(tool.description.len() > 80, "{}", tool.description);
        for schema in [&tool.input_schema, &tool.output_schema] {
            jsonschema::meta::validate(schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert!(!schema.to_string().contains("$ref"), "{}: {schema}", tool.name);
        }
        assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
        for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}: {name}", tool.name);
            assert!(!property.to_string().contains("null"), "{}: {name}: {property}", tool.name);
        }
        let result = bench.toolbox.call(tool.name, json!({}), None).await;
        assert_ne!(result.structured["error"]["kind"], "unsupported", "{}: {}", tool.name, result.text);
        let result = bench.toolbox.call(tool.name, json!({"no such field": 1}), None).await;
        assert_eq!(result.structured["error"]["kind"], "invalid_input", "{}", tool.name);
    }
    let of = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    assert!(of("read_file").read_only && !of("exec_shell").read_only && of("workspace_commit").destructive);
    // In an overlay nothing of the user's is in danger before the commit.
    assert!(!of("exec_shell").destructive && !of("write_file").destructive);
}

/// All schemas within a schema.
fn schemas(value: &Value) -> Vec<&Value> {
    let within = value.as_object().into_iter().flat_map(|object| object.values());
    let within = within.chain(value.as_array().into_iter().flatten()).flat_map(schemas);
    std::iter::once(value).chain(within).collect()
}

#[tokio::test]
async fn numbers_have_the_bounds_that_hold_and_no_format_of_our_own() {
    let slow = |options: &mut ToolboxOptions| options.limits.longest = std::time::Duration::from_secs(70);
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        policy.overlay(place.path()).timeout(std::time::Duration::from_secs(60))
    };
    let test = "numbers_have_the_bounds_that_hold_and_no_format_of_our_own";
    let Some(bench) = Bench::with(test, policy, slow).await else { return };
    let tools = bench.toolbox.definitions();
    assert_eq!(tools.len(), ALL.len());
    let known = ["date-time", "date", "time", "duration", "uri", "uri-reference", "uuid", "regex", "json-pointer"];
    let mut numbers = Vec::new();
    for tool in &tools {
        for schema in schemas(&tool.input_schema).into_iter().chain(schemas(&tool.output_schema)) {
            let format = schema["format"].as_str();
            assert!(format.is_none_or(|format| known.contains(&format)), "{}: {schema}", tool.name);
        }
        for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
            if property["type"] == "integer" {
                let bound = |key: &str| property[key].as_u64();
                numbers.push((tool.name, name.as_str(), bound("minimum"), bound("maximum")));
            }
        }
    }
    let expected = [
        ("exec_shell", "timeout_ms", Some(1), Some(60_000)),
        ("run_code", "timeout_ms", Some(1), Some(60_000)),
        ("read_file", "first_byte", Some(0), None),
        ("read_file", "first_line", Some(1), None),
        ("read_file", "lines", Some(1), None),
        ("list_files", "depth", Some(1), Some(64)),
        ("search_files", "max_matches", Some(1), Some(1000)),
        ("process_output", "cursor", Some(0), None),
        ("process_output", "wait_ms", Some(0), Some(70_000)),
    ];
    assert_eq!(numbers, expected);
    for background in [false, true] {
        let command = |time: u64| json!({"command": "true", "timeout_ms": time, "background": background});
        bench.works("exec_shell", command(60_000)).await;
        for time in [0, 60_001, u64::MAX] {
            assert_eq!(bench.fails("exec_shell", command(time)).await["kind"], "invalid_input", "{time}");
        }
    }
}

#[tokio::test]
async fn calls_without_a_limit_of_time_work() {
    let patient = |options: &mut ToolboxOptions| {
        options.policy.limits.timeout.value = None;
        (options.limits.timeout, options.limits.longest) = (std::time::Duration::MAX, std::time::Duration::MAX);
    };
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("calls_without_a_limit_of_time_work", overlay, patient).await else { return };
    bench.works("exec_shell", json!({"command": "echo x > f"})).await;
    bench.works("exec_shell", json!({"command": "sleep 600", "background": true, "timeout_ms": u64::MAX})).await;
    bench.works("run_code", json!({"language": "bash", "code": "echo x", "timeout_ms": u64::MAX})).await;
    bench.works("run_code", json!({"language": "bash", "code": "echo x", "context": "main"})).await;
    bench.works("list_files", json!({})).await;
    bench.works("search_files", json!({"pattern": "x"})).await;
    bench.works("process_output", json!({"process": "p1", "wait_ms": 1})).await;
    bench.works("process_input", json!({"process": "p1", "text": "x"})).await;
    bench.works("stop_process", json!({"process": "p1"})).await;
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 1);
}

#[tokio::test]
async fn descriptions_follow_the_policy() {
    let test = "descriptions_follow_the_policy";
    let Some(closed) = Bench::overlay(test).await else { return };
    let description = |bench: &Bench| bench.toolbox.definitions()[0].description.clone();
    assert!(description(&closed).contains("There is no network") && description(&closed).contains("workspace_commit"));
    let open =
        |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.write(place.path()).network(NetworkMode::Open);
    let Some(open) = Bench::with(test, open, |_| {}).await else { return };
    assert!(!description(&open).contains("There is no network") && description(&open).contains("sees it at once"));
    assert!(open.toolbox.definitions()[0].destructive);
}

#[tokio::test]
async fn only_the_tools_that_were_asked_for_are_there() {
    let some = |options: &mut ToolboxOptions| options.tools = Some(vec!["read_file".into(), "list_files".into()]);
    let read = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.read(place.path());
    let Some(bench) = Bench::with("only_the_tools_that_were_asked_for_are_there", read, some).await else { return };
    assert_eq!(
        bench.toolbox.definitions().iter().map(|tool| tool.name).collect::<Vec<_>>(),
        ["read_file", "list_files"]
    );
    bench.works("list_files", json!({})).await;
    let error = bench.fails("exec_shell", json!({"command": "echo hi"})).await;
    assert_eq!(error["kind"], "not_found");
    assert!(error["instead"].as_str().unwrap().contains("read_file, list_files"), "{error}");
}

async fn open(
    engine: &Engine,
    policy: &Policy,
    change: impl FnOnce(&mut ToolboxOptions),
) -> Result<Toolbox, OpenError> {
    let mut options = ToolboxOptions::new(policy.clone(), "/tmp");
    change(&mut options);
    Toolbox::open(engine, options).await
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let Some(engine) = engine("options_that_make_no_sense_are_refused").await else { return };
    let place = Place::new();
    let policy = Policy::builder().read(place.path()).deny(place.dir("no")).build().unwrap();
    let unknown = open(&engine, &policy, |options| options.tools = Some(vec!["exec_shel".into()])).await;
    assert!(matches!(unknown, Err(OpenError::UnknownTool { .. })), "{unknown:?}");
    for bad in [place.join("no"), place.join("absent"), "relative".into(), "/root/elsewhere".into(), "/bin/sh".into()] {
        let refused = open(&engine, &policy, |options| options.workspace.clone_from(&bad)).await;
        assert!(matches!(refused, Err(OpenError::Workspace { .. })), "{}: {refused:?}", bad.display());
    }
    let fine = open(&engine, &policy, |options| options.workspace = place.path().into()).await.unwrap();
    fine.close().await;
}

#[tokio::test]
async fn the_status_says_what_is_allowed_and_what_runs() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.dir("no");
        policy.overlay(place.path()).deny(place.join("no")).output(300 << 20)
    };
    let Some(bench) = Bench::with("the_status_says_what_is_allowed_and_what_runs", policy, |_| {}).await else {
        return;
    };
    bench.works("exec_shell", json!({"command": "sleep 600", "background": true})).await;
    let result = bench.call("sandbox_status", json!({})).await;
    let said = result.structured;
    assert_eq!((&said["backend"], &said["network"]), (&json!("native"), &json!("deny")));
    let access: Vec<&str> =
        said["paths"].as_array().unwrap().iter().map(|path| path["access"].as_str().unwrap()).collect();
    assert_eq!(access, ["overlay", "deny"]);
    let limits = said["limits"].as_array().unwrap();
    assert!(limits.contains(&json!({"name": "output", "value": "300 MiB"})), "{limits:?}");
    assert_eq!((&said["processes"][0]["process"], &said["processes"][0]["status"]), (&json!("p1"), &json!("running")));
    let levels: Vec<&Value> = said["controls"].as_array().unwrap().iter().map(|held| &held["level"]).collect();
    assert!(!levels.is_empty() && result.text.contains("held by"), "{}", result.text);
}
