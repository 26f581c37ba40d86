//! `hotcell image`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::place::{Place, Ran};

/// A store of the test's own.
struct Images(Place);

impl Images {
    fn new() -> Self {
        Self(Place::new())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.0.command(&[&["image"], arguments].concat())
    }

    fn image(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// A directory that is a root file system.
    fn tree(&self) -> PathBuf {
        let tree = self.0.project().join("tree");
        fs::create_dir_all(tree.join("etc")).unwrap();
        fs::write(tree.join("etc/name"), "content").unwrap();
        tree
    }
}

#[test]
fn an_image_is_taken_in_listed_written_and_removed() {
    let images = Images::new();
    let tree = images.tree();
    assert_eq!(images.image(&["list"]).code, 0);
    let imported = images.image(&["import", tree.to_str().unwrap(), "--name", "mine", "--json"]).json();
    assert_eq!(imported["name"], "mine:latest");
    let digest = imported["digest"].as_str().unwrap();

    let listed = images.image(&["list"]);
    assert!(listed.text().contains("mine:latest") && listed.text().contains(&digest[7..19]), "{}", listed.text());
    let listed = images.image(&["list", "--json"]).json();
    assert_eq!(
        (&listed["images"][0]["digest"], &listed["images"][0]["unpacked"]),
        (&imported["digest"], &false.into())
    );

    let archive = images.0.project().join("archive.tar");
    let to = archive.to_str().unwrap();
    let exported = images.image(&["export", "mine", "--output", to, "--json"]).json();
    assert_eq!(exported["size"], fs::metadata(&archive).unwrap().len());
    assert_eq!(images.image(&["import", to, "--name", "again", "--json"]).json()["digest"], imported["digest"]);
    let docker = images.image(&["export", digest, "--format", "docker", "--output", "-"]);
    assert!(docker.stdout.windows(13).any(|window| window == b"manifest.json"));
    assert!(
        fs::read_dir(images.0.project()).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("unfinished"))
    );

    images.image(&["rm", "mine", "gone"]).assert_refused(&["gone"]);
    assert_eq!(images.image(&["rm", "mine", "again", "--json"]).json()["removed"][1]["name"], "again:latest");
    let pruned = images.image(&["prune", "--json"]).json();
    assert_eq!((&pruned["blobs"], &pruned["left"]), (&3.into(), &0.into()));
    images.image(&["export", "mine", "--output", to]).assert_refused(&["no image `mine`", "pull", "import", "build"]);
}

#[test]
fn what_cannot_be_done_is_said_with_the_usual_code() {
    let images = Images::new();
    let file = images.0.file("file", "no archive");
    let path = file.to_str().unwrap();
    images.image(&["import", path, "--name", "a"]).assert_refused(&["not a tar archive"]);
    images.image(&["import", "/nowhere"]).assert_refused(&["/nowhere"]);
    images.image(&["import", images.tree().to_str().unwrap()]).assert_refused(&["--name"]);
    images.image(&["import", path, "--name", "Bad Name"]).assert_refused(&["not the name of an image"]);
    images.image(&["rm", "gone"]).assert_refused(&["gone"]);
    images.image(&["prune", "--limit", "many"]).assert_refused(&["--limit"]);
    images.image(&["frobnicate"]).assert_refused(&["frobnicate"]);
    let failed = images.image(&["rm", "gone", "--json"]);
    assert_eq!((failed.code, &failed.json()["error"]["kind"]), (125, &"image".into()));
    // Nobody answers there.
    let pulled = images.image(&["pull", "127.0.0.1:1/a"]);
    pulled.assert_refused(&["127.0.0.1:1"]);
}

#[test]
fn what_is_here_is_not_asked_for_elsewhere() {
    let images = Images::new();
    let tree = images.tree();
    images.image(&["import", tree.to_str().unwrap(), "--name", "127.0.0.1:1/a"]);
    assert_eq!(images.image(&["pull", "127.0.0.1:1/a", "--json"]).code, 0);
    images.image(&["pull", "127.0.0.1:1/a", "--refresh"]).assert_refused(&["127.0.0.1:1"]);
}

#[test]
fn a_failed_export_leaves_no_file() {
    let images = Images::new();
    let tree = images.tree();
    images.image(&["import", tree.to_str().unwrap(), "--name", "a"]);
    let blobs = images.0.home().join("store/blobs/sha256");
    for blob in fs::read_dir(blobs).unwrap() {
        let path = blob.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if bytes.len() > 1024 {
            bytes[600] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    images.image(&["export", "a", "--output", "out.tar"]).assert_refused(&["layer sha256:", "corrupt"]);
    assert_eq!(fs::read_dir(images.0.project()).unwrap().count(), 1);
}
