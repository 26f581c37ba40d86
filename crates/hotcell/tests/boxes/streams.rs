//! What goes in and what comes out.

use hotcell::policy::BoxUser;
use hotcell::{EngineError, SandboxOutput, SpawnConfig, SpawnError, Status, StdinMode, TtySize};

use super::Place;
use super::common::{run_in, sh, stdout, text};
use super::kinds::Kind;

pub(crate) async fn both_streams_and_the_exit_code(place: &Place) {
    let output = place.run(place.policy(), sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(output.status(), Status::Exited(3));
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("out\n", "err\n"));
}

pub(crate) async fn a_signal_is_told_from_an_exit(place: &Place) {
    let output = place.run(place.policy(), sh("kill -TERM $$")).await;
    assert_eq!(output.status(), Status::Signaled(15));
    assert_eq!(place.run(place.policy(), sh("exit 143")).await.status(), Status::Exited(143));
}

pub(crate) async fn a_program_that_is_not_there(place: &Place) {
    let policy = place.policy().build().unwrap();
    let error = place.engine.run_with(&policy, SpawnConfig::new("no-such-program")).await.unwrap_err();
    assert!(matches!(error, EngineError::Spawn(SpawnError::NotFound { .. })), "{error}");
    assert_eq!(error.exit_code(), 127);
}

pub(crate) async fn a_program_that_cannot_be_executed(place: &Place) {
    let policy = place.policy().build().unwrap();
    let error = place.engine.run_with(&policy, SpawnConfig::new("/etc/passwd")).await.unwrap_err();
    assert!(matches!(error, EngineError::Spawn(SpawnError::NotExecutable { .. })), "{error}");
}

pub(crate) async fn bytes_come_back_as_they_went_in(place: &Place) {
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number * 31 % 251) as u8).collect();
    let sandbox = place.engine.create(&place.policy().build().unwrap()).await.unwrap();
    let mut process = sandbox.spawn(SpawnConfig::new("cat").stdin(StdinMode::Piped)).await.unwrap();
    let mut io = process.take_io();
    let mut stdin = io.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = tokio::spawn(async move {
        stdin.write_all(&sent).await.unwrap();
        stdin.close().await.unwrap();
    });
    let mut output = io.output.take().unwrap();
    let mut back = Vec::new();
    while let Some(event) = output.next().await {
        back.extend(event.bytes);
    }
    writer.await.unwrap();
    assert!(back == bytes, "{} bytes came back", back.len());
    assert!(process.wait().await.unwrap().status.success());
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn much_output_reaches_a_slow_reader(place: &Place) {
    let policy = place.policy().build().unwrap();
    let config = sh("head -c 8000000 /dev/zero");
    let mut command = place.engine.start(&policy, config).await.unwrap();
    let mut output = command.take_io().output.take().unwrap();
    let mut length = 0;
    while let Some(event) = output.next().await {
        length += event.bytes.len();
        // Gives the other side every chance to run ahead.
        tokio::task::yield_now().await;
    }
    assert_eq!(length, 8_000_000);
    assert!(command.finish().await.unwrap().status.success());
}

pub(crate) async fn a_terminal_of_its_own(place: &Place) {
    let policy = place.policy().tty(true).build().unwrap();
    let sandbox = place.engine.create(&policy).await.unwrap();
    let size = TtySize { columns: 91, rows: 17 };
    let output = run_in(&*sandbox, sh("tty; stty size").tty(size)).await;
    let said = text(&output.stdout);
    assert!(said.starts_with("/dev/pts/"), "{said}");
    assert!(said.contains("17 91"), "{said}");
    // It is told of another size.
    let script = "echo ready; while [ \"$(stty size)\" = '17 91' ]; do sleep 0.05; done; stty size";
    let mut process = sandbox.spawn(sh(script).tty(size)).await.unwrap();
    let mut output = process.take_io().output.take().unwrap();
    let mut said = String::new();
    while let Some(event) = output.next().await {
        said.push_str(&String::from_utf8_lossy(&event.bytes));
        if said.contains("ready") && !said.contains("resized") {
            said.push_str("resized");
            process.resize(TtySize { columns: 40, rows: 10 }).await.unwrap();
        }
    }
    assert!(said.contains("10 40"), "{said}");
    sandbox.destroy().await.unwrap();
}

pub(crate) async fn only_what_the_policy_says_is_in_the_environment(place: &Place) {
    let output = place.run(place.policy().set_env("GIVEN", "yes"), SpawnConfig::new("env")).await;
    let said = stdout(&output);
    let mut names: Vec<&str> = said.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM", "TZ"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"]);
}

pub(crate) async fn the_code_is_nobody_special(place: &Place) {
    let script = "id -u; grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status; head -c 1 /proc/1/fd/3";
    let output = place.run(place.policy(), sh(script)).await;
    let said = text(&output.stdout);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd"] {
        assert!(said.contains(&format!("{set}:\t0000000000000000")), "{said}");
    }
    if place.kind != Kind::Gvisor {
        assert!(said.contains("NoNewPrivs:\t1"), "{said}");
    }
    assert!(said.contains("Seccomp:\t2"), "{said}");
    assert_ne!(output.status(), Status::Exited(0), "the init's descriptors can be opened");
    // An engine's containers have the host's users, of which root is one; and gVisor's root has a /dev without limits.
    if super::common::is_root() && !matches!(place.kind, Kind::Docker | Kind::Podman | Kind::Gvisor) {
        let root = place.policy().user(BoxUser::ROOT);
        assert!(stdout(&place.run(place.policy(), sh("id -u")).await).starts_with("1000"));
        assert_eq!(stdout(&place.run(root, sh("id -u")).await), "0\n");
    }
}

pub(crate) async fn no_network_but_its_own(place: &Place) {
    let output: SandboxOutput = place.run(place.policy(), sh("cat /proc/net/dev")).await;
    let said = stdout(&output);
    let names: Vec<&str> = said.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert_eq!(names, ["lo"], "{said}");
}
