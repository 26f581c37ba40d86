//! Reading, writing, editing and listing files, under the rules of the box.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell::tools::{ToolboxOptions, WriteFile};
use serde_json::json;

use crate::common::Place;
use crate::support::Bench;

/// The smallest PNG that is one.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn what_is_written_is_read_and_seen_by_commands() {
    let Some(bench) = Bench::overlay("what_is_written_is_read_and_seen_by_commands").await else { return };
    let said = bench.works("write_file", json!({"path": "a/b/c.txt", "content": "one\ntwo\nthree\n"})).await;
    assert_eq!((&said["path"], &said["size"], &said["created"]), (&json!("a/b/c.txt"), &json!(14), &json!(true)));
    let said = bench.works("read_file", json!({"path": "a/b/c.txt"})).await;
    assert_eq!((&said["content"], &said["total_lines"]), (&json!("one\ntwo\nthree\n"), &json!(3)));
    let said = bench.works("read_file", json!({"path": "a/b/c.txt", "first_line": 2, "lines": 1})).await;
    assert_eq!((&said["content"], &said["first_line"]), (&json!("two\n"), &json!(2)));
    let none = json!({"path": "a/b/c.txt", "lines": 0});
    assert_eq!(bench.fails("read_file", none).await["kind"], "invalid_input");
    let said = bench.works("exec_shell", json!({"command": "cat a/b/c.txt"})).await;
    assert_eq!(said["stdout"], "one\ntwo\nthree\n");
    let said = bench.works("write_file", json!({"path": "a/b/c.txt", "content": ""})).await;
    assert_eq!((&said["size"], &said["created"]), (&json!(0), &json!(false)));
    // It is an overlay: the user's own files are as they were.
    assert!(bench.place.listing().is_empty());
}

#[tokio::test]
async fn exact_bytes_go_in_and_out_as_base64() {
    let limited = |options: &mut ToolboxOptions| {
        options.limits.text = 400;
        options.limits.image = 100;
    };
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("exact_bytes_go_in_and_out_as_base64", overlay, limited).await else { return };
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    bench.works("write_file", json!({"path": "b", "content": STANDARD.encode(&bytes), "encoding": "base64"})).await;
    let (mut read, mut next) = (Vec::new(), Some(0));
    while let Some(first) = next {
        let said = bench.works("read_file", json!({"path": "b", "encoding": "base64", "first_byte": first})).await;
        read.extend(STANDARD.decode(said["content"].as_str().unwrap()).unwrap());
        next = said["next_byte"].as_u64();
    }
    assert_eq!(read, bytes);
    // As text it is shown as far as it can be, and that is said.
    let said = bench.works("read_file", json!({"path": "b"})).await;
    assert_eq!((&said["not_utf8"], &said["escaped"]), (&json!(true), &json!(true)));
    assert!(said["left_out_bytes"].as_u64().unwrap() >= 600, "{said}");
    bench.works("write_file", json!({"path": "p.png", "content": PNG, "encoding": "base64"})).await;
    let result = bench.call("read_file", json!({"path": "p.png"})).await;
    assert_eq!((result.images.len(), result.images[0].media_type.as_str()), (1, "image/png"));
    assert_eq!(result.images[0].data, PNG);
    bench.works("exec_shell", json!({"command": "(cat p.png; head -c 100 /dev/zero) > large.png"})).await;
    assert_eq!(bench.fails("read_file", json!({"path": "large.png"})).await["kind"], "too_large");
    assert_eq!(
        bench.fails("write_file", json!({"path": "b", "content": "?", "encoding": "base64"})).await["kind"],
        "invalid_input"
    );
}

#[tokio::test]
async fn escapes_in_files_are_shown_and_stay_as_they_are() {
    let Some(bench) = Bench::overlay("escapes_in_files_are_shown_and_stay_as_they_are").await else { return };
    bench.works("exec_shell", json!({"command": r"printf 'a\033]0;title\007b\r\nc\n' > f"})).await;
    let said = bench.works("read_file", json!({"path": "f"})).await;
    assert_eq!(said["content"], "a\\u{1b}]0;title\\u{7}b\nc\n");
    assert_eq!((&said["escaped"], &said["crlf"]), (&json!(true), &json!(true)));
    bench.works("edit_file", json!({"path": "f", "old_text": "title", "new_text": "x"})).await;
    let said = bench.works("exec_shell", json!({"command": "od -An -c f | tr -d ' \\n'"})).await;
    assert_eq!(said["stdout"], r"a033]0;x\ab\r\nc\n");
}

#[tokio::test]
async fn edits_replace_exactly_one_place() {
    let Some(bench) = Bench::overlay("edits_replace_exactly_one_place").await else { return };
    bench.place.file("f.py", "def a():\n    return 1\n\ndef b():\n    return 1\n");
    let error = bench.fails("edit_file", json!({"path": "f.py", "old_text": "return 1", "new_text": "return 2"})).await;
    assert_eq!(error["kind"], "no_match");
    assert!(error["message"].as_str().unwrap().contains("lines 2, 5"), "{error}");
    let said = bench
        .works(
            "edit_file",
            json!({"path": "f.py", "old_text": "def b():\n    return 1", "new_text": "def b():\n    return 2"}),
        )
        .await;
    assert_eq!((&said["replacements"], &said["lines"]), (&json!(1), &json!([4])));
    let error =
        bench.fails("edit_file", json!({"path": "f.py", "old_text": "def a():\n\treturn 1", "new_text": ""})).await;
    assert!(error["message"].as_str().unwrap().contains("with other spaces or indentation it is on line 1"), "{error}");
    let said = bench
        .works("edit_file", json!({"path": "f.py", "old_text": "return", "new_text": "yield", "replace_all": true}))
        .await;
    assert_eq!(said["replacements"], 2);
    let said = bench.works("read_file", json!({"path": "f.py"})).await;
    assert_eq!(said["content"], "def a():\n    yield 1\n\ndef b():\n    yield 2\n");
    assert_eq!(
        bench.fails("edit_file", json!({"path": "absent", "old_text": "a", "new_text": "b"})).await["kind"],
        "not_found"
    );
}

#[tokio::test]
async fn parallel_edits_lose_nothing() {
    let Some(bench) = Bench::overlay("parallel_edits_lose_nothing").await else { return };
    let content: String = (0..40).map(|n| format!("<{n}>\n")).collect();
    bench.works("write_file", json!({"path": "f", "content": content})).await;
    let edits = (0..40).map(|n| {
        let toolbox = bench.toolbox.clone();
        let edit = json!({"path": "f", "old_text": format!("<{n}>"), "new_text": format!("[{n}]")});
        tokio::spawn(async move { toolbox.call("edit_file", edit, None).await })
    });
    for edit in edits.collect::<Vec<_>>() {
        assert!(!edit.await.unwrap().is_error);
    }
    let said = bench.works("read_file", json!({"path": "f"})).await;
    assert_eq!(said["content"], (0..40).map(|n| format!("[{n}]\n")).collect::<String>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_nobody_waits_for_does_not_go_on_beside_the_next() {
    let test = "a_write_that_nobody_waits_for_does_not_go_on_beside_the_next";
    let Some(bench) = Bench::overlay(test).await else { return };
    let large = "x".repeat(8 << 20);
    for round in 0..40 {
        let write = bench.toolbox.write_file(WriteFile::new("f", large.clone()));
        let _ = tokio::time::timeout(std::time::Duration::from_micros(250 * round), write).await;
        bench.works("write_file", json!({"path": "f", "content": "short"})).await;
        // Whatever is still being written is there soon.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let said = bench.works("exec_shell", json!({"command": "wc -c < f"})).await;
        assert_eq!(said["stdout"], "5\n", "round {round}");
    }
}

#[tokio::test]
async fn a_denied_read_names_the_rule() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("secret/key", "hunter2");
        place.file("open/key", "harmless");
        std::os::unix::fs::symlink("secret/key", place.join("leads-there")).unwrap();
        std::os::unix::fs::symlink("secret", place.join("leads-in")).unwrap();
        policy.overlay(place.path()).deny(place.join("secret"))
    };
    let Some(bench) = Bench::with("a_denied_read_names_the_rule", policy, |_| {}).await else { return };
    let rule = format!("filesystem.deny = [{:?}]", bench.place.join("secret").display().to_string());
    for path in ["secret/key", "open/../secret/key", "leads-there", "./secret/../secret/key"] {
        let error = bench.fails("read_file", json!({"path": path})).await;
        assert_eq!((&error["kind"], &error["rule"]), (&json!("refused"), &json!(rule)), "{path}");
        assert!(error["instead"].is_string());
    }
    for (tool, arguments) in [
        ("write_file", json!({"path": "secret/new", "content": "x"})),
        ("list_files", json!({"path": "secret"})),
        ("exec_shell", json!({"command": "true", "cwd": "secret"})),
        ("exec_shell", json!({"command": "true", "cwd": "leads-in"})),
        ("list_files", json!({"path": "leads-in"})),
    ] {
        let error = bench.fails(tool, arguments).await;
        assert_eq!((&error["kind"], &error["rule"]), (&json!("refused"), &json!(rule)), "{tool}: {error}");
    }
    // A command is told as well.
    let said = bench.works("exec_shell", json!({"command": "cat secret/key"})).await;
    assert_eq!(said["denials"][0]["rule"], rule);
    assert!(!said.to_string().contains("hunter2"));
    // The control: beside it everything works.
    assert_eq!(bench.works("read_file", json!({"path": "open/key"})).await["content"], "harmless");
}

#[tokio::test]
async fn writes_to_what_is_read_only_name_the_rule() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| {
        place.file("lib/f", "lib");
        policy.write(place.path()).read(place.join("lib"))
    };
    let Some(bench) = Bench::with("writes_to_what_is_read_only_name_the_rule", policy, |_| {}).await else { return };
    let rule = format!("filesystem.read = [{:?}]", bench.place.join("lib").display().to_string());
    for (tool, arguments) in [
        ("write_file", json!({"path": "lib/f", "content": "x"})),
        ("write_file", json!({"path": "lib/new", "content": "x"})),
        ("edit_file", json!({"path": "lib/f", "old_text": "lib", "new_text": "x"})),
    ] {
        let error = bench.fails(tool, arguments).await;
        assert_eq!((&error["kind"], &error["rule"]), (&json!("refused"), &json!(rule)), "{tool}: {error}");
        assert!(error["instead"].as_str().unwrap().contains("/tmp"), "{error}");
    }
    let error = bench.fails("write_file", json!({"path": "/etc/evil", "content": "x"})).await;
    assert!(error["rule"].as_str().unwrap().contains("no rule names this path"), "{error}");
    let error = bench.fails("write_file", json!({"path": ".git/hooks/pre-commit", "content": "x"})).await;
    assert_eq!(error["rule"], "filesystem.protect = [\".git/hooks\"]", "{error}");
    let said = bench.works("exec_shell", json!({"command": "echo x > lib/f"})).await;
    assert_eq!(said["denials"][0]["rule"], rule, "{said}");
    // The control: what may be written is written, directly.
    bench.works("write_file", json!({"path": "f", "content": "x"})).await;
    bench.works("write_file", json!({"path": "/tmp/f", "content": "x"})).await;
    assert_eq!(std::fs::read_to_string(bench.place.join("f")).unwrap(), "x");
    assert_eq!(std::fs::read_to_string(bench.place.join("lib/f")).unwrap(), "lib");
}

#[tokio::test]
async fn lists_have_kinds_depths_and_globs() {
    let Some(bench) = Bench::overlay("lists_have_kinds_depths_and_globs").await else { return };
    for name in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/deep/d.txt", ".git/config.rs"] {
        bench.place.file(name, "x");
    }
    bench.works("exec_shell", json!({"command": "ln -s / link; mkfifo pipe"})).await;
    let names = |said: &serde_json::Value| -> Vec<String> {
        said["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    let said = bench.works("list_files", json!({})).await;
    assert_eq!(names(&said), [".git", "a.rs", "link", "pipe", "src"]);
    let kinds: Vec<_> = said["entries"].as_array().unwrap().iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["directory", "file", "link", "other", "directory"]);
    assert_eq!(
        names(&bench.works("list_files", json!({"path": "src", "depth": 2})).await),
        ["src/b.rs", "src/deep", "src/deep/c.rs", "src/deep/d.txt"]
    );
    assert_eq!(names(&bench.works("list_files", json!({"glob": "*.rs"})).await), ["a.rs", "src/b.rs", "src/deep/c.rs"]);
    assert_eq!(
        names(&bench.works("list_files", json!({"glob": "src/**/*.{rs,txt}"})).await),
        ["src/b.rs", "src/deep/c.rs", "src/deep/d.txt"]
    );
    assert_eq!(names(&bench.works("list_files", json!({"path": ".git", "glob": "*.rs"})).await), [".git/config.rs"]);
    assert_eq!(bench.fails("list_files", json!({"glob": "a["})).await["kind"], "invalid_input");
    assert_eq!(bench.fails("list_files", json!({"path": "a.rs"})).await["kind"], "wrong_kind");
    assert_eq!(bench.fails("list_files", json!({"depth": 0})).await["kind"], "invalid_input");
}

#[tokio::test]
async fn trees_without_end_are_looked_at_in_part() {
    let policy = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("trees_without_end_are_looked_at_in_part", policy, |_| {}).await else { return };
    let make = "mkdir wide many; cd wide; seq 10100 | xargs mkdir; cd ../many; seq 20001 | xargs touch";
    assert_eq!(bench.works("exec_shell", json!({"command": make})).await["exit_code"], 0);
    let said = bench.works("list_files", json!({"path": "wide", "glob": "no such name"})).await;
    assert!(said["incomplete"].as_str().unwrap().contains("more than 10000 directories"), "{said}");
    assert_eq!(bench.fails("list_files", json!({"path": "many"})).await["kind"], "too_large");
    let said = bench.works("list_files", json!({"glob": "many*"})).await;
    assert_eq!(said["entries"].as_array().unwrap().len(), 1);
    assert!(said["incomplete"].is_string(), "{said}");
}

#[tokio::test]
async fn long_lists_say_that_they_are_cut() {
    let limited = |options: &mut ToolboxOptions| options.limits.entries = 10;
    let overlay = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path());
    let Some(bench) = Bench::with("long_lists_say_that_they_are_cut", overlay, limited).await else { return };
    bench.works("exec_shell", json!({"command": "seq 1 11 | xargs touch"})).await;
    let said = bench.works("list_files", json!({})).await;
    assert_eq!(said["entries"].as_array().unwrap().len(), 10);
    assert!(said["incomplete"].is_string());
    bench.works("exec_shell", json!({"command": "rm 11"})).await;
    assert!(bench.works("list_files", json!({})).await["incomplete"].is_null());
}

#[tokio::test]
async fn a_full_disk_does_not_cost_what_was_in_a_file() {
    let small = |place: &Place, policy: hotcell::policy::PolicyBuilder| policy.overlay(place.path()).disk(8 << 20);
    let Some(bench) = Bench::with("a_full_disk_does_not_cost_what_was_in_a_file", small, |_| {}).await else { return };
    bench.works("write_file", json!({"path": "f", "content": "precious"})).await;
    bench.works("write_file", json!({"path": "empty", "content": ""})).await;
    bench.works("exec_shell", json!({"command": "cat /dev/zero > /tmp/full; sync"})).await;
    let much = "x".repeat(100_000);
    bench.fails("edit_file", json!({"path": "f", "old_text": "precious", "new_text": much})).await;
    bench.fails("write_file", json!({"path": "f", "content": much})).await;
    assert_eq!(bench.works("read_file", json!({"path": "f"})).await["content"], "precious");
    bench.works("write_file", json!({"path": "empty", "content": ""})).await;
    // What takes no more room is written, and so is everything once there is room.
    bench.works("edit_file", json!({"path": "f", "old_text": "precious", "new_text": "less"})).await;
    assert_eq!(bench.works("read_file", json!({"path": "f"})).await["content"], "less");
    bench.works("exec_shell", json!({"command": "rm /tmp/full"})).await;
    bench.works("write_file", json!({"path": "f", "content": much})).await;
    assert_eq!(bench.works("read_file", json!({"path": "f"})).await["size"], 100_000);
}

/// The code in the box decides how long paths are.
#[tokio::test]
async fn results_with_long_paths_are_bounded() {
    let Some(bench) = Bench::overlay("results_with_long_paths_are_bounded").await else { return };
    let make = "d=$(printf 'd%.0s' $(seq 200)); for n in 1 2 3 4 5; do mkdir $d; cd $d; done; \
                e=$(printf '\\033%.0s' $(seq 200)); for n in $(seq 900); do : > $e$n; done";
    bench.works("exec_shell", json!({"command": make})).await;
    for (tool, arguments) in [
        ("list_files", json!({"depth": 10})),
        ("list_files", json!({"glob": "*9"})),
        ("workspace_diff", json!({})),
        ("workspace_commit", json!({})),
    ] {
        let result = bench.call(tool, arguments).await;
        let sizes = (result.text.len(), result.structured.to_string().len());
        assert!(!result.is_error && sizes.0 < 400_000 && sizes.1 < 500_000, "{tool}: {sizes:?}");
    }
}
