//! On a terminal. Python opens one, because that takes no unsafe code.

use std::process::Command;

use super::place::{Place, Ran, has_program};

pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Runs its arguments on a terminal of 100 × 30, types the text of `TYPED` once the word `ready` was printed, and
/// prints what the terminal showed.
const ON_A_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
shown, typed = b"", os.environ.get("TYPED", "").encode()
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    if typed and b"ready" in shown:
        os.write(terminal, typed)
        typed = b""
os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

fn on_a_terminal(place: &Place, typed: &str, arguments: &[&str]) -> Ran {
    shown_on_a_terminal(&place.command(arguments), typed)
}

/// What a terminal shows of a command.
pub(crate) fn shown_on_a_terminal(hotcell: &Command, typed: &str) -> Ran {
    let mut command = Command::new(PYTHON);
    command.args(["-c", ON_A_TERMINAL]).arg(hotcell.get_program()).args(hotcell.get_args());
    if let Some(directory) = hotcell.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in hotcell.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ran::of(command.env("TYPED", typed).env("NO_COLOR", "1").output().unwrap())
}

fn can_run(place: &Place, test: &str) -> bool {
    has_program(test, PYTHON) && place.has_boxes(test)
}

#[test]
fn output_cannot_drive_the_terminal() {
    let place = Place::new();
    if !can_run(&place, "output_cannot_drive_the_terminal") {
        return;
    }
    let script = r"printf 'a\033]0;title\007b\033[2Jc\033[31mred\n'; printf 'e\033[6nf\n' >&2";
    let ran = on_a_terminal(&place, "", &["run", "sh", "-c", script]);
    assert_eq!(ran.code, 0);
    assert!(ran.text().contains("abc\u{1b}[31mred"), "{ran:?}");
    assert!(ran.text().contains("ef"), "{ran:?}");
    assert!(ran.text().contains("\u{1b}[0m"), "colours must end: {ran:?}");
    assert!(!ran.text().contains("title") && !ran.text().contains("[2J") && !ran.text().contains("[6n"), "{ran:?}");
}

#[test]
fn a_terminal_of_its_own_has_the_size_of_ours() {
    let place = Place::new();
    if !can_run(&place, "a_terminal_of_its_own_has_the_size_of_ours") {
        return;
    }
    let script = "stty size; echo ready; read line; echo \"got $line\"; exit 4";
    let ran = on_a_terminal(&place, "typed\r", &["run", "--tty", "sh", "-c", script]);
    assert!(ran.text().contains("30 100\r\n") && ran.text().contains("got typed\r\n"), "{ran:?}");
    assert_eq!(ran.code, 4);
}

#[test]
fn ctrl_c_goes_to_the_command() {
    let place = Place::new();
    if !can_run(&place, "ctrl_c_goes_to_the_command") {
        return;
    }
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    for flags in [&["run", "--tty"][..], &["run"]] {
        let ran = on_a_terminal(&place, "\u{3}", &[flags, &["sh", "-c", script]].concat());
        assert!(ran.text().contains("caught"), "{ran:?}");
        assert_eq!(ran.code, 5, "{flags:?}");
    }
}

#[test]
fn a_shell_runs_what_is_typed() {
    let place = Place::new();
    if !can_run(&place, "a_shell_runs_what_is_typed") {
        return;
    }
    let ran = on_a_terminal(&place, "echo $((6*7)); exit 3\r", &["shell", "--env", "PS1=ready> "]);
    assert!(ran.text().contains("42\r\n"), "{ran:?}");
    assert_eq!(ran.code, 3);
}
