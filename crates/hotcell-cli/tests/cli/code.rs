//! `hotcell code`: once, and at a prompt.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::place::{Place, Ran, has_program, skip};
use super::terminal::PYTHON;

/// Runs its arguments on a terminal, and for each step waits for a text that was not there before and types another. What
/// is typed before there is a prompt is a line for nobody yet, so steps wait for one.
const CONVERSATION: &str = r#"
import json, os, pty, select, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown, seen, steps = b"", 0, json.loads(os.environ["STEPS"])
# Far longer than anything here takes; only a failure waits for it.
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    while steps and steps[0][0].encode() in shown[seen:]:
        awaited, typed = steps.pop(0)
        seen = shown.index(awaited.encode(), seen) + len(awaited.encode())
        os.write(terminal, typed.encode())
else:
    os.kill(pid, signal.SIGTERM)
    os.write(1, b"nothing more came of this:")
os.write(1, shown)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(100 if steps else code)
"#;

/// What the terminal showed of a conversation.
fn talk(place: &Place, arguments: &[&str], steps: &[(&str, &str)]) -> Ran {
    let hotcell = place.command(arguments);
    let mut command = Command::new(PYTHON);
    command.args(["-c", CONVERSATION]).arg(hotcell.get_program()).args(hotcell.get_args());
    command.current_dir(place.project());
    for (name, value) in hotcell.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("STEPS", serde_json::to_string(steps).unwrap()).env("NO_COLOR", "1").env("TERM", "xterm");
    command.env("XDG_STATE_HOME", place.home().join("state"));
    Ran::of(command.output().unwrap())
}

fn can_run(place: &Place, test: &str) -> bool {
    if !has_program(test, PYTHON) || !place.has_boxes(test) {
        return false;
    }
    if !place.can_hold(&["--preset", "workspace-overlay"]) {
        skip(test, "no overlay can be made here, see `hotcell plan --preset workspace-overlay`");
        return false;
    }
    true
}

#[test]
fn code_comes_from_the_command_line_a_file_or_stdin() {
    let place = Place::new();
    if !can_run(&place, "code_comes_from_the_command_line_a_file_or_stdin") {
        return;
    }
    let ran = place.hotcell(&["code", "python", "-c", "print(6*7)"]);
    assert_eq!((ran.code, ran.text(), ran.stderr.as_str()), (0, "42\n", ""));
    // The box need not see the file.
    let file = place.home().join("script");
    fs::write(&file, "print('from a file')").unwrap();
    assert_eq!(place.hotcell(&["code", "python", file.to_str().unwrap()]).text(), "from a file\n");
    for arguments in [&["code", "python"][..], &["code", "python", "-"]] {
        assert_eq!(place.hotcell_with_stdin(arguments, b"print('from stdin')").text(), "from stdin\n");
    }
    let ran = place.hotcell(&["code", "bash", "-c", "echo out; echo err >&2"]);
    assert_eq!((ran.text(), ran.stderr.as_str()), ("out\n", "err\n"));
}

/// What the real interpreters say of their arguments, and ours.
fn says_the_same(place: &Place, program: &[&str], ours: &[&str]) {
    let real = Command::new(program[0]).args(&program[1..]).current_dir(place.project()).output().unwrap();
    let ran = place.hotcell(&[&["code"], ours].concat());
    assert_eq!((ran.stdout.as_slice(), ran.stderr.as_str()), (real.stdout.as_slice(), ""), "{ours:?}: {ran:?}");
    assert!(!ran.stdout.is_empty(), "{ours:?}");
}

#[test]
fn code_has_the_arguments_that_its_interpreter_gives() {
    let place = Place::new();
    if !can_run(&place, "code_has_the_arguments_that_its_interpreter_gives") {
        return;
    }
    let python = "import sys; print(sys.argv)";
    let bash = "echo \"$#:$0:$1:$*\"";
    place.file("script", python);
    place.file("shell", bash);
    says_the_same(&place, &[PYTHON, "-c", python], &["python", "-c", python]);
    says_the_same(&place, &[PYTHON, "-c", python, "a b", "é", ""], &["python", "-c", python, "a b", "é", ""]);
    says_the_same(&place, &[PYTHON, "-c", python, "-v"], &["python", "-c", python, "--", "-v"]);
    says_the_same(&place, &[PYTHON, "script", "--json", "-c"], &["python", "script", "--json", "-c"]);
    for words in [&[][..], &["a"], &["a", "b c", "-x"]] {
        says_the_same(&place, &[&["bash", "-c", bash], words].concat(), &[&["bash", "-c", bash], words].concat());
        says_the_same(&place, &[&["bash", "shell"], words].concat(), &[&["bash", "shell"], words].concat());
    }
    let ran = place.hotcell_with_stdin(&["code", "python", "-", "a"], python.as_bytes());
    assert_eq!(ran.text(), "['-', 'a']\n");
    let ran = place.hotcell_with_stdin(&["code", "bash", "-", "a"], b"echo $1");
    assert_eq!(ran.text(), "a\n");
    if has_program("code_has_the_arguments_that_its_interpreter_gives", "/usr/bin/node") {
        let node = "console.log(process.argv.slice(1))";
        place.file("script.js", node);
        for words in [&[][..], &["a b", "--inspect"]] {
            says_the_same(
                &place,
                &[&["/usr/bin/node", "-e", node], words].concat(),
                &[&["javascript", "-c", node], words].concat(),
            );
            says_the_same(
                &place,
                &[&["/usr/bin/node", "script.js"], words].concat(),
                &[&["javascript", "script.js"], words].concat(),
            );
        }
    }
}

#[test]
fn a_script_knows_where_it_is() {
    let place = Place::new();
    if !can_run(&place, "a_script_knows_where_it_is") {
        return;
    }
    fs::create_dir(place.project().join("deep")).unwrap();
    place.file("deep/beside.py", "x = 4");
    place.file("deep/main.py", "import beside, sys\nprint(__file__, beside.x, sys.path[0])");
    says_the_same(&place, &[PYTHON, "deep/main.py"], &["python", "deep/main.py"]);
    if has_program("a_script_knows_where_it_is", "/usr/bin/node") {
        place.file("deep/beside.js", "exports.x = 4");
        place.file("deep/main.js", "console.log(require('./beside').x, __filename, __dirname)");
        says_the_same(&place, &["/usr/bin/node", "deep/main.js"], &["javascript", "deep/main.js"]);
        place.file("deep/more.mjs", "import { x } from './beside.js';\nconsole.log(x)");
        says_the_same(&place, &["/usr/bin/node", "deep/more.mjs"], &["javascript", "deep/more.mjs"]);
    }
}

#[test]
fn code_reads_our_stdin_unless_it_came_from_there() {
    let place = Place::new();
    if !can_run(&place, "code_reads_our_stdin_unless_it_came_from_there") {
        return;
    }
    let mut pieces = vec![
        (
            "python",
            "import sys\nread = sys.stdin.buffer\nprint(read.readline().decode(), end='')\nprint(len(read.read()))",
        ),
        ("bash", "read -r line; echo \"$line\"; wc -c | tr -d ' '"),
        ("perl", "print scalar <STDIN>; read(STDIN, $rest, 1 << 24); print length $rest, \"\\n\""),
    ];
    if has_program("code_reads_our_stdin_unless_it_came_from_there", "/usr/bin/node") {
        pieces.push((
            "javascript",
            "const text = require('fs').readFileSync(0, 'latin1');\nconst [line] = text.split('\\n');\n\
             console.log(line); console.log(text.length - line.length - 1)",
        ));
    }
    fs::create_dir_all(place.home().join(".config/hotcell")).unwrap();
    fs::write(place.home().join(".config/hotcell/hotcell.toml"), "[languages.perl]\ncommand = [\"perl\"]\n").unwrap();
    // More than any pipe holds, and bytes that are no text.
    let input = [&b"first line\n"[..], &b"\xff\x00\r\n".repeat(100_000)].concat();
    for (language, code) in &pieces {
        if *language == "perl" && !has_program("code_reads_our_stdin_unless_it_came_from_there", "/usr/bin/perl") {
            continue;
        }
        place.file("script", code);
        for arguments in [&["code", language, "-c", code][..], &["code", language, "script", "a"]] {
            let ran = place.hotcell_with_stdin(arguments, &input);
            assert_eq!((ran.text(), ran.stderr.as_str()), ("first line\n400000\n", ""), "{arguments:?}");
        }
    }
    assert_eq!(place.hotcell_with_stdin(&["code", "python", "-c", "print(input())"], b"hi\n").text(), "hi\n");
    // Code that does not read ends all the same, also when nothing comes.
    let mut command = place.command(&["code", "python", "-c", "print(1)"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let open = child.stdin.take();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"1\n");
    drop(open);
    let ran = place.hotcell_with_stdin(&["code", "python"], b"input()");
    assert!(ran.stderr.contains("no standard input"), "{ran:?}");
    let ran = place.hotcell(&["code", "python", "-c", "input()"]);
    assert!(ran.stderr.contains("no standard input"), "{ran:?}");
    let steps = [("name? ", "Ada\r"), ("hello Ada", "")];
    let ran = talk(&place, &["code", "python", "-c", "print('hello', input('name? '))"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn the_exit_status_is_that_of_the_code() {
    let place = Place::new();
    if !can_run(&place, "the_exit_status_is_that_of_the_code") {
        return;
    }
    assert_eq!(place.hotcell(&["code", "python", "-c", "import sys; sys.exit(3)"]).code, 3);
    assert_eq!(place.hotcell(&["code", "bash", "-c", "exit 4"]).code, 4);
    let ran = place.hotcell(&["code", "python", "-c", "x = 1\nx / 0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(ran.stderr.matches("ZeroDivisionError").count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("line 2"), "{ran:?}");
    let ran = place.hotcell(&["code", "bash", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137, "{ran:?}");
}

#[test]
fn a_time_limit_ends_code() {
    let place = Place::new();
    if !can_run(&place, "a_time_limit_ends_code") {
        return;
    }
    let ran = place.hotcell(&["code", "--timeout", "500ms", "python", "-c", "import time; time.sleep(3600)"]);
    assert_eq!(ran.code, 124, "{ran:?}");
    assert!(ran.stderr.contains("timed out") && ran.stderr.contains("500 ms"), "{ran:?}");
}

#[test]
fn what_cannot_run_is_refused() {
    let place = Place::new();
    if !can_run(&place, "what_cannot_run_is_refused") {
        return;
    }
    place.hotcell(&["code", "klingon", "-c", "x"]).assert_refused(&["klingon", "python"]);
    place.hotcell(&["code", "python", "absent.py"]).assert_refused(&["absent.py"]);
    place.hotcell_with_stdin(&["code", "python"], b"\xff").assert_refused(&["UTF-8"]);
    place.hotcell(&["code", "--memory", "0", "python", "-c", "x"]).assert_refused(&["--memory"]);
    place.hotcell(&["code", "python", "-c", "x", "--unknown"]).assert_refused(&["--unknown", "-- --unknown"]);
}

#[test]
fn typescript_runs_or_says_which_node_it_needs() {
    let place = Place::new();
    let test = "typescript_runs_or_says_which_node_it_needs";
    if !can_run(&place, test) || !has_program(test, "/usr/bin/node") {
        return;
    }
    let script = "process.stdout.write(String(typeof require('module').stripTypeScriptTypes === 'function'))";
    let takes_types_off = Command::new("/usr/bin/node").args(["-e", script]).output().unwrap().stdout == b"true";
    let ran = place.hotcell(&["code", "typescript", "-c", "const n: number = 20;\nconsole.log(n + 1)"]);
    let others = ["deno", "bun", "tsx", "ts-node"];
    let has_other = others
        .iter()
        .any(|name| ["/usr/bin", "/usr/local/bin"].iter().any(|place| Path::new(place).join(name).exists()));
    match takes_types_off || has_other {
        true => assert_eq!((ran.code, ran.text()), (0, "21\n"), "{ran:?}"),
        false => ran.assert_refused(&["typescript", "Node.js 22.13 or newer", "npm package `typescript`", "deno"]),
    }
}

#[test]
fn the_policy_holds_for_code() {
    let place = Place::new();
    if !can_run(&place, "the_policy_holds_for_code") {
        return;
    }
    let file = place.file("kept", "before");
    let script = "open('kept', 'w').write('after')";
    assert_eq!(place.hotcell(&["code", "--preset", "read-only", "python", "-c", script]).code, 1);
    assert_eq!(place.hotcell(&["code", "--read", ".", "python", "-c", script]).code, 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    let ran = place.hotcell(&["code", "--write", ".", "python", "-c", script]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(&file).unwrap(), "after");
    let object = place.hotcell(&["code", "--json", "--write", ".", "python", "-c", script]).json();
    assert_eq!(object.get("changes_not_kept"), None, "{object}");
}

#[test]
fn the_directory_is_an_overlay_and_what_is_not_kept_is_told() {
    let place = Place::new();
    if !can_run(&place, "the_directory_is_an_overlay_and_what_is_not_kept_is_told") {
        return;
    }
    let file = place.file("kept", "before");
    let script = "open('kept', 'w').write('after')\nprint(open('kept').read())";
    let ran = place.hotcell(&["code", "python", "-c", script]);
    assert_eq!((ran.code, ran.text()), (0, "after\n"), "{ran:?}");
    assert!(ran.stderr.contains("1 change was not kept") && ran.stderr.contains("--write ."), "{ran:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");

    let ran = place.hotcell(&["code", "--json", "bash", "-c", "touch a b; rm kept; exit 3"]);
    assert_eq!((ran.json()["changes_not_kept"].as_u64(), ran.code, ran.stderr.as_str()), (Some(3), 3, ""));
    // What Python keeps for itself is no change that anybody misses.
    place.file("mine.py", "x = 4");
    let ran = place.hotcell(&["code", "python", "-c", "import mine, os\nos.path.exists('__pycache__')"]);
    assert_eq!((ran.text(), ran.stderr.as_str()), ("True\n", ""), "{ran:?}");
    assert_eq!(place.hotcell(&["code", "--json", "python", "-c", "1"]).json()["changes_not_kept"], 0);

    let steps = [("bash> ", "touch c\r"), ("bash> ", "ls c\r"), ("bash> ", "\u{4}"), ("1 change was not kept", "")];
    let ran = talk(&place, &["code", "bash"], &steps);
    assert_eq!((ran.code, file.with_file_name("c").exists()), (0, false), "{}", ran.text());
}

#[test]
fn one_object_says_everything() {
    let place = Place::new();
    if !can_run(&place, "one_object_says_everything") {
        return;
    }
    let ran = place.hotcell(&["code", "--json", "python", "-c", "print('hi')\nraise ValueError('x')"]);
    let object = ran.json();
    assert_eq!((ran.code, object["exit_code"].as_u64()), (1, Some(1)), "{object}");
    assert_eq!((&object["status"], &object["stdout"]), (&"failed".into(), &"hi\n".into()), "{object}");
    assert_eq!(object["language"], "python");
    assert!(object["enforcement"].as_array().is_some_and(|controls| !controls.is_empty()), "{object}");
    let refused = place.hotcell(&["code", "--json", "klingon", "-c", "x"]).json();
    assert_eq!(refused["error"]["exit_code"], 125);
}

/// A PNG of one pixel, as its own code would show it.
const SHOWS: &str = r#"
import base64
class Shown:
    def _repr_png_(self):
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
    def _repr_svg_(self):
        return "<svg xmlns='http://www.w3.org/2000/svg'/>"
Shown()
"#;

#[test]
fn images_become_new_files() {
    let place = Place::new();
    if !can_run(&place, "images_become_new_files") {
        return;
    }
    let ran = place.hotcell(&["code", "python", "-c", SHOWS]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("image/png") && ran.stderr.contains("--save-images"), "{ran:?}");

    let directory = place.project().join("images");
    fs::create_dir(&directory).unwrap();
    let other = place.file("other", "kept");
    symlink(&other, directory.join("image-1.png")).unwrap();
    let ran = place.hotcell(&["code", "--save-images", "images", "python", "-c", SHOWS]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
    assert!(fs::read(directory.join("image-2.png")).unwrap().starts_with(b"\x89PNG"), "{ran:?}");
    assert!(fs::read_to_string(directory.join("image-3.svg")).unwrap().starts_with("<svg"), "{ran:?}");
    assert!(ran.stderr.contains("image-2.png"), "{ran:?}");

    let object = place.hotcell(&["code", "--json", "--save-images", "images", "python", "-c", SHOWS]).json();
    assert_eq!(object["images"], serde_json::json!(["images/image-3.png", "images/image-4.svg"]), "{object}");
    let file = place.file("file", "");
    place.hotcell(&["code", "--save-images", file.to_str().unwrap(), "python", "-c", "1"]).assert_refused(&["file"]);
}

#[test]
fn the_prompt_remembers() {
    let place = Place::new();
    if !can_run(&place, "the_prompt_remembers") {
        return;
    }
    let steps = [
        ("python> ", "x = 6\r"),
        ("python> ", "def f(y):\r    return x * y\r\r"),
        ("python> ", "f(7) + 4200\r"),
        ("4242", ""),
        ("python> ", ":restart\r"),
        ("forgotten", ""),
        ("python> ", "x\r"),
        ("NameError", ""),
        ("python> ", "print('still' + ' here')\r"),
        ("still here", ""),
        ("python> ", "\u{4}"),
    ];
    let ran = talk(&place, &["code", "python"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let history = place.home().join("state/hotcell/code-python");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&history).unwrap().contains("return x * y"));
}

#[test]
fn a_shell_at_the_prompt_has_its_own_colon_and_blocks() {
    let place = Place::new();
    if !can_run(&place, "a_shell_at_the_prompt_has_its_own_colon_and_blocks") {
        return;
    }
    let steps = [
        ("bash> ", ": ${x:=word}; echo ${#x}2\r"),
        ("42", ""),
        ("bash> ", "for i in 5; do\r echo $i$i$i\rdone\r"),
        ("555", ""),
        ("bash> ", ":nothing\r"),
        ("there is no `:nothing`", ""),
        ("bash> ", "\u{4}"),
    ];
    let ran = talk(&place, &["code", "bash"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn the_prompt_tells_of_code_that_exits() {
    let place = Place::new();
    if !can_run(&place, "the_prompt_tells_of_code_that_exits") {
        return;
    }
    let steps = [
        ("python> ", "x = 4200\r"),
        ("python> ", "import sys; sys.exit(5)\r"),
        ("exited with status 5; the interpreter goes on, and all variables are kept; Ctrl-D leaves", ""),
        ("python> ", "exit()\r"),
        ("exited with status 0", ""),
        ("python> ", "x + 42\r"),
        ("4242", ""),
        ("python> ", "\u{4}"),
    ];
    let ran = talk(&place, &["code", "python"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let steps = [
        ("bash> ", "false\r"),
        ("bash> ", "exit 6\r"),
        ("exited with status 6; the interpreter was started anew, and all variables are forgotten", ""),
        ("bash> ", "\u{4}"),
    ];
    let ran = talk(&place, &["code", "bash"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(!ran.text().contains("status 1"), "{}", ran.text());
}

#[test]
fn ctrl_c_at_the_prompt_interrupts_the_code_alone() {
    let place = Place::new();
    if !can_run(&place, "ctrl_c_at_the_prompt_interrupts_the_code_alone") {
        return;
    }
    let steps = [
        ("python> ", "x = 77\r"),
        ("python> ", "half typed\u{3}"),
        ("python> ", "import time; print('sta' + 'rted', flush=True); time.sleep(3600)\r"),
        ("started", "\u{3}"),
        ("KeyboardInterrupt", ""),
        ("python> ", "x + 7700\r"),
        ("7777", ""),
        ("python> ", "\u{4}"),
    ];
    let ran = talk(&place, &["code", "python"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn what_code_shows_at_the_prompt_cannot_drive_the_terminal() {
    let place = Place::new();
    if !can_run(&place, "what_code_shows_at_the_prompt_cannot_drive_the_terminal") {
        return;
    }
    let steps = [("python> ", "print('a\\x1b]0;' + 'title\\x07b')\r"), ("ab", ""), ("python> ", "\u{4}")];
    let ran = talk(&place, &["code", "python"], &steps);
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(!ran.text().contains("\u{1b}]0;title"), "{}", ran.text());
}

#[test]
fn a_signal_ends_code_that_runs_once() {
    let place = Place::new();
    if !can_run(&place, "a_signal_ends_code_that_runs_once") {
        return;
    }
    let script = "print('ready', flush=True)\nimport time; time.sleep(3600)";
    let ran = talk(&place, &["code", "python", "-c", script], &[("ready", "\u{3}")]);
    assert_eq!(ran.code, 130, "{}", ran.text());
}
