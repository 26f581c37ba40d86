//! Searching files.

use std::time::Duration;

use hotcell::tools::ToolboxOptions;
use serde_json::json;

use crate::common::Place;
use crate::support::Bench;

#[tokio::test]
async fn lines_are_found_with_names_and_numbers() {
    let Some(bench) = Bench::overlay("lines_are_found_with_names_and_numbers").await else { return };
    bench.place.file("a.rs", "fn main() {\n    needle(1);\n}\n");
    bench.place.file("src/b.rs", "// Needle\nneedle(22);\n");
    bench.place.file("src/c.txt", "needle\n");
    bench.place.file(".git/needle", "needle\n");
    std::fs::write(bench.place.join("binary"), b"\0needle\n").unwrap();
    let places = |said: &serde_json::Value| -> Vec<String> {
        let shown = |found: &serde_json::Value| format!("{}:{}", found["path"].as_str().unwrap(), found["line"]);
        said["matches"].as_array().unwrap().iter().map(shown).collect()
    };
    let said = bench.works("search_files", json!({"pattern": r"needle\(\d+\)", "glob": "*.rs"})).await;
    assert_eq!(places(&said), ["a.rs:2", "src/b.rs:2"]);
    assert_eq!(said["matches"][0]["text"], "    needle(1);");
    let said = bench.works("search_files", json!({"pattern": "NEEDLE(2", "literal": true, "ignore_case": true})).await;
    assert_eq!((places(&said), &said["files_skipped"]), (vec!["src/b.rs:2".to_owned()], &json!(1)));
    let said = bench.works("search_files", json!({"pattern": "needle", "path": "src/c.txt"})).await;
    assert_eq!(places(&said), ["src/c.txt:1"]);
    let said = bench.works("search_files", json!({"pattern": "needle", "max_matches": 1})).await;
    assert_eq!(places(&said).len(), 1);
    assert!(said["incomplete"].is_string());
    assert_eq!(bench.fails("search_files", json!({"pattern": "("})).await["kind"], "invalid_input");
    assert_eq!(bench.fails("search_files", json!({"pattern": "x", "path": "absent"})).await["kind"], "not_found");
}

#[tokio::test]
async fn what_the_policy_hides_is_not_found() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("secret/key", "needle");
        place.file("open", "needle");
        policy.overlay(place.path()).deny(place.join("secret"))
    };
    let Some(bench) = Bench::with("what_the_policy_hides_is_not_found", policy, |_| {}).await else { return };
    let said = bench.works("search_files", json!({"pattern": "needle"})).await;
    assert_eq!(said["matches"].as_array().unwrap().len(), 1);
    // What could not be looked at is told.
    assert!(said["incomplete"].as_str().unwrap().contains("secret"), "{said}");
    let error = bench.fails("search_files", json!({"pattern": "needle", "path": "secret"})).await;
    assert!(error["rule"].as_str().unwrap().starts_with("filesystem.deny"), "{error}");
}

#[tokio::test]
async fn patterns_and_files_that_mean_harm_end_in_time() {
    let hurried = |options: &mut ToolboxOptions| options.limits.timeout = Duration::from_secs(5);
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("patterns_and_files_that_mean_harm_end_in_time", overlay, hurried).await else {
        return;
    };
    let make = "mkfifo pipe; ln -s /dev/zero zero; ln -s . loop; head -c 7000000 /dev/zero | tr '\\0' a > long; \
                mkdir -p $(seq -s / 100); for n in $(seq 300); do echo x > $n.txt; done";
    bench.works("exec_shell", json!({"command": make})).await;
    for pattern in [r"(a+)+$", r"(a|aa)+b", r"(?:a?){200}a{200}b", r"(.*)*(.*)*b$"] {
        bench.works("search_files", json!({"pattern": pattern})).await;
    }
    assert_eq!(bench.fails("search_files", json!({"pattern": "a{1000}{1000}{1000}"})).await["kind"], "too_large");
    // And it still works.
    let said = bench.works("search_files", json!({"pattern": "^x$"})).await;
    assert_eq!(said["matches"].as_array().unwrap().len(), 300);
    assert_eq!(bench.fails("search_files", json!({"pattern": "a", "path": "zero"})).await["kind"], "wrong_kind");
}
