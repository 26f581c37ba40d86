//! Engines that are not there, go away, or have something else by our names.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions};
use hotcell::{CreateError, EngineError, ProcessError, Sandbox, SpawnError};
use hotcell_backends::docker::{DockerBackend, DockerOptions};
use tokio::net::UnixStream;

use crate::common::sh;
use crate::support::{Host, hosts, policy, soon};

#[tokio::test(flavor = "multi_thread")]
async fn no_engine_is_an_error_that_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let start = || DockerBackend::start(DockerOptions::default().host(format!("unix://{}", socket.display())));
    let error = start().await.err().unwrap().to_string();
    for part in ["no container engine answers", "No such file", "install and start Docker", "--runtime native"] {
        assert!(error.contains(part), "{error}");
    }
    let listener = UnixListener::bind(&socket).unwrap();
    let begun = Instant::now();
    let error = start().await.err().unwrap().to_string();
    assert!(error.contains("no answer within 2 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(listener);
    assert!(start().await.err().unwrap().to_string().contains("refused"));
}

/// A socket between the backend and the engine, which can be cut.
struct Line {
    directory: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Line {
    fn open(host: &Host) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = tokio::net::UnixListener::bind(directory.path().join("engine.sock")).unwrap();
        let target = host.socket().to_owned();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let target = target.clone();
                connections.spawn(async move {
                    let mut far = UnixStream::connect(target).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { directory, task }
    }

    fn address(&self) -> String {
        format!("unix://{}", self.directory.path().join("engine.sock").display())
    }

    /// As if the engine had died: every connection ends, and there are no more.
    fn cut(self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_goes_away_takes_the_commands_with_it() {
    for host in hosts("faults::an_engine_that_goes_away_takes_the_commands_with_it").await {
        let line = Line::open(&host);
        let backend = DockerBackend::start(DockerOptions::default().host(line.address())).await.unwrap();
        let engine = hotcell::Engine::with_backends(vec![std::sync::Arc::new(backend)]).await.unwrap();
        let policy = policy().build().unwrap();
        let sandbox = engine.create(&policy).await.unwrap();
        let process = sandbox.spawn(sh("sleep 60")).await.unwrap();
        let waited = async { tokio::time::timeout(Duration::from_secs(20), process.wait()).await.unwrap() };
        let (ended, ()) = tokio::join!(waited, async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            line.cut();
        });
        assert!(matches!(ended, Err(ProcessError::Lost { .. })), "{ended:?}");
        assert!(matches!(sandbox.spawn(sh("true")).await.err(), Some(SpawnError::Lost { .. })));
        let error = engine.create(&policy).await.err().unwrap();
        assert!(
            matches!(&error, EngineError::Create(CreateError::Unavailable { .. } | CreateError::Setup { .. })),
            "{error:?}"
        );
        // The end of the connection is what ends the container.
        let id = sandbox.id().clone();
        assert!(soon(|| async { host.container_of(&id).await.is_none() }).await, "the container is still there");
        let destroyed = tokio::time::timeout(Duration::from_secs(40), sandbox.destroy()).await.unwrap();
        assert!(destroyed.is_err(), "it cannot be known from here");
    }
}

/// The number at the end of a box's name.
fn number(sandbox: &dyn Sandbox) -> u64 {
    sandbox.id().as_str().rsplit('-').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_left_to_its_owner() {
    for host in hosts("faults::a_name_that_is_taken_is_left_to_its_owner").await {
        let engine = host.engine().await;
        let policy = policy().build().unwrap();
        let first = engine.create(&policy).await.unwrap();
        let client = host.client().await;
        // Other tests take numbers meanwhile; one of these is met.
        let names: Vec<String> =
            (1..=4).map(|ahead| format!("hotcell-docker-{}-{}", std::process::id(), number(&*first) + ahead)).collect();
        let mut taken = Vec::new();
        for name in &names {
            let body = ContainerCreateBody {
                image: Some("hotcell-test:latest".into()),
                cmd: Some(vec!["true".into()]),
                ..ContainerCreateBody::default()
            };
            let options = CreateContainerOptions { name: Some(name.clone()), ..CreateContainerOptions::default() };
            taken.extend(client.create_container(Some(options), body).await.ok().map(|created| created.id));
        }
        let second = engine.create(&policy).await.unwrap();
        for id in &taken {
            client.inspect_container(id, None).await.unwrap();
            client.remove_container(id, None::<RemoveContainerOptions>).await.unwrap();
        }
        first.destroy().await.unwrap();
        second.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_with_the_engines_socket_is_never_shown() {
    for host in hosts("faults::a_tree_with_the_engines_socket_is_never_shown").await {
        let directory = Path::new(host.socket()).parent().unwrap().canonicalize().unwrap();
        let policy = policy().read(&directory).build().unwrap();
        let error = host.engine().await.create(&policy).await.err().unwrap().to_string();
        assert!(error.contains("the engine listens below it") || error.contains("is mounted below it"), "{error}");
    }
}
