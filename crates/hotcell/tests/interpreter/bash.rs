//! bash: a shell that remembers.

use hotcell::Status;
use hotcell::interpreter::{Code, CodeStatus};

use super::common::{LONG, text};
use super::place::{Place, SHORT};

#[tokio::test]
async fn variables_functions_and_the_directory_are_remembered() {
    let Some(place) = Place::open("bash::remembers", "bash").await else { return };
    place.tell("bash", "x='a  b'; f() { echo \"f:$x:$1\"; }; declare -A m=([k]=v); cd /tmp").await;
    let output = place.tell("bash", "f 1\necho ${m[k]} $PWD\nread line; echo \"[$line]\"").await;
    assert_eq!(Place::said(&output), "f:a  b:1\nv /tmp\n[]\n");
    let failed = place.tell("sh", "echo ok\nnot_there_at_all").await;
    assert_eq!(failed.status, CodeStatus::Failed { exit_code: Some(127) });
    assert!(text(&failed.stderr).contains("line 2: not_there_at_all"), "{failed:?}");
    let broken = place.tell("bash", "if true; then\n").await;
    assert!(matches!(broken.status, CodeStatus::Failed { .. }));
    assert_eq!(Place::said(&place.tell("bash", "echo $x").await), "a b\n");
    place.close().await;
}

#[tokio::test]
async fn options_are_the_codes_own() {
    let Some(place) = Place::open("bash::options", "bash").await else { return };
    place.tell("bash", "set -xu").await;
    let output = place.tell("bash", "echo traced").await;
    assert_eq!(Place::said(&output), "traced\n");
    assert_eq!(text(&output.stderr), "++ echo traced\n");
    place.tell("bash", "set +x; set -e").await;
    // It obeys `set -e`: the shell ends, and says with what.
    let output = place.tell("bash", "false; echo never").await;
    assert_eq!((&output.status, output.context_was_replaced), (&CodeStatus::Failed { exit_code: Some(1) }, true));
    assert_eq!((text(&output.stdout).as_str(), output.process), ("", Some(Status::Exited(1))));
    let next = place.tell("bash", "echo anew").await;
    assert!(next.context_was_replaced && Place::said(&next) == "anew\n");
    assert!(!place.tell("bash", "true").await.context_was_replaced);
    place.close().await;
}

#[tokio::test]
async fn a_timeout_ends_the_shell() {
    let Some(place) = Place::open("bash::timeout", "bash").await else { return };
    let code = Code::new("bash", "echo begun; while true; do sleep 1; done").context("main").timeout(SHORT);
    let output = place.run(code).await;
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, true));
    assert_eq!(text(&output.stdout), "begun\n");
    assert_eq!(Place::said(&place.tell("bash", "echo next").await), "next\n");
    place.close().await;
}

#[tokio::test]
async fn functions_and_traps_of_the_code_do_not_get_into_the_kernels_way() {
    let Some(place) = Place::open("bash::names", "bash").await else { return };
    for name in ["printf", "read", "eval", "set", "exit", "[", "test", "echo", "true", ":"] {
        place.tell("bash", &format!("x=5; function {name} {{ command echo 'mine: {name}'; return 3; }}")).await;
        let output = place.tell("bash", "command echo $x").await;
        assert_eq!((Place::said(&output).as_str(), output.context_was_replaced), ("5\n", false), "{name}");
    }
    for body in [":", "return 3", "command echo mine", "command builtin \"$@\""] {
        let source = format!("set -eu; x=6; function builtin {{ {body}; }}; function unset {{ :; }}");
        place.tell("bash", &source).await;
        let output = place.run(Code::new("bash", "command echo $x").context("main").timeout(LONG)).await;
        assert_eq!((Place::said(&output).as_str(), output.context_was_replaced), ("6\n", false), "{body}");
        place.tell("bash", "command unset -f unset builtin; set +eu").await;
    }
    // One that cannot be taken away ends its own context, and no more than that.
    let code = Code::new("bash", "builtin() { :; }; readonly -f builtin").context("stuck").timeout(LONG);
    let output = place.run(code).await;
    assert!(matches!(output.status, CodeStatus::Failed { .. }) && output.context_was_replaced, "{output:?}");
    let output = place.tell("bash", "printf x; unset -f printf; printf '%s\n' y").await;
    assert_eq!(Place::said(&output), "mine: printf\ny\n");
    // In a context, once for what runs the code; of what the kernel does else, nothing is heard.
    place.tell("bash", "set -- once; trap 'command echo trapped' DEBUG").await;
    let output = place.tell("bash", "command echo 1").await;
    assert_eq!(Place::said(&output), "trapped\ntrapped\n1\n");
    let once = place.run(Code::new("bash", "exit() { :; }; printf() { :; }; trap 'echo bye' EXIT; false")).await;
    assert_eq!((once.status, text(&once.stdout).as_str()), (CodeStatus::Failed { exit_code: Some(1) }, "bye\n"));
    place.close().await;
}
