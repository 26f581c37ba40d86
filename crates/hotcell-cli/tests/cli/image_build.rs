//! `hotcell image build`.

use std::fs;
use std::process::Command;

use super::place::{Place, Ran, has_program, skip};

/// A place with a store, and a cache with a build that an earlier run kept: a small tree in place of Debian.
struct Kept(Place);

impl Kept {
    fn new() -> Self {
        let place = Place::new();
        let cache = place.home().join("cache");
        let tree = place.home().join("tree");
        fs::create_dir_all(tree.join("etc")).unwrap();
        fs::create_dir_all(&cache).unwrap();
        fs::write(tree.join("etc/name"), "content").unwrap();
        let archive = cache.join(format!("code-{}.tar", architecture()));
        let tar = Command::new("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg("etc").status().unwrap();
        assert!(tar.success());
        let kept = Self(place);
        kept.lock(&sha256(&archive));
        kept
    }

    /// Writes a lock file that records this archive.
    fn lock(&self, rootfs: &str) {
        let architecture = architecture();
        let sha256 = "0".repeat(64);
        self.0.file(
            "code.lock",
            &format!(
                "version = 1\nsuite = \"forky\"\narchitecture = \"{architecture}\"\ndate = \"2026-10-30T08:08:01Z\"\n\
                 rootfs = \"{rootfs}\"\npackages = [\n    {{ name = \"a\", version = \"1\", architecture = \"all\", \
                 size = 1, sha256 = \"{sha256}\", path = \"pool/main/a/a/a_1_all.deb\" }},\n]\n"
            ),
        );
    }

    fn build(&self, more: &[&str]) -> Ran {
        let arguments = ["image", "build", "--lock", "code.lock", "--mirror", "http://127.0.0.1:1/debian"];
        let mut command = self.0.command(&[&arguments, more].concat());
        command.arg("--cache").arg(self.0.home().join("cache"));
        Ran::of(command.output().unwrap())
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn sha256(path: &std::path::Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

#[test]
fn a_kept_build_is_used_again_and_gives_the_same_digest() {
    let kept = Kept::new();
    let [one, two] = [(); 2].map(|()| kept.build(&["--json"]).json());
    assert_eq!(
        (&one["kept"], &one["as_recorded"], &one["name"]),
        (&true.into(), &true.into(), &"hotcell/code:latest".into())
    );
    assert_eq!(one["digest"], two["digest"]);
    // A directory and a file, a block each.
    assert_eq!((&one["unpacked_size"], &one["archive_size"]), (&8192.into(), &10240.into()));
    let other = kept.build(&["--name", "mine:1"]);
    assert!(other.text().starts_with(&format!("mine:1 {}\n", one["digest"].as_str().unwrap())), "{other:?}");
    assert!(other.text().contains("8.0 KiB unpacked, archive 10.0 KiB"), "{other:?}");
    assert!(other.stderr.contains("looking for an earlier build"), "{other:?}");
}

#[test]
fn the_image_is_written_as_what_was_asked_for() {
    let kept = Kept::new();
    let built = kept.build(&["--oci", "one.tar", "--docker", "two.tar", "--json"]).json();
    let files = built["files"].as_array().unwrap();
    assert_eq!(files.iter().map(|file| file["kind"].as_str().unwrap()).collect::<Vec<_>>(), ["oci", "docker"]);
    for file in files {
        let path = kept.0.project().join(file["file"].as_str().unwrap());
        assert_eq!(file["size"], fs::metadata(&path).unwrap().len());
    }
    let mut import = kept.0.command(&["image", "import", "one.tar", "--name", "again", "--json"]);
    let again = Ran::of(import.env("HOTCELL_IMAGE_STORE", kept.0.home().join("other")).output().unwrap());
    assert_eq!(again.json()["digest"], built["digest"]);
}

#[test]
fn file_systems_are_the_same_each_time() {
    let test = "file_systems_are_the_same_each_time";
    if !has_program(test, "/usr/sbin/debugfs") || !has_program(test, "/usr/bin/tar2sqfs") {
        return;
    }
    let kept = Kept::new();
    for name in ["one", "two"] {
        let [ext4, squashfs] = ["ext4", "squashfs"].map(|kind| format!("{name}.{kind}"));
        let ran = kept.build(&["--ext4", &ext4, "--squashfs", &squashfs]);
        assert!(ran.code == 0 && ran.text().contains("squashfs "), "{ran:?}");
    }
    let sum = |name: &str| sha256(&kept.0.project().join(name));
    assert_eq!(sum("one.ext4"), sum("two.ext4"));
    assert_eq!(sum("one.squashfs"), sum("two.squashfs"));
}

#[test]
fn another_archive_than_the_recorded_one_is_not_used() {
    let kept = Kept::new();
    kept.lock(&"1".repeat(64));
    // It would have to be built: the lock file is not that of the recipe, and no mirror is asked.
    kept.build(&[]).assert_refused(&["lock file", "--update-lock"]);
    let kept = Kept::new();
    kept.build(&["--again"]).assert_refused(&["lock file", "--update-lock"]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_the_work() {
    let place = Place::new();
    place.hotcell(&["image", "build", "--update-lock"]).assert_refused(&["--lock"]);
    place.hotcell(&["image", "build", "--name", "Bad Name"]).assert_refused(&["--name", "Bad Name"]);
    let ran = place.hotcell(&["image", "build", "--lock", "/nowhere/code.lock", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["kind"]), (125, &"build".into()), "{ran:?}");
}

#[test]
fn two_whole_builds_have_the_same_digest() {
    let test = "two_whole_builds_have_the_same_digest";
    if std::env::var_os("HOTCELL_TEST_IMAGE_BUILD").is_none_or(|value| value != "1") {
        return skip(test, "slow; HOTCELL_TEST_IMAGE_BUILD=1 runs it");
    }
    let build = || {
        let place = Place::new();
        let mut command = place.command(&["image", "build", "--again", "--json"]);
        // Downloads are kept where other builds of this user find them.
        command.env("HOME", std::env::var_os("HOME").unwrap());
        Ran::of(command.output().unwrap()).json()
    };
    let [one, two] = [(); 2].map(|()| build());
    assert_eq!((&one["digest"], &one["kept"], &one["as_recorded"]), (&two["digest"], &false.into(), &true.into()));
    assert!(one["unpacked_size"].as_u64().unwrap() < 500_000_000, "{one}");
}
