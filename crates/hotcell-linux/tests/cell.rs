//! A bare box, without policy: the helper's conversation from greeting to end.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use hotcell_linux::cgroup::Layout;
use hotcell_linux::{
    CellSpec, Cover, Launch, LaunchError, Namespaces, Owner, Spawner, SpawnerOptions, Standard, Tree, TreeOptions,
    probe,
};

const NAMESPACES: Namespaces = Namespaces { user: true, network: true, stage: false, same_user: false };
const USER: Owner = Owner { uid: 1000, gid: 1000 };

async fn spawner() -> Spawner {
    let spawner = Spawner::start(Arc::new(Layout::detect())).unwrap();
    let privileged = probe::look().privileged;
    spawner.greet(SpawnerOptions { privileged, warm: 0, namespaces: NAMESPACES, user: USER }, &spec()).unwrap();
    spawner.greeted().await.unwrap();
    spawner
}

fn spec() -> CellSpec {
    let mut spec = CellSpec::new(NAMESPACES, USER);
    if probe::look().privileged {
        spec.identity(USER.uid, USER.gid);
    }
    spec.root(16 << 20, 1000);
    spec.covers();
    for link in ["bin", "lib", "lib64"] {
        spec.symlink(Path::new(link), format!("usr/{link}"));
    }
    spec.directory(Path::new("usr"), 0o755);
    let options = TreeOptions { read_only: true, ..TreeOptions::default() };
    spec.attach(Tree::pin(Path::new("/usr"), options).unwrap(), Path::new("usr"));
    spec.end_base();
    spec.directory(Path::new("proc"), 0o755);
    spec.proc(Path::new("proc"));
    spec.seal();
    spec.pivot();
    spec
}

fn launch(program: &str, arguments: &[&str]) -> Launch {
    Launch {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![],
        directory: "/".into(),
        search: "/bin".into(),
        limits: vec![],
        standard: Standard::Pipes { input: false },
    }
}

#[tokio::test]
async fn a_program_runs_and_its_end_is_told() {
    let spawner = spawner().await;
    let cell = spawner.create(&spec()).await.unwrap();
    let mut running = cell.launch(launch("sh", &["-c", "exit 7"])).await.unwrap();
    assert_eq!(running.wait().await.unwrap().code, Some(7));
    let mut running = cell.launch(launch("sh", &["-c", "kill -9 $$"])).await.unwrap();
    assert_eq!(running.wait().await.unwrap().signal, Some(9));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_apart_from_one_that_cannot_run() {
    let spawner = spawner().await;
    let cell = spawner.create(&spec()).await.unwrap();
    let missing = cell.launch(launch("no-such-program", &[])).await.unwrap_err();
    assert!(matches!(missing, LaunchError::NotFound { .. }), "{missing}");
    let directory = cell.launch(launch("/usr", &[])).await.unwrap_err();
    assert!(matches!(directory, LaunchError::NotExecutable { .. }), "{directory}");
    let mut nowhere = launch("true", &[]);
    nowhere.directory = "/no-such-directory".into();
    assert!(matches!(cell.launch(nowhere).await.unwrap_err(), LaunchError::Directory { .. }));
}

#[tokio::test]
async fn a_step_that_fails_is_named_and_nothing_is_left() {
    let spawner = spawner().await;
    let mut spec = spec();
    spec.mask(Path::new("no-such-place"), Cover::Empty { directory: true, readable: true });
    let error = spawner.create(&spec).await.unwrap_err();
    assert!(error.to_string().contains("no-such-place"), "{error}");
}

#[tokio::test]
async fn killing_a_box_ends_what_ignores_every_signal() {
    let spawner = spawner().await;
    let cell = spawner.create(&spec()).await.unwrap();
    let script = "trap '' TERM INT HUP; (setsid sleep 600 &) ; while :; do sleep 1; done";
    let mut running = cell.launch(launch("sh", &["-c", script])).await.unwrap();
    cell.kill();
    cell.gone().await;
    assert!(running.wait().await.is_err());
}
