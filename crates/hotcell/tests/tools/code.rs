//! Code, once and in contexts that remember.

use serde_json::{Value, json};

use crate::common::{PYTHON, Place, has_program};
use crate::support::Bench;

async fn bench(test: &str) -> Option<Bench> {
    if has_program(test, PYTHON) { Bench::overlay(test).await } else { None }
}

async fn python(bench: &Bench, code: &str) -> Value {
    bench.works("run_code", json!({"language": "python", "code": code, "context": "main", "timeout_ms": 60_000})).await
}

#[tokio::test]
async fn a_context_remembers_and_survives_a_timeout() {
    let Some(bench) = bench("a_context_remembers_and_survives_a_timeout").await else { return };
    let said = python(&bench, "import os\nx = 6\nprint(os.getcwd())").await;
    assert_eq!(
        (&said["status"], &said["stdout"]),
        (&json!("done"), &json!(format!("{}\n", bench.place.path().display())))
    );
    let said = python(&bench, "x * 7").await;
    assert_eq!(said["results"][0]["data"]["text/plain"], "42", "{said}");
    assert_eq!(said["results"][0]["is_value"], true);
    let slow = json!({"language": "python", "code": "while True: pass", "context": "main", "timeout_ms": 1000});
    let said = bench.works("run_code", slow).await;
    assert_eq!(said["status"], "timed-out", "{said}");
    assert_eq!(python(&bench, "6 * 7").await["results"][0]["data"]["text/plain"], "42");
    let status = bench.works("sandbox_status", json!({})).await;
    assert_eq!((&status["contexts"][0]["context"], &status["contexts"][0]["busy"]), (&json!("main"), &json!(false)));
    bench.works("stop_process", json!({"process": "main"})).await;
    assert_eq!(bench.works("sandbox_status", json!({})).await["contexts"], json!([]));
    assert_eq!(python(&bench, "x").await["exception"]["name"], "NameError");
}

#[tokio::test]
async fn an_image_comes_beside_the_result() {
    let Some(bench) = bench("an_image_comes_beside_the_result").await else { return };
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let code = format!(
        "import base64\nclass Figure:\n    def _repr_png_(self): return base64.b64decode('{png}')\n    def __repr__(self): return '<Figure>'\nFigure()"
    );
    let result = bench.call("run_code", json!({"language": "python", "code": code, "context": "main"})).await;
    assert!(!result.is_error, "{}", result.text);
    assert_eq!((result.images.len(), result.images[0].data.as_str()), (1, png), "{}", result.text);
    assert_eq!(result.structured["results"][0]["data"]["image/png"], "image 1");
}

#[tokio::test]
async fn exceptions_and_denials_are_told() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("secret/key", "hunter2");
        policy.overlay(place.path()).deny(place.join("secret"))
    };
    let test = "exceptions_and_denials_are_told";
    if !has_program(test, PYTHON) {
        return;
    }
    let Some(bench) = Bench::with(test, policy, |_| {}).await else { return };
    for context in [json!(null), json!("main")] {
        let run = |code: &str| json!({"language": "python", "code": code, "context": context});
        let said = bench.works("run_code", run("open('secret/key').read()")).await;
        assert_eq!(said["status"], "failed", "{said}");
        assert!(said["denials"][0]["rule"].as_str().unwrap().starts_with("filesystem.deny = "), "{said}");
        let said = bench.works("run_code", run("import socket\nsocket.create_connection(('192.0.2.1', 80))")).await;
        assert_eq!(said["denials"][0]["rule"], "network.mode = \"deny\"", "{said}");
        let said = bench.works("run_code", run("print('\\x1b[2J' + 'fine')")).await;
        assert_eq!((&said["stdout"], &said["denials"]), (&json!("\\u{1b}[2Jfine\n"), &json!([])));
    }
    let error = bench.fails("run_code", json!({"language": "cobol", "code": "1"})).await;
    assert_eq!(error["kind"], "invalid_input");
    assert!(error["message"].as_str().unwrap().contains("python"), "{error}");
}

#[tokio::test]
async fn a_commit_ends_idle_contexts_and_is_refused_beside_busy_ones() {
    let Some(bench) = bench("a_commit_ends_idle_contexts_and_is_refused_beside_busy_ones").await else { return };
    python(&bench, "open('made', 'w').write('by code\\n'); x = 1").await;
    assert_eq!(bench.works("workspace_diff", json!({})).await["total"], 1);
    let said = bench.works("workspace_commit", json!({})).await;
    assert_eq!((&said["total"], &said["contexts_ended"]), (&json!(1), &json!(["main"])));
    assert_eq!(std::fs::read_to_string(bench.place.join("made")).unwrap(), "by code\n");
    assert_eq!(python(&bench, "x").await["exception"]["name"], "NameError");
    // One that runs is another matter.
    let toolbox = bench.toolbox.clone();
    let busy = json!({"language": "python", "context": "main", "code": "import os, time\nopen('started', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)"});
    let busy = tokio::spawn(async move { toolbox.call("run_code", busy, None).await });
    while bench.call("read_file", json!({"path": "started"})).await.is_error {
        assert!(!busy.is_finished());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(bench.fails("workspace_commit", json!({})).await["kind"], "busy");
    bench.works("write_file", json!({"path": "go", "content": ""})).await;
    assert!(!busy.await.unwrap().is_error);
    bench.works("workspace_commit", json!({})).await;
}

#[tokio::test]
async fn all_results_together_are_bounded() {
    let Some(bench) = bench("all_results_together_are_bounded").await else { return };
    let code = "class Much:\n    def _repr_html_(self): return 'h' * 30000\n    def _repr_latex_(self): return 'l' * 30000\n    def __repr__(self): return 't' * 30000\nfor _ in range(30): display(Much())";
    let result = bench
        .call("run_code", json!({"language": "python", "code": code, "context": "main", "timeout_ms": 60_000}))
        .await;
    let said = &result.structured;
    assert_eq!(said["status"], "done", "{said}");
    let shown = said["results"].as_array().unwrap();
    assert_eq!(shown.len() as u64 + said["results_left_out"].as_u64().unwrap(), 30);
    assert!(shown[0]["data"]["text/plain"].as_str().unwrap().starts_with("ttt"), "{said}");
    // Four times 32 KiB, in both forms.
    assert!(said.to_string().len() < 140_000 && result.text.len() < 140_000, "{}", said.to_string().len());
}

#[tokio::test]
async fn a_context_is_not_named_like_a_process() {
    let Some(bench) = bench("a_context_is_not_named_like_a_process").await else { return };
    let named = |name: &str| json!({"language": "python", "code": "1", "context": name, "timeout_ms": 60_000});
    assert_eq!(bench.fails("run_code", named("p1")).await["kind"], "invalid_input");
    for name in ["p", "p1a", "pp1"] {
        bench.works("run_code", named(name)).await;
    }
}
