//! The same in every kind of box that is here: what works in a native box works in a container and on a server.

use std::time::Duration;

use hotcell::interpreter::{Code, CodeError, CodeStatus, Interpreter, Languages};
use hotcell::{Engine, Policy, Sandbox};

use super::common::{self, text};
use super::place::value;
use super::{local, servers};

/// For code that never ends.
const SHORT: Duration = Duration::from_secs(1);

async fn every_language(test: &str, engine: &Engine, policy: &Policy) {
    let sandbox = engine.create(policy).await.unwrap();
    let interpreter = Interpreter::new(Languages::default());
    python(test, &interpreter, &*sandbox).await;
    javascript(test, &interpreter, &*sandbox).await;
    bash(&interpreter, &*sandbox).await;
    interpreter.close().await;
    sandbox.destroy().await.unwrap();
}

async fn python(test: &str, interpreter: &Interpreter, sandbox: &dyn Sandbox) {
    let within = async |limit: Duration, source: &str| {
        let code = Code::new("python", source).context("python").timeout(limit);
        interpreter.run(sandbox, &code, &|_| {}).await
    };
    let run = async |source: &str| within(common::LONG, source).await;
    match run("x = 6\nprint('é')").await {
        Ok(output) => assert_eq!((output.status, text(&output.stdout).as_str()), (CodeStatus::Done, "é\n")),
        Err(CodeError::NotInstalled { program, .. }) => {
            return common::skip(test, &format!("{program} is not in the box"));
        }
        Err(error) => panic!("{error}"),
    }
    let output =
        run("import os, sys\nos.system('echo child')\nprint('e', file=sys.stderr)\ndisplay(1)\nx * 7").await.unwrap();
    assert_eq!(
        (value(&output), text(&output.stdout).as_str(), text(&output.stderr).as_str()),
        ("42", "child\n", "e\n")
    );
    assert_eq!(value(&run(&format!("len('{}')", "é".repeat(200_000))).await.unwrap()), "200000");
    let output = within(SHORT, "import time\ntime.sleep(1000)").await.unwrap();
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, false));
    assert_eq!(value(&run("x").await.unwrap()), "6");
    let output = run("import os\nos._exit(3)").await.unwrap();
    assert!(matches!(output.status, CodeStatus::Crashed { .. }), "{output:?}");
    let output = run("'x' in globals()").await.unwrap();
    assert_eq!((value(&output), output.context_was_replaced), ("False", true));
    let once =
        interpreter.run(sandbox, &Code::new("python", "import sys\nprint('hi')\nsys.exit(3)"), &|_| {}).await.unwrap();
    assert_eq!((once.status, text(&once.stdout).as_str()), (CodeStatus::Failed { exit_code: Some(3) }, "hi\n"));
}

async fn javascript(test: &str, interpreter: &Interpreter, sandbox: &dyn Sandbox) {
    let within = async |limit: Duration, source: &str| {
        let code = Code::new("javascript", source).context("javascript").timeout(limit);
        interpreter.run(sandbox, &code, &|_| {}).await
    };
    let run = async |source: &str| within(common::LONG, source).await;
    match run("const x = 6; console.log('é')").await {
        Ok(output) => assert_eq!((output.status, text(&output.stdout).as_str()), (CodeStatus::Done, "é\n")),
        Err(CodeError::NotInstalled { program, .. }) => {
            return common::skip(test, &format!("{program} is not in the box"));
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(within(SHORT, "for (;;) {}").await.unwrap().status, CodeStatus::TimedOut);
    assert_eq!(value(&run("await x * 7").await.unwrap()), "42");
    let once = interpreter.run(sandbox, &Code::new("javascript", "1 + 1"), &|_| {}).await.unwrap();
    assert_eq!((value(&once), &once.status), ("2", &CodeStatus::Done));
}

async fn bash(interpreter: &Interpreter, sandbox: &dyn Sandbox) {
    let within = async |limit: Duration, source: &str| {
        let code = Code::new("bash", source).context("bash").timeout(limit);
        interpreter.run(sandbox, &code, &|_| {}).await.unwrap()
    };
    let run = async |source: &str| within(common::LONG, source).await;
    run("x=6").await;
    let output = run("echo $((x * 7)); false").await;
    assert_eq!((output.status, text(&output.stdout).as_str()), (CodeStatus::Failed { exit_code: Some(1) }, "42\n"));
    let output = within(SHORT, "sleep 1000").await;
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, true));
}

macro_rules! kinds {
    ($($kind:ident: $place:ty, $value:expr);* $(;)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $kind() {
                let name = stringify!($kind);
                if let Some(place) = <$place>::open($value, "interpreter", name).await {
                    let policy = place.policy().timeout(6 * common::LONG).build().unwrap();
                    every_language(&format!("interpreter kinds::{name}"), &place.engine, &policy).await;
                    place.close().await;
                }
            }
        )*
    };
}

kinds! {
    native: local::Place, local::Kind::Native;
    runc: local::Place, local::Kind::Runc;
    gvisor: local::Place, local::Kind::Gvisor;
    docker: local::Place, local::Kind::Docker;
    podman: local::Place, local::Kind::Podman;
    opensandbox: servers::Place, servers::Kind::OpenSandbox;
    e2b: servers::Place, servers::Kind::E2b;
}
