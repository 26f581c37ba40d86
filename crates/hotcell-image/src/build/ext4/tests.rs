//! A small tree goes into a file system and comes out the same, twice.

use tempfile::TempDir;

use super::super::programs::TAR2SQFS;
use super::super::squashfs::export_squashfs;
use super::super::testing::have;
use super::super::tree::{Data, Entry};
use super::*;

const EPOCH: u64 = 1_700_000_000;

fn archive(directory: &Path) -> std::path::PathBuf {
    let mut tree = Tree::default();
    tree.make_directories("home/hotcell", EPOCH - 5);
    tree.make_directories("usr/share/a name with spaces", EPOCH - 6);
    let file = |text: &str, mode| Entry::new(Kind::File(Data::Memory(text.as_bytes().to_vec())), mode, EPOCH - 7);
    tree.put("home/hotcell", Entry { uid: 1000, gid: 1000, ..Entry::new(Kind::Directory, 0o750, EPOCH - 5) });
    tree.put("usr/perl", file("perl", 0o755));
    tree.put("usr/perl5", Entry::new(Kind::HardLink("usr/perl".into()), 0o755, EPOCH - 7));
    tree.put("usr/share/a name with spaces/large", file(&"0123456789abcdef".repeat(20_000), 0o600));
    tree.put("usr/share/empty", file("", 0o644));
    tree.put("bin", Entry::new(Kind::Symlink("usr/../usr".into()), 0o777, EPOCH));
    tree.put("long", Entry::new(Kind::Symlink("x/".repeat(100)), 0o777, EPOCH));
    for number in 0..600 {
        tree.put(&format!("usr/share/one of many names in a directory {number}"), file("", 0o644));
    }
    tree.settle(EPOCH).unwrap();
    let path = directory.join("tree.tar");
    tree.write(File::create(&path).unwrap()).unwrap();
    path
}

fn ask(file: &Path, request: &str) -> String {
    let finished = DEBUGFS.run("ask", DEBUGFS.command().unwrap().args(["-R", request]).arg(file)).unwrap();
    finished.stdout
}

#[test]
fn an_ext4_has_what_the_archive_has() {
    if !have("an_ext4_has_what_the_archive_has", &[MKE2FS, DEBUGFS, E2FSCK]) {
        return;
    }
    let directory = TempDir::new().unwrap();
    let tar = archive(directory.path());
    let output = directory.path().join("fs");
    export_ext4(&tar, &output).unwrap();
    for (path, expected) in [
        ("/home/hotcell", &["Type: directory", "Mode:  0750", "User:  1000   Group:  1000"][..]),
        ("/usr/perl", &["Type: regular", "Mode:  0755", "User:     0", "Links: 2", "Size: 4"]),
        ("/usr/perl5", &["Type: regular", "Links: 2", "Size: 4"]),
        ("/bin", &["Type: symlink", "Fast link dest: \"usr/../usr\""]),
        ("/long", &["Type: symlink", "Size: 200"]),
        ("/usr/share", &["Type: directory", "Mode:  0755"]),
    ] {
        let found = ask(&output, &format!("stat \"{path}\""));
        for text in expected {
            assert!(found.contains(text), "{path}: no `{text}` in\n{found}");
        }
        let mtime = found.lines().find(|line| line.trim_start().starts_with("mtime:")).unwrap();
        assert!(mtime.contains("Nov 14 22:13:"), "{path}: {mtime}");
    }
    let large = ask(&output, "cat \"/usr/share/a name with spaces/large\"");
    assert_eq!(large.len(), 320_000);
    assert!(ask(&output, "ls -p /usr/share").contains("one of many names in a directory 599"));
}

#[test]
fn two_exports_are_the_same() {
    if !have("two_exports_are_the_same", &[MKE2FS, DEBUGFS, E2FSCK, TAR2SQFS]) {
        return;
    }
    let directory = TempDir::new().unwrap();
    let tar = archive(directory.path());
    let [one, two] = ["one", "two"].map(|name| directory.path().join(name));
    for export in [export_ext4, export_squashfs] {
        export(&tar, &one).unwrap();
        // Times are whole seconds in both kinds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        export(&tar, &two).unwrap();
        assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    }
}

#[test]
fn a_name_that_debugfs_would_misread_is_refused() {
    let directory = TempDir::new().unwrap();
    let mut tree = Tree::default();
    tree.put("a\" b", Entry::new(Kind::Directory, 0o755, EPOCH));
    tree.settle(EPOCH).unwrap();
    let tar = directory.path().join("tree.tar");
    tree.write(File::create(&tar).unwrap()).unwrap();
    let error = export_ext4(&tar, &directory.path().join("fs")).unwrap_err().to_string();
    assert!(error.contains("debugfs cannot write the name"), "{error}");
    assert!(!directory.path().join("fs").exists());
}
