//! Nothing is left behind, and nothing of others is touched.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions};

use crate::common::{Place, marker, processes_with, run_in, sh};
use crate::life::own;
use crate::support::{hosts, policy, soon};

const ROLE: &str = "HOTCELL_TEST_DOCKER_VICTIM";
const WORD: &str = "HOTCELL_TEST_WORD";
const TREE: &str = "HOTCELL_TEST_TREE";

/// Not a test of its own: the program that is killed.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim() {
    let Ok(address) = std::env::var(ROLE) else { return };
    let word = std::env::var(WORD).unwrap();
    let options = hotcell_backends::docker::DockerOptions::default().host(address);
    let backend = hotcell_backends::docker::DockerBackend::start(options).await.unwrap();
    let engine = hotcell::Engine::with_backends(vec![std::sync::Arc::new(backend)]).await.unwrap();
    let policy = policy().write(std::env::var(TREE).unwrap()).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    let ignore = "trap '' TERM INT HUP QUIT USR1 USR2";
    let _process = sandbox.spawn(sh(&format!("{ignore}; setsid sleep {word} & sleep {word}"))).await.unwrap();
    println!("victim ready");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_leaves_nothing() {
    for host in hosts("leftovers::a_killed_program_leaves_nothing").await {
        let place = Place::new();
        place.dir("tree");
        own(&place, &host.backend);
        let word = marker();
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leftovers::the_victim", "--nocapture"])
            .env(ROLE, &host.address)
            .env(WORD, &word)
            .env(TREE, place.join("tree"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("victim ready")));
        assert!(soon(|| async { processes_with(&word).len() >= 2 }).await);
        assert_eq!(host.containers_of(victim.id()).await.len(), 1);
        victim.kill().unwrap();
        victim.wait().unwrap();
        let gone = || async { processes_with(&word).is_empty() && host.containers_of(victim.id()).await.is_empty() };
        assert!(soon(gone).await, "{:?}", host.containers_of(victim.id()).await);
        assert!(soon(|| async { place.listing() == ["tree"] }).await, "{:?}", place.listing());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_box_removes_it() {
    for host in hosts("leftovers::dropping_a_box_removes_it").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        let word = marker();
        let process = sandbox.spawn(sh(&format!("sleep {word}"))).await.unwrap();
        let id = sandbox.id().clone();
        assert!(host.container_of(&id).await.is_some());
        drop(sandbox);
        assert!(soon(|| async { host.container_of(&id).await.is_none() && processes_with(&word).is_empty() }).await);
        drop(process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_gives_up_leaves_nothing() {
    for host in hosts("leftovers::a_caller_who_gives_up_leaves_nothing").await {
        let engine = host.engine().await;
        // By which its containers are known.
        let policy = policy().open_files(777).build().unwrap();
        let mine = || async {
            let mine = host.containers_of(std::process::id()).await;
            let client = host.client().await;
            let mut count = 0;
            for container in mine {
                let inspected = client.inspect_container(container.id.as_deref().unwrap(), None).await;
                let limits = inspected.ok().and_then(|inspected| inspected.host_config?.ulimits).unwrap_or_default();
                count += usize::from(limits.iter().any(|limit| limit.hard == Some(777)));
            }
            count
        };
        for milliseconds in [1, 5, 20, 60, 120, 200, 300] {
            let _ = tokio::time::timeout(Duration::from_millis(milliseconds), engine.create(&policy)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(soon(|| async { mine().await == 0 }).await, "{}", mine().await);
        // What it gave up did no harm to what comes next.
        let sandbox = engine.create(&policy).await.unwrap();
        assert!(run_in(&*sandbox, sh("true")).await.status().success());
        sandbox.destroy().await.unwrap();
    }
}

/// Labels as a process that is gone would have left them.
fn dead_labels(name: &str) -> HashMap<String, String> {
    let boot = "00000000-0000-0000-0000-000000000000";
    HashMap::from([
        ("dev.hotcell.owner".into(), format!("{boot}/1/1/1")),
        ("dev.hotcell.version".into(), "0.1.0".into()),
        ("dev.hotcell.box".into(), name.to_owned()),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_removes_what_was_left_and_nothing_else() {
    for host in hosts("leftovers::pruning_removes_what_was_left_and_nothing_else").await {
        let client = host.client().await;
        let word = marker();
        let create = async |name: &str, labels: HashMap<String, String>| {
            let body = ContainerCreateBody {
                image: Some("hotcell-test:latest".into()),
                cmd: Some(vec!["true".into()]),
                labels: Some(labels),
                ..ContainerCreateBody::default()
            };
            let options = CreateContainerOptions { name: Some(name.to_owned()), ..CreateContainerOptions::default() };
            client.create_container(Some(options), body).await.unwrap().id
        };
        let exists = async |id: &str| client.inspect_container(id, None).await.is_ok();
        let live = host.engine().await.create(&policy().build().unwrap()).await.unwrap();

        // Somebody else's, however much they look like ours.
        let mut foreign = Vec::new();
        foreign.push(create(&format!("database-{word}"), dead_labels(&format!("x-{word}"))).await);
        let mut without_box = dead_labels("x");
        without_box.remove("dev.hotcell.box");
        foreign.push(create(&format!("hotcell-y-{word}"), without_box).await);
        let odd = HashMap::from([("dev.hotcell.owner".to_owned(), "me".to_owned())]);
        foreign.push(create(&format!("hotcell-z-{word}"), odd).await);
        let left = create(&format!("hotcell-x-{word}"), dead_labels(&format!("x-{word}"))).await;

        let pruned = host.backend.prune().await.unwrap();
        assert!(pruned.failed.is_empty(), "{pruned:?}");
        // Another test's start may have been faster.
        assert!(soon(|| async { !exists(&left).await }).await);
        for id in &foreign {
            assert!(exists(id).await, "somebody else's container is gone");
            client.remove_container(id, None::<RemoveContainerOptions>).await.unwrap();
        }
        assert!(run_in(&*live, sh("true")).await.status().success(), "a live box is not touched");
        live.destroy().await.unwrap();
    }
}
