//! Code that runs once.

use std::time::Duration;

use hotcell::interpreter::{Code, CodeError, CodeStatus, Feed, Interpreter, Languages};
use hotcell::{Policy, Status};

use super::common::{LONG, Place as Host, eventually, marker, processes_with, skip, text};
use super::place::{Place, value};

#[tokio::test]
async fn each_language_gives_values_errors_and_exit_codes() {
    let Some(place) = Place::open("once::languages", "python3").await else { return };
    let output = place.run(Code::new("python", "print('hi')\n6 * 7")).await;
    assert_eq!(
        (Place::said(&output).as_str(), value(&output), output.process),
        ("hi\n", "42", Some(Status::Exited(0)))
    );
    let output = place.run(Code::new("python", "def f():\n    raise KeyError('k')\nf()")).await;
    assert_eq!(output.status, CodeStatus::Failed { exit_code: Some(1) });
    assert!(output.exception.unwrap().traceback.contains("line 2, in f\n    raise KeyError('k')"));
    let output = place.run(Code::new("python", "import atexit, sys\natexit.register(print, 'bye')\nsys.exit(7)")).await;
    assert_eq!((&output.status, text(&output.stdout).as_str()), (&CodeStatus::Failed { exit_code: Some(7) }, "bye\n"));
    let output = place.run(Code::new("python", "import os\nos.abort()")).await;
    assert!(matches!(output.status, CodeStatus::Crashed { .. }), "{output:?}");

    let output = place.run(Code::new("bash", "echo $((6 * 7)); exit 3")).await;
    assert_eq!((output.status, text(&output.stdout).as_str()), (CodeStatus::Failed { exit_code: Some(3) }, "42\n"));
    place.close().await;
}

#[tokio::test]
async fn a_script_of_node_ends_when_its_loop_does() {
    let Some(place) = Place::open("once::node", "node").await else { return };
    let output =
        place.run(Code::new("javascript", "setTimeout(() => console.log('late'), 30);\nawait 1; 'value'")).await;
    assert_eq!((Place::said(&output).as_str(), value(&output)), ("late\n", "'value'"));
    let output = place.run(Code::new("javascript", "process.exit(5)")).await;
    assert_eq!(output.status, CodeStatus::Failed { exit_code: Some(5) });
    let output = place.run(Code::new("javascript", "null.x")).await;
    assert_eq!(
        (output.status, output.exception.unwrap().name.as_str()),
        (CodeStatus::Failed { exit_code: Some(1) }, "TypeError")
    );
    place.close().await;
}

#[tokio::test]
async fn large_code_and_other_directories() {
    let Some(place) = Place::open("once::large", "python3").await else { return };
    let source = format!("data = '{}'\nprint(len(data))", "é".repeat(1 << 20));
    assert_eq!(Place::said(&place.run(Code::new("python", source.clone())).await), "1048576\n");
    assert_eq!(Place::said(&place.run(Code::new("python", source).context("main")).await), "1048576\n");
    let mut code = Code::new("bash", "pwd; echo $MINE");
    code.cwd = Some("/tmp".into());
    code.env.insert("MINE".to_owned(), "yes".to_owned());
    assert_eq!(Place::said(&place.run(code.clone()).await), "/tmp\nyes\n");
    code.context = Some("main2".to_owned());
    let refused = place.interpreter.run(&*place.sandbox, &code, &|_| {}).await;
    assert!(matches!(refused, Err(CodeError::Invalid { .. })), "{refused:?}");
    for code in [named("script", &[]), named("", &["a"])] {
        let refused = place.interpreter.run(&*place.sandbox, &code.context("main3"), &|_| {}).await;
        assert!(matches!(refused, Err(CodeError::Invalid { .. })), "{refused:?}");
    }
    place.close().await;
}

/// A piece of Python with this name, if it has one, and these arguments.
fn named(name: &str, args: &[&str]) -> Code {
    let mut code = Code::new("python", "import sys\nprint(sys.argv, sys.stdin.read())");
    code.name = (!name.is_empty()).then(|| name.into());
    code.args = args.iter().map(Into::into).collect();
    code
}

#[tokio::test]
async fn code_has_arguments_and_an_input_of_its_own() {
    let Some(place) = Place::open("once::arguments", "python3").await else { return };
    assert_eq!(Place::said(&place.run(named("", &[])).await), "['-c'] \n");
    assert_eq!(Place::said(&place.run(named("dir/x.py", &["a", "-b"])).await), "['dir/x.py', 'a', '-b'] \n");
    let code = named("", &["a"]);
    let output = place.interpreter.run_with_stdin(&*place.sandbox, &code, &|_| {}, feed(b"fed")).await.unwrap();
    assert_eq!(Place::said(&output), "['-c', 'a'] fed\n");
    let code = Code::new("python", "x").context("main");
    let refused = place.interpreter.run_with_stdin(&*place.sandbox, &code, &|_| {}, feed(b"fed")).await;
    assert!(matches!(refused, Err(CodeError::Invalid { .. })), "{refused:?}");
    place.close().await;
}

/// One that writes this and closes it.
fn feed(text: &'static [u8]) -> Feed<'static> {
    Box::new(move |mut stdin| {
        Box::pin(async move {
            stdin.write_all(text).await.unwrap();
            stdin.close().await.unwrap();
        })
    })
}

#[tokio::test]
async fn what_runs_typescript_in_the_place_of_node_gets_arguments_and_the_input() {
    let host = Host::new();
    // A stand-in for `deno run --allow-all --no-prompt FILE ARGUMENT`.
    let file = host.file("bin/deno", "#!/bin/sh\nshift 3; cat \"$1\"; echo; shift; echo \"$@\"; cat\n");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", host.path().join("bin").display());
    let policy = Policy::builder().read(host.path()).set_env("PATH", path);
    let Some(place) = Place::with("once::typescript", "sh", policy).await else { return };
    let mut code = Code::new("typescript", "const x: number = 1;\n\n# \\n é");
    code.args = vec!["a".into(), "b".into()];
    let output = place.interpreter.run_with_stdin(&*place.sandbox, &code, &|_| {}, feed(b"in\nput")).await.unwrap();
    if output.exception.is_some() {
        return skip("interpreter once::typescript", "Node takes types off by itself here");
    }
    assert_eq!(Place::said(&output), "const x: number = 1;\n\n# \\n é\n\na b\nin\nput");
    assert_eq!(Place::said(&place.run(code).await), "const x: number = 1;\n\n# \\n é\na b\n");
    place.close().await;
}

#[tokio::test]
async fn code_is_fed_while_it_writes() {
    let Some(place) = Place::open("once::fed", "bash").await else { return };
    let text = "more than any pipe holds".repeat(100_000).leak();
    for code in [Code::new("bash", "cat"), Code::new("python", "import os\nos.execvp('cat', ['cat'])")] {
        let run = place.interpreter.run_with_stdin(&*place.sandbox, &code, &|_| {}, feed(text.as_bytes()));
        let output = tokio::time::timeout(LONG, run).await.unwrap().unwrap();
        assert_eq!((output.status, output.stdout.total), (CodeStatus::Done, text.len() as u64), "{code:?}");
    }
    place.close().await;
}

#[tokio::test]
async fn configured_languages_run_files() {
    let Some(mut place) = Place::open("once::configured", "perl").await else { return };
    let languages = Languages::default()
        .with("perl", vec!["perl".into(), "-w".into()])
        .with("missing", vec!["not-there-at-all".into()]);
    place.interpreter = Interpreter::new(languages);
    let output = place.run(Code::new("perl", "print 6 * 7, \"\\n\";\nexit 3;")).await;
    assert_eq!((&output.status, text(&output.stdout).as_str()), (&CodeStatus::Failed { exit_code: Some(3) }, "42\n"));
    let output = place.run(Code::new("perl", "\n\ndie 'here'")).await;
    assert!(text(&output.stderr).contains("main line 3"), "{output:?}");
    let left = place.run(Code::new("bash", "ls -d /tmp/code.* 2>/dev/null | wc -l")).await;
    assert_eq!(Place::said(&left), "0\n");
    let output = place.run(Code::new("missing", "x")).await;
    assert!(output.hint.unwrap().contains("not-there-at-all"));
    let refused = place.interpreter.run(&*place.sandbox, &Code::new("perl", "x").context("p"), &|_| {}).await;
    assert!(matches!(refused, Err(CodeError::NoContexts { .. })));
    place.close().await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused() {
    let Some(place) = Place::open("once::refused", "python3").await else { return };
    let run = async |code: Code| place.interpreter.run(&*place.sandbox, &code, &|_| {}).await.unwrap_err();
    assert!(matches!(run(Code::new("cobol", "x")).await, CodeError::UnknownLanguage { .. }));
    for code in [
        Code::new("python", "a\0b"),
        Code::new("python", "x".repeat(5 << 20)),
        Code::new("python", "x").timeout(Duration::ZERO),
        Code::new("python", "x").context("Bad Name"),
        Code::new("python", "x").context(""),
        Code::new("python", "x").context("x".repeat(65)),
    ] {
        assert!(matches!(run(code).await, CodeError::Invalid { .. }));
    }
    place.close().await;
}

#[tokio::test]
async fn a_timeout_and_a_dropped_future_end_it_all() {
    let Some(place) = Place::with("once::timeout", "python3", Policy::builder().timeout(LONG)).await else { return };
    let word = marker();
    let source = format!("import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '{word}'])");
    let output = place.run(Code::new("python", source.clone()).timeout(Duration::from_secs(6))).await;
    assert_eq!((&output.status, output.process), (&CodeStatus::TimedOut, Some(Status::TimedOut)));
    assert_eq!(text(&output.stdout), "begun\n");
    eventually("the child is gone", || processes_with(&word).is_empty()).await;

    let code = Code::new("python", source);
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |_: hotcell::interpreter::CodeEvent<'_>| begun.send(()).unwrap_or_default();
    tokio::select! {
        _ = place.interpreter.run(&*place.sandbox, &code, &tell) => panic!("it ended"),
        _ = has_begun.recv() => {}
    }
    eventually("the child is gone", || processes_with(&word).is_empty()).await;
    assert_eq!(Place::said(&place.run(Code::new("bash", "echo fine")).await), "fine\n");
    place.close().await;
}
