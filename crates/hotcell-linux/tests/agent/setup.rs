//! Confining itself: what the first order can ask for, and what it cannot.

use hotcell_linux::seccomp::{self, Arch, FilterOptions};
use hotcell_linux::wire::{Writer, step};
use hotcell_linux::{CellSpec, CreateError, Namespaces, Owner};

use crate::common::{Box, agent_by, helper, init_by, without_rights};

fn spec() -> CellSpec {
    CellSpec::new(Namespaces { user: false, network: false, stage: false, same_user: false }, Owner { uid: 0, gid: 0 })
}

fn filter(notify_denied: bool) -> seccomp::Program {
    seccomp::compile(Arch::native().unwrap(), &FilterOptions { notify_denied, ..FilterOptions::default() })
}

fn confined() -> Vec<u8> {
    let mut spec = spec();
    spec.limit_init(libc::RLIMIT_CORE, 0);
    spec.no_new_privs();
    spec.seccomp(&filter(false), false);
    spec.into_setup().0
}

async fn by(stream: bool, setup: Vec<u8>) -> Result<Box, CreateError> {
    let mode = if stream { "agent" } else { "init" };
    let mut command = helper(mode);
    without_rights(&mut command);
    if stream { agent_by(command, setup).await } else { init_by(command, setup).await }
}

#[tokio::test]
async fn what_is_asked_for_holds_for_programs() {
    for stream in [true, false] {
        let cell = by(stream, confined()).await.unwrap();
        let script =
            "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status; ulimit -c; unshare -U true 2>/dev/null || echo no";
        let (output, _, _) = cell.run(script).await;
        assert!(output.contains("NoNewPrivs:\t1\n") && output.contains("Seccomp:\t2\n"), "{output}");
        assert!(output.ends_with("0\nno\n"), "{output}");
    }
}

#[tokio::test]
async fn nothing_that_is_not_asked_for_is_done() {
    for stream in [true, false] {
        let cell = by(stream, Vec::new()).await.unwrap();
        let (output, _, _) = cell.run("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status").await;
        assert!(output.contains("NoNewPrivs:\t0\n") && output.contains("Seccomp:\t0\n"), "{output}");
    }
}

#[tokio::test]
async fn every_capability_is_given_up_or_it_is_an_error() {
    let mut spec = spec();
    spec.no_new_privs();
    spec.drop_capabilities();
    let (setup, _) = spec.into_setup();
    // SAFETY: no memory is involved.
    let root = unsafe { libc::geteuid() } == 0;
    for mode in ["agent", "init"] {
        let make = async |setup| match mode {
            "agent" => agent_by(helper(mode), setup).await,
            _ => init_by(helper(mode), setup).await,
        };
        match make(setup.clone()).await {
            Ok(cell) => {
                let (output, _, _) = cell.run("grep '^Cap' /proc/self/status").await;
                assert_eq!(output.matches("0000000000000000").count(), 5, "{output}");
            }
            // Others cannot empty the bounding set, and here nobody has done it for them.
            Err(CreateError::Step { step, source, .. }) if !root => {
                assert_eq!((step.as_str(), source.raw_os_error()), ("do the second", Some(libc::EPERM)));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn what_is_gone_already_need_not_be_given_up() {
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } != 0 {
        // Only root can start a process whose bounding set is empty.
        return;
    }
    let mut spec = spec();
    spec.drop_capabilities();
    let (setup, _) = spec.into_setup();
    let inner = helper("init");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--reuid=65533", "--regid=65533", "--clear-groups"]);
    command.arg(inner.get_program()).arg("init");
    let image = inner.get_program().to_owned();
    inherit(&image);
    let cell = init_by(command, setup).await.unwrap();
    let (output, _, _) = cell.run("grep '^Cap' /proc/self/status").await;
    assert_eq!(output.matches("0000000000000000").count(), 5, "{output}");
}

/// Lets programs between us and the helper inherit the memory file that it is in.
fn inherit(image: &std::ffi::OsStr) {
    let number: i32 = image.to_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
    // SAFETY: plain numbers; the descriptor stays open for as long as the tests run.
    assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
}

#[tokio::test]
async fn a_listener_gets_through_a_socket_and_not_through_a_stream() {
    let mut spec = spec();
    spec.no_new_privs();
    spec.seccomp(&filter(true), true);
    let (setup, _) = spec.into_setup();
    let mut cell = by(false, setup.clone()).await.unwrap();
    assert!(cell.cell.take_listener().is_some());
    match by(true, setup).await.map(|_| ()) {
        Err(CreateError::Step { step, source, .. }) => {
            assert_eq!((step.as_str(), source.raw_os_error()), ("do the second", Some(libc::EOPNOTSUPP)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn steps_that_are_not_about_confinement_are_refused() {
    let mut mounts = spec();
    mounts.root(1 << 20, 100);
    let mut identity = spec();
    identity.identity(0, 0);
    for setup in [mounts.into_setup().0, identity.into_setup().0, Writer::new(step::SEAL).finish(), vec![200]] {
        for stream in [true, false] {
            match by(stream, setup.clone()).await.map(|_| ()) {
                Err(CreateError::Step { step, source, .. }) => {
                    assert_eq!((step.as_str(), source.raw_os_error()), ("do the first", Some(libc::EPROTO)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
