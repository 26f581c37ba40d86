//! What stays, what goes, and what is added.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::super::lock::Package;
use super::*;

const EPOCH: u64 = 1_700_000_000;

fn file(text: &str) -> Entry {
    Entry::new(Kind::File(Data::Memory(text.as_bytes().to_vec())), 0o644, EPOCH)
}

fn status(packages: &[(&str, &str)]) -> String {
    let stanza = |(name, version): &(&str, &str)| {
        format!("Package: {name}\nStatus: install ok installed\nVersion: {version}\nDescription: x\n")
    };
    packages.iter().map(stanza).collect::<Vec<_>>().join("\n")
}

fn lock(packages: &[(&str, &str)]) -> Lock {
    let package = |(name, version): &(&str, &str)| Package {
        name: (*name).into(),
        version: (*version).into(),
        architecture: "all".into(),
        size: 1,
        sha256: "ab".repeat(32),
        path: format!("pool/main/{name}.deb"),
    };
    let packages = packages.iter().map(package).collect();
    Lock { suite: "forky".into(), architecture: "amd64".into(), epoch: EPOCH, rootfs: None, packages }
}

fn npm(files: &[(&str, EntryType)]) -> NamedTempFile {
    let archive = NamedTempFile::new().unwrap();
    let mut builder = tar::Builder::new(GzEncoder::new(archive.reopen().unwrap(), Compression::fast()));
    for (path, kind) in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_size(0);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        builder.append_data(&mut header, path, std::io::empty()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap().flush().unwrap();
    archive
}

const NPM_FILES: &[(&str, EntryType)] = &[
    ("package/bin/npm-cli.js", EntryType::Regular),
    ("package/bin/npx-cli.js", EntryType::Regular),
    ("package/docs/npm.html", EntryType::Regular),
    ("package/lib/a/b.js", EntryType::Regular),
];

fn tree(status: &str) -> Tree {
    let mut tree = Tree::default();
    for directory in ["etc", "var/lib/dpkg", "var/log/apt", "var/cache/ldconfig"] {
        tree.make_directories(directory, EPOCH);
    }
    tree.put("etc/passwd", file("root:*:0:0:root:/root:/bin/bash\n"));
    tree.put("etc/group", file("root:*:0:\n"));
    tree.put("etc/resolv.conf", file("nameserver 192.0.2.1\n"));
    tree.put("var/lib/dpkg/status", file(status));
    tree.put("var/log/apt/history.log", file("when"));
    tree.put("var/cache/ldconfig/aux-cache", file("inodes"));
    tree
}

#[test]
fn traces_of_the_build_do_not_stay() {
    for path in [
        "dev/null",
        "proc/1",
        "run/lock",
        "tmp/x",
        "etc/machine-id",
        "etc/apt/sources.list",
        "var/lib/dpkg/status-old",
        "usr/share/man/man1/ls.1.gz",
        "usr/share/locale/de",
        "usr/share/doc/git/README",
        "usr/share/doc/git/contrib/copyright",
    ] {
        assert!(!keep(path), "{path}");
    }
    for path in [
        "",
        "dev",
        "tmp",
        "device",
        "usr/share/man",
        "usr/share/doc/git",
        "usr/share/doc/git/copyright",
        "var/lib/dpkg/status",
        "etc/ssl/certs/ca-certificates.crt",
    ] {
        assert!(keep(path), "{path}");
    }
}

#[test]
fn the_image_gets_its_user_and_tools_and_loses_logs() {
    let packages = [("bash", "5.3-4"), ("git", "1:2")];
    let mut tree = tree(&status(&packages));
    complete(&mut tree, &lock(&packages), npm(NPM_FILES).path()).unwrap();
    tree.settle(EPOCH).unwrap();
    let text = |path: &str| String::from_utf8(tree.contents(path).unwrap().unwrap()).unwrap();
    assert_eq!(text("etc/passwd").lines().last(), Some("hotcell:*:1000:1000:hotcell:/home/hotcell:/bin/bash"));
    assert_eq!(text("etc/group").lines().last(), Some("hotcell:*:1000:"));
    assert_eq!(text("etc/resolv.conf"), "", "the build machine's name server is nobody's business");
    let paths: Vec<&str> = tree.iter().map(|(path, _)| path).collect();
    for path in ["var/log/apt", "var/cache/ldconfig", "usr/local/bin/npm", "usr/local/lib/node_modules/npm/lib/a/b.js"]
    {
        assert!(paths.contains(&path), "{path}");
    }
    for path in
        ["var/log/apt/history.log", "var/cache/ldconfig/aux-cache", "usr/local/lib/node_modules/npm/docs/npm.html"]
    {
        assert!(!paths.contains(&path), "{path}");
    }
    let (_, home) = tree.iter().find(|(path, _)| *path == "home/hotcell").unwrap();
    assert_eq!((home.uid, home.gid, home.mode), (1000, 1000, 0o755));
}

#[test]
fn other_packages_than_the_locked_ones_are_refused() {
    let locked = lock(&[("bash", "5.3-4"), ("git", "1:2")]);
    let half = status(&[("bash", "5.3-4"), ("git", "1:2")]).replacen("ok installed", "ok unpacked", 1);
    for (status, why) in [
        (status(&[("bash", "5.3-4")]), "git 1:2 is not installed"),
        (status(&[("bash", "5.3-5"), ("git", "1:2")]), "bash 5.3-4 is not installed"),
        (status(&[("bash", "5.3-4"), ("git", "1:2"), ("more", "1")]), "more 1 is not locked"),
        (half, "`bash` is `install ok unpacked`"),
    ] {
        let error = complete(&mut tree(&status), &locked, npm(NPM_FILES).path()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_archive_that_is_no_npm_is_refused() {
    for (files, why) in
        [(&NPM_FILES[1..], "it has no npm"), (&[("package/x", EntryType::Symlink)][..], "`x` is no file")]
    {
        let packages = [("bash", "5.3-4")];
        let error =
            complete(&mut tree(&status(&packages)), &lock(&packages), npm(files).path()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
