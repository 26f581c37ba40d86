//! Images: what is not there, not for this machine, or has ideas of its own.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use bollard::query_parameters::{CreateImageOptions, ImportImageOptions, ListVolumesOptions, RemoveImageOptions};
use futures_core::Stream;
use hotcell::policy::PullPolicy;
use hotcell::{CreateError, EngineError, SpawnError};

use crate::common::{has_program, run_in, sh, skip, stdout};
use crate::support::{Host, hosts, policy};

/// An image that is removed with the test.
struct Image<'a> {
    host: &'a Host,
    name: String,
}

const BUSYBOX: &str = "/bin/busybox";

/// The end of a tar archive without any files.
const EMPTY: [u8; 1024] = [0; 1024];

impl<'a> Image<'a> {
    /// Makes one of an archive; `changes` are lines of a Dockerfile.
    async fn import(host: &'a Host, name: &str, archive: &[u8], platform: &str, changes: &[&str]) -> Self {
        let options = CreateImageOptions {
            from_src: Some("-".into()),
            repo: Some(name.to_owned()),
            tag: Some("latest".into()),
            platform: platform.to_owned(),
            changes: changes.iter().map(|line| (*line).to_owned()).collect(),
            ..CreateImageOptions::default()
        };
        let client = host.client().await;
        let mut steps =
            pin!(client.create_image(Some(options), Some(bollard::body_full(archive.to_vec().into())), None));
        while let Some(step) = std::future::poll_fn(|context| steps.as_mut().poll_next(context)).await {
            step.unwrap();
        }
        Self { host, name: format!("{name}:latest") }
    }

    /// Makes an empty one that says that it is for this processor.
    async fn load(host: &'a Host, name: &str, architecture: &str) -> Self {
        // The digest of the empty archive.
        let layer = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";
        let config = serde_json::json!({
            "architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer]},
        });
        let name = format!("{name}:latest");
        let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
        let files = [
            ("config.json", config.to_string().into_bytes()),
            ("manifest.json", manifest.to_string().into_bytes()),
            ("layer.tar", EMPTY.to_vec()),
        ];
        let archive = tar(|directory| {
            files.iter().for_each(|(name, content)| fs::write(directory.join(name), content).unwrap());
        });
        let client = host.client().await;
        let body = bollard::body_full(archive.into());
        let mut steps = pin!(client.import_image(ImportImageOptions::default(), body, None));
        while let Some(step) = std::future::poll_fn(|context| steps.as_mut().poll_next(context)).await {
            step.unwrap();
        }
        Self { host, name }
    }

    async fn remove(self) {
        let options = RemoveImageOptions { force: true, ..RemoveImageOptions::default() };
        self.host.client().await.remove_image(&self.name, Some(options), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_without_anything_in_it_still_has_an_init() {
    for host in hosts("images::one_without_anything_in_it_still_has_an_init").await {
        let image = Image::import(&host, "hotcell-test-empty", &EMPTY, "", &[]).await;
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().image(&image.name).build().unwrap()).await.unwrap();
        assert!(matches!(sandbox.spawn(sh("true")).await.err(), Some(SpawnError::NotFound { .. })));
        sandbox.destroy().await.unwrap();
        image.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_for_another_machine_is_refused() {
    for host in hosts("images::one_for_another_machine_is_refused").await {
        let other = if host.backend.engine().architecture == "arm64" { "amd64" } else { "arm64" };
        let image = Image::load(&host, "hotcell-test-foreign", other).await;
        let error = host.engine().await.create(&policy().image(&image.name).build().unwrap()).await.err().unwrap();
        assert!(error.to_string().contains(&format!("is for linux/{other}")), "{error}");
        image.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_wants_to_run_or_write_is_its_own_affair() {
    // A program without libraries, to make a small image of.
    if !has_program("images::what_an_image_wants_to_run_or_write_is_its_own_affair", BUSYBOX) {
        return;
    }
    for host in hosts("images::what_an_image_wants_to_run_or_write_is_its_own_affair").await {
        if host.backend.engine().podman {
            skip("images::what_an_image_wants_to_run_or_write_is_its_own_affair", "Podman's import takes no changes");
            continue;
        }
        let changes = [
            "ENTRYPOINT [\"/bin/false\"]",
            "CMD [\"x\"]",
            "USER 0",
            "VOLUME /data",
            "HEALTHCHECK --interval=1s CMD touch /tmp/checked",
            "ENV FROM_IMAGE=yes",
            "ENV HOME=/elsewhere",
            "LABEL dev.hotcell.box=other",
            "WORKDIR /nowhere",
        ];
        let client = host.client().await;
        let archive = small_image();
        let image = Image::import(&host, "hotcell-test-own-ideas", &archive, "", &changes).await;
        let volumes = |client: bollard::Docker| async move {
            client.list_volumes(None::<ListVolumesOptions>).await.unwrap().volumes.unwrap_or_default().len()
        };
        let before = volumes(client.clone()).await;
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().image(&image.name).build().unwrap()).await.unwrap();
        assert_eq!(volumes(client.clone()).await, before, "no volume is made on disk");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let output = run_in(&*sandbox, hotcell::SpawnConfig::new("/probe")).await;
        let seen = stdout(&output);
        let variables: HashMap<&str, &str> = seen.lines().filter_map(|line| line.split_once('=')).collect();
        assert_eq!(variables.get("FROM_IMAGE"), Some(&"yes"), "{seen}");
        assert_eq!(variables.get("checked"), Some(&"no"), "{seen}");
        assert_eq!(variables.get("data"), Some(&"writable"), "{seen}");
        assert_ne!(variables.get("uid"), Some(&"0"), "{seen}");
        sandbox.destroy().await.unwrap();
        image.remove().await;
    }
}

/// An archive of what `fill` puts into a directory.
fn tar(fill: impl FnOnce(&Path)) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let output = Command::new("tar").arg("-C").arg(directory.path()).args(["-c", "."]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// An archive with a script that says what it sees, and a shell for it.
fn small_image() -> Vec<u8> {
    let script = "#!/bin/busybox sh\n\
                  echo FROM_IMAGE=$FROM_IMAGE\n\
                  if [ -e /tmp/checked ]; then echo checked=yes; else echo checked=no; fi\n\
                  if echo x > /data/x; then echo data=writable; fi\n\
                  echo uid=$(/bin/busybox id -u)\n";
    tar(|directory| {
        fs::create_dir(directory.join("bin")).unwrap();
        fs::copy(BUSYBOX, directory.join("bin/busybox")).unwrap();
        fs::write(directory.join("probe"), script).unwrap();
        fs::set_permissions(directory.join("probe"), fs::Permissions::from_mode(0o755)).unwrap();
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_not_here_is_fetched_only_if_that_is_allowed() {
    for host in hosts("images::one_that_is_not_here_is_fetched_only_if_that_is_allowed").await {
        let engine = host.engine().await;
        // Nobody listens there, so that a pull is an error of its own.
        let name = "127.0.0.1:1/hotcell/missing:latest";
        for (pull, expected) in [
            (PullPolicy::Never, "does not let it be fetched"),
            (PullPolicy::Missing, "could not be fetched"),
            (PullPolicy::Always, "could not be fetched"),
        ] {
            let error = engine.create(&policy().image(name).pull(pull).build().unwrap()).await.err().unwrap();
            assert!(matches!(&error, EngineError::Create(CreateError::Setup { .. })), "{error:?}");
            assert!(error.to_string().contains(expected), "{pull}: {error}");
        }
        let digest = format!("hotcell-test@sha256:{}", "0".repeat(64));
        let error = engine.create(&policy().image(digest).build().unwrap()).await.err().unwrap();
        assert!(error.to_string().contains("has no image"), "{error}");
    }
}

/// The program that is started again with a store of its own.
const ROLE: &str = "HOTCELL_TEST_STORE_USER";

/// Not a test of its own: runs a box of an image that only the store has.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_user() {
    let Ok(address) = std::env::var(ROLE) else { return };
    let options = hotcell_backends::docker::DockerOptions::default().host(address);
    let backend = hotcell_backends::docker::DockerBackend::start(options).await.unwrap();
    let engine = hotcell::Engine::with_backends(vec![std::sync::Arc::new(backend)]).await.unwrap();
    let policy = policy().image("hotcell-test-stored:latest").build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    let output = run_in(&*sandbox, hotcell::SpawnConfig::new("/probe")).await;
    assert!(stdout(&output).contains("checked=no"));
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_our_store_is_loaded_into_the_engine() {
    if !has_program("images::one_of_our_store_is_loaded_into_the_engine", BUSYBOX) {
        return;
    }
    for host in hosts("images::one_of_our_store_is_loaded_into_the_engine").await {
        let place = tempfile::tempdir().unwrap();
        let store = hotcell_image::Store::open(Some(place.path().join("store"))).unwrap();
        let mut config = hotcell_image::ImageConfig::default();
        config.env.push("FROM_IMAGE=yes".into());
        store.add_rootfs_tar(small_image().as_slice(), config, "hotcell-test-stored:latest").unwrap();
        let user = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "images::the_store_user", "--nocapture"])
            .env(ROLE, &host.address)
            .env("HOTCELL_IMAGE_STORE", place.path().join("store"))
            .output()
            .unwrap();
        assert!(user.status.success(), "{}", String::from_utf8_lossy(&user.stderr));
        Image { host: &host, name: "hotcell-test-stored:latest".into() }.remove().await;
    }
}
