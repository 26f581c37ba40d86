#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use bollard::models::ImageConfig;

use super::super::lower::tests::engine;
use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn found() -> ImageInspect {
    ImageInspect {
        id: Some(DIGEST.into()),
        repo_digests: Some(vec![format!("example.org/a@{}", DIGEST.replace('0', "f"))]),
        architecture: Some("amd64".into()),
        os: Some("linux".into()),
        config: Some(ImageConfig {
            env: Some(vec!["PATH=/opt/bin:/bin".into(), "A=b=c".into()]),
            volumes: Some(vec!["/data/".into()]),
            ..ImageConfig::default()
        }),
        ..ImageInspect::default()
    }
}

#[test]
fn names_without_a_tag_mean_one_image_and_not_all() {
    for (name, complete_name) in [
        ("debian", "debian:latest"),
        ("registry:5000/debian", "registry:5000/debian:latest"),
        ("debian:12", "debian:12"),
        ("a/b@sha256:00", "a/b@sha256:00"),
        (DIGEST, DIGEST),
    ] {
        assert_eq!(complete(name), complete_name);
    }
}

#[test]
fn what_an_image_brings_along_is_read() {
    let image = usable("a:latest", &found(), &engine()).unwrap();
    assert_eq!(image.id, DIGEST);
    assert_eq!(image.environment.get("A").unwrap(), "b=c");
    assert_eq!(image.volumes, [PathBuf::from("/data")]);
    let podman = ImageInspect { id: Some(DIGEST.trim_start_matches("sha256:").into()), ..found() };
    assert_eq!(usable("a:latest", &podman, &engine()).unwrap().id, DIGEST);
}

#[test]
fn a_digest_is_compared() {
    let other = DIGEST.replace('0', "f");
    assert!(usable(&format!("example.org/a@{other}"), &found(), &engine()).is_ok());
    assert!(usable(DIGEST, &found(), &engine()).is_ok());
    for name in [format!("a@{}", DIGEST.replace('0', "1")), other, "a@".into()] {
        assert!(matches!(usable(&name, &found(), &engine()), Err(ImageError::WrongDigest { .. })), "{name}");
    }
}

#[test]
fn images_for_other_machines_are_refused() {
    let other = ImageInspect { architecture: Some("arm64".into()), ..found() };
    let error = usable("a:latest", &other, &engine()).unwrap_err();
    assert_eq!(error.to_string(), "the image `a:latest` is for linux/arm64, and this engine runs linux/amd64");
    let windows = ImageInspect { os: Some("windows".into()), ..found() };
    assert!(matches!(usable("a:latest", &windows, &engine()), Err(ImageError::WrongArchitecture { .. })));
}

#[test]
fn volumes_that_a_box_cannot_have_are_refused() {
    let with = |volumes: Vec<String>| {
        let config = ImageConfig { volumes: Some(volumes), ..ImageConfig::default() };
        usable("a:latest", &ImageInspect { config: Some(config), ..found() }, &engine())
    };
    for bad in ["/", "relative", "/a/../b", "/proc/x", "/.hotcell", "/dev"] {
        assert!(matches!(with(vec![bad.into()]), Err(ImageError::Volumes { .. })), "{bad}");
    }
    assert!(with((0..17).map(|number| format!("/v{number}")).collect()).is_err());
    assert!(with((0..16).map(|number| format!("/v{number}")).collect()).is_ok());
}
