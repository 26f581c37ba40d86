//! The engines that tests may use, and what they are asked directly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use hotcell::policy::{PolicyBuilder, PullPolicy};
use hotcell::{Engine, Policy};
use hotcell_backends::docker::{DockerBackend, DockerOptions};

use crate::common::skip;

const ENGINES: &[&str] = &["HOTCELL_TEST_DOCKER", "HOTCELL_TEST_PODMAN"];

/// An engine under test.
pub(crate) struct Host {
    /// Where it listens.
    pub(crate) address: String,
    pub(crate) backend: Arc<DockerBackend>,
}

impl Host {
    pub(crate) async fn engine(&self) -> Engine {
        Engine::with_backends(vec![Arc::clone(&self.backend) as _]).await.unwrap()
    }

    /// The engine's socket.
    pub(crate) fn socket(&self) -> &str {
        self.address.strip_prefix("unix://").expect("tests use engines by their sockets")
    }

    /// A client of the test's own.
    pub(crate) async fn client(&self) -> Docker {
        let client = Docker::connect_with_unix(self.socket(), 60, API_DEFAULT_VERSION).unwrap();
        client.negotiate_version().await.unwrap()
    }

    /// The containers that a process has made and that are still there, whatever their state.
    pub(crate) async fn containers_of(&self, process: u32) -> Vec<ContainerSummary> {
        let label = HashMap::from([("label".to_owned(), vec!["dev.hotcell.owner".to_owned()])]);
        let options = ListContainersOptions { all: true, filters: Some(label), ..ListContainersOptions::default() };
        let client = self.client().await;
        let all = loop {
            match client.list_containers(Some(options.clone())).await {
                Ok(all) => break all,
                // Podman has a word that nobody knows for containers that are just ending.
                Err(bollard::errors::Error::JsonDataError { .. }) => {
                    tokio::time::sleep(Duration::from_millis(50)).await
                }
                Err(error) => panic!("{error}"),
            }
        };
        let by_it = |container: &ContainerSummary| {
            let owner = container.labels.as_ref().and_then(|labels| labels.get("dev.hotcell.owner"));
            owner.and_then(|owner| owner.split('/').nth(2)) == Some(process.to_string().as_str())
        };
        all.into_iter().filter(by_it).collect()
    }

    /// The container of a box.
    pub(crate) async fn container_of(&self, id: &hotcell::SandboxId) -> Option<ContainerSummary> {
        let mine = self.containers_of(std::process::id()).await;
        let is = |container: &ContainerSummary| {
            container
                .labels
                .as_ref()
                .and_then(|labels| labels.get("dev.hotcell.box"))
                .is_some_and(|name| name == id.as_str())
        };
        mine.into_iter().find(is)
    }
}

/// The engines that there are; one that there is not is listed as skipped.
pub(crate) async fn hosts(test: &str) -> Vec<Host> {
    let mut hosts = Vec::new();
    for name in ENGINES {
        match std::env::var(name) {
            Ok(address) if !may_open(&address) => {
                skip(test, &format!("{name} names an engine that this user may not use"))
            }
            Ok(address) => {
                let backend = DockerBackend::start(DockerOptions::default().host(&address)).await.unwrap();
                hosts.push(Host { address, backend: Arc::new(backend) });
            }
            Err(_) => skip(test, &format!("{name} does not name an engine")),
        }
    }
    hosts
}

/// Engines are often for root and a group only.
fn may_open(address: &str) -> bool {
    let socket = address.strip_prefix("unix://").expect("tests use engines by their sockets");
    let opened = std::os::unix::net::UnixStream::connect(socket);
    !opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// The default policy, with the image of the tests.
pub(crate) fn policy() -> PolicyBuilder {
    Policy::builder().image("hotcell-test:latest").pull(PullPolicy::Never)
}

/// Waits until something holds, and says whether it came to that.
pub(crate) async fn soon<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if holds().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}
