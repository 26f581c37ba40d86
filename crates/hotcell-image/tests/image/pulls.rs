//! Pulls from registries: one that is honest, and many that are not.

use std::time::{Duration, Instant};

use hotcell_image::{Credentials, Digest, Image, ImageError, Limits, Progress, PullOptions, Store, silent};
use serde_json::json;
use tempfile::TempDir;

use crate::archives::{Parts, architecture, gzip};
use crate::layers::{Layer, names};
use crate::server::{Manner, Reply, Request, Server};

fn open() -> (TempDir, Store) {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(Some(place.path().join("store"))).unwrap();
    (place, store)
}

fn options() -> PullOptions {
    let mut options = PullOptions::default();
    options.credentials = Credentials::Anonymous;
    options.idle_timeout = Duration::from_millis(700);
    options
}

async fn pull(store: &Store, server: &Server, name: &str) -> Result<Image, ImageError> {
    store.pull_with(&format!("{}/{name}", server.host), &options(), &mut silent).await
}

/// The error of a pull of the small image, and that nothing came of it.
async fn failure(instead: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> ImageError {
    let server = Server::with(&Parts::small(), instead).await;
    let (_place, store) = open();
    let started = Instant::now();
    let within = &mut |progress: Progress| {
        assert!(progress.total.is_none_or(|total| progress.done <= total), "more was kept than was announced");
    };
    let name = format!("{}/small:1", server.host);
    let error = store.pull_with(&name, &options(), within).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
    assert!(store.list().unwrap().is_empty());
    assert!(names(&store.place().join("temporary")).is_empty());
    // The same store is as good as new.
    let server = Server::with(&Parts::small(), |_| None).await;
    store.rootfs(&pull(&store, &server, "small:1").await.unwrap()).unwrap();
    error
}

fn on(part: &'static str, reply: Reply) -> impl Fn(&Request) -> Option<Reply> {
    move |request| request.path.contains(part).then(|| reply.clone())
}

#[tokio::test]
async fn an_image_is_pulled_checked_and_not_asked_for_again() {
    let parts = Parts::small().compressed(gzip, "+gzip");
    let server = Server::with(&parts, |_| None).await;
    let (_place, store) = open();
    let mut seen = Vec::new();
    let name = format!("{}/small:1", server.host);
    let image = store.pull_with(&name, &options(), &mut |progress| seen.push(progress)).await.unwrap();
    assert_eq!(image.digest(), &parts.digest());
    assert!(seen.iter().any(|progress| progress.total == Some(progress.done)));
    assert_eq!(names(store.rootfs(&image).unwrap().path()), ["etc", "link"]);

    let asked = server.requests().len();
    store.pull_with(&name, &options(), &mut silent).await.unwrap();
    store.pull_with(&format!("{}/small@{}", server.host, parts.digest()), &options(), &mut silent).await.unwrap();
    assert_eq!(server.requests().len(), asked, "the registry was asked although the image is here");

    let mut refresh = options();
    refresh.refresh = true;
    store.pull_with(&name, &refresh, &mut silent).await.unwrap();
    let more = server.requests().split_off(asked);
    assert!(
        more.iter().any(|path| path.contains("manifests")) && !more.iter().any(|path| path.contains("blobs")),
        "{more:?}"
    );
}

#[tokio::test]
async fn a_digest_is_held_to() {
    let parts = Parts::small();
    let (_place, store) = open();
    let server = Server::with(&parts, |_| None).await;
    let digest = parts.digest();
    let image = pull(&store, &server, &format!("small:ignored@{digest}")).await.unwrap();
    assert_eq!(image.digest(), &digest);

    let other = Parts::of(&[Layer::new().file("evil", "").tar()], architecture());
    let reply = Reply::ok(&other.manifest()).with("docker-content-digest", &digest.to_string());
    let server = Server::with(&parts, on("manifests", reply)).await;
    let (_place, store) = open();
    let error = pull(&store, &server, &format!("small@{digest}")).await.unwrap_err();
    assert!(matches!(error, ImageError::Corrupt { .. }), "{error}");
    let reply = Reply::ok(&other.manifest()).with("docker-content-digest", &other.digest().to_string());
    let server = Server::with(&parts, on("manifests", reply)).await;
    let error = pull(&store, &server, &format!("small@{digest}")).await.unwrap_err();
    assert!(matches!(error, ImageError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn the_image_for_this_machine_is_chosen() {
    let parts = Parts::small();
    let entry = |architecture: &str| {
        let mut entry = parts.descriptor();
        entry["platform"] = json!({ "os": "linux", "architecture": architecture });
        entry
    };
    let index = |entries: Vec<_>| json!({ "schemaVersion": 2, "manifests": entries }).to_string().into_bytes();
    let mut wrong = entry("vax");
    wrong["digest"] = json!(Digest::of(b"vax"));
    let both = index(vec![wrong.clone(), entry(architecture())]);
    let digest = Digest::of(&both);
    let reply = Reply::ok(&both).with("content-type", "application/vnd.oci.image.index.v1+json");
    let at_index = move |request: &Request| {
        let asked = request.path.ends_with("/manifests/1") || request.path.ends_with(&digest.to_string());
        asked.then(|| reply.clone())
    };
    let server = Server::with(&parts, at_index).await;
    let (_place, store) = open();
    assert_eq!(pull(&store, &server, "small:1").await.unwrap().digest(), &parts.digest());
    // By the digest of the index: it is found again by that name without asking.
    let name = format!("small@{digest}");
    assert_eq!(pull(&store, &server, &name).await.unwrap().digest(), &parts.digest());
    let asked = server.requests().len();
    pull(&store, &server, &name).await.unwrap();
    assert_eq!(server.requests().len(), asked);

    let error = failure(on("/manifests/1", Reply::ok(&index(vec![wrong])))).await;
    assert!(matches!(&error, ImageError::WrongPlatform { found, .. } if found == "linux/vax"), "{error}");
}

#[tokio::test]
async fn an_image_for_another_machine_is_refused_before_its_layers_come() {
    let parts = Parts::of(&[Layer::new().file("a", "").tar()], "vax");
    let server = Server::with(&parts, |_| None).await;
    let (_place, store) = open();
    assert!(matches!(pull(&store, &server, "small:1").await, Err(ImageError::WrongPlatform { .. })));
    assert_eq!(server.requests().iter().filter(|path| path.contains("blobs")).count(), 1);
}

#[tokio::test]
async fn blobs_that_are_not_what_was_asked_for_are_refused() {
    let parts = Parts::small();
    let layer = Digest::of(&parts.layers[1]).to_string();
    let mut changed = parts.layers[1].clone();
    changed[600] ^= 1;
    let long = [parts.layers[1].clone(), vec![0; 10]].concat();
    let short = parts.layers[1][..1000].to_vec();
    // Nobody has to read all of a stream to know that it is too long.
    let endless = [parts.layers[1].clone(), vec![0; 20_000_000]].concat();
    for body in [changed, long, endless, short, Vec::new()] {
        let at = layer.clone();
        let error = failure(move |request| request.path.ends_with(&at).then(|| Reply::ok(&body))).await;
        let ImageError::Corrupt { what, .. } = &error else { panic!("{error}") };
        assert_eq!(*what, format!("layer {layer}"));
    }
    let config = Digest::of(&parts.config).to_string();
    let error = failure(move |request| request.path.ends_with(&config).then(|| Reply::ok(b"{}"))).await;
    assert!(matches!(error, ImageError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn connections_that_break_or_stall_end_in_time() {
    for manner in [Manner::Cut, Manner::Stuck, Manner::Silent, Manner::Garbage] {
        for part in ["manifests", "blobs"] {
            let reply = Reply::ok(&[b'x'; 4000]).manner(manner);
            let error = failure(on(part, reply)).await;
            assert!(matches!(error, ImageError::Registry { .. } | ImageError::Corrupt { .. }), "{part}: {error}");
        }
    }
}

#[tokio::test]
async fn refusals_of_the_registry_are_told_with_what_to_do() {
    let cases = [
        (401, "", "login"),
        (403, "", "403"),
        (404, "", "check the name"),
        (404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"x"}]}"#, "check the name"),
        (429, "", "try again later"),
        (429, r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#, "slow down"),
        (500, "", "500"),
        (503, "\u{1b}[2J", "try again later"),
    ];
    for (status, body, text) in cases {
        for part in ["manifests", "blobs"] {
            let error = failure(on(part, Reply::status(status, body))).await;
            assert!(matches!(error, ImageError::Registry { .. }), "{status}: {error}");
            assert!(error.to_string().contains(text), "{status}: {error}");
            assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
        }
    }
}

#[tokio::test]
async fn documents_that_make_no_sense_are_refused() {
    let config = json!({ "digest": Digest::of(b"x"), "size": 1 });
    let huge =
        json!({ "schemaVersion": 2, "config": { "digest": Digest::of(b"x"), "size": 1_u64 << 40 }, "layers": [] });
    let artifact = {
        let mut manifest: serde_json::Value = serde_json::from_slice(&Parts::small().manifest()).unwrap();
        manifest["layers"][0]["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+encrypted");
        manifest
    };
    let large = {
        let mut manifest: serde_json::Value = serde_json::from_slice(&Parts::small().manifest()).unwrap();
        manifest["layers"][0]["size"] = json!(1_u64 << 50);
        manifest
    };
    let bodies = [
        "garbage".to_owned(),
        "{}".to_owned(),
        "[".repeat(100_000),
        json!({ "manifests": [] }).to_string(),
        json!({ "config": config, "layers": [{ "digest": "sha256:../../x", "size": 1 }] }).to_string(),
        json!({ "config": config, "layers": [{ "digest": Digest::of(b""), "size": -1 }] }).to_string(),
        huge.to_string(),
        artifact.to_string(),
        large.to_string(),
    ];
    for body in bodies {
        let error = failure(on("/manifests/1", Reply::ok(body.as_bytes()))).await;
        let known = matches!(
            error,
            ImageError::Malformed { .. } | ImageError::TooLarge { .. } | ImageError::WrongPlatform { .. }
        );
        assert!(known, "{body:.60}: {error}");
    }
}

#[tokio::test]
async fn a_manifest_that_is_too_large_is_refused() {
    let parts = Parts::small();
    let server = Server::with(&parts, |_| None).await;
    let (_place, store) = open();
    let mut limits = Limits::default();
    limits.metadata_bytes = 100;
    let small = store.with_limits(limits);
    assert!(matches!(pull(&small, &server, "small:1").await, Err(ImageError::TooLarge { .. })));
}

#[tokio::test]
async fn a_redirect_is_followed_and_what_it_leads_to_is_checked() {
    let parts = Parts::small();
    let (layer, target) = (Digest::of(&parts.layers[0]).to_string(), parts.layers[0].clone());
    for (body, good) in [(target, true), (b"something else".to_vec(), false)] {
        let elsewhere = Server::start(move |_| Reply::ok(&body)).await;
        let location = format!("http://{}/bucket", elsewhere.host);
        let at = layer.clone();
        let server = Server::with(&parts, move |request| {
            request.path.ends_with(&at).then(|| Reply::status(307, "").with("location", &location))
        })
        .await;
        let (_place, store) = open();
        let pulled = pull(&store, &server, "small:1").await;
        assert_eq!(elsewhere.requests(), ["/bucket"]);
        assert_eq!(pulled.is_ok(), good, "{pulled:?}");
        assert!(good || matches!(pulled, Err(ImageError::Corrupt { .. })));
    }
    // In circles.
    let error = failure(|request| {
        request.path.contains("manifests").then(|| Reply::status(307, "").with("location", &request.path))
    })
    .await;
    assert!(matches!(error, ImageError::Registry { .. }), "{error}");
}

#[tokio::test]
async fn a_login_is_sent_to_the_registry_that_asks_and_to_no_other() {
    let parts = Parts::small();
    let (layer, target) = (Digest::of(&parts.layers[0]).to_string(), parts.layers[0].clone());
    let elsewhere = Server::start(move |request| match request.authorization() {
        None => Reply::ok(&target),
        Some(_) => Reply::status(400, "a login came with the redirect"),
    })
    .await;
    // Another name of this machine: to the client that is another host.
    let location = format!("http://localhost:{}/bucket", elsewhere.host.rsplit(':').next().unwrap());
    let server = Server::with(&parts, move |request| match request.authorization() {
        Some("Basic bWU6c2VjcmV0") => {
            request.path.ends_with(&layer).then(|| Reply::status(307, "").with("location", &location))
        }
        _ => Some(Reply::status(401, "").with("www-authenticate", "Basic realm=\"x\"")),
    })
    .await;
    let (_place, store) = open();
    let name = format!("{}/small:1", server.host);
    let mut options = options();
    let error = store.pull_with(&name, &options, &mut silent).await.unwrap_err();
    assert!(error.to_string().contains("docker login"), "{error}");
    options.credentials = Credentials::Basic { user: "me".to_owned(), password: "secret".to_owned() };
    store.pull_with(&name, &options, &mut silent).await.unwrap();
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_said_so() {
    let host = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (_place, store) = open();
    let error = store.pull(&format!("{host}/small"), &mut silent).await.unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert!(matches!(store.pull("../x", &mut silent).await, Err(ImageError::BadName { .. })));
}

#[tokio::test]
async fn everything_together_may_only_take_so_long() {
    let slow = Server::with(&Parts::small(), |request| {
        request.path.contains("blobs").then(|| Reply::ok(b"x").manner(Manner::Silent))
    })
    .await;
    let (_place, store) = open();
    let mut options = options();
    options.timeout = Duration::from_millis(300);
    options.idle_timeout = Duration::from_secs(30);
    let error = store.pull_with(&format!("{}/small:1", slow.host), &options, &mut silent).await.unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
    assert!(names(&store.place().join("temporary")).is_empty());
}
