//! What a box sees of the host, and what it can do to what it sees.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use hotcell::policy::BoxUser;
use hotcell::{CreateError, EngineError, Policy, SpawnError};

/// Prints what each path given as an argument holds, or the name of the error.
const READ_EACH: &str = r"
import sys, errno
for path in sys.argv[1:]:
    try:
        print(path, open(path).read(200).strip())
    except OSError as error:
        print(path, errno.errorcode[error.errno])
";

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[tokio::test]
async fn no_secret_of_the_host_is_in_reach() {
    let Some(engine) = engine("no_secret_of_the_host_is_in_reach").await else { return };
    let canary = format!("CANARY-{}", marker());
    let place = Place::new();
    let secret = place.file("secret", &canary);
    // Also where secrets usually are, if this user has such a place.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    let in_home = home.and_then(|home| tempfile::NamedTempFile::new_in(home).ok());
    let mut paths = vec![secret.clone(), "/etc/shadow".into(), "/proc/1/environ".into(), "/etc/machine-id".into()];
    paths.extend(std::env::current_exe());
    paths.push(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
    if let Some(file) = &in_home {
        fs::write(file.path(), &canary).unwrap();
        paths.push(file.path().to_owned());
    }
    let output = engine.run(python(READ_EACH).args(&paths)).await.unwrap();
    for line in lines(&stdout(&output)) {
        assert!(line.ends_with(" ENOENT") || line.ends_with(" EACCES"), "{line}");
    }
    // Nor under any other name; /usr is the system's own, /proc the kernel's.
    let search =
        format!("find / \\( -path /usr -o -path /proc \\) -prune -o -type f -exec grep -D skip -l {canary} {{}} +");
    assert_eq!(text(&engine.run(sh(&search)).await.unwrap().stdout), "");
    // Both probes find it where it is granted.
    let granted = Policy::builder().read(&secret).build().unwrap();
    let output = engine.run_with(&granted, python(READ_EACH).arg(&secret)).await.unwrap();
    assert_eq!(stdout(&output), format!("{} {canary}\n", secret.display()));
    let output = engine.run_with(&granted, sh(&search)).await.unwrap();
    assert_eq!(text(&output.stdout), format!("{}\n", secret.display()));
}

#[tokio::test]
async fn only_what_is_listed_is_there() {
    let Some(engine) = engine("only_what_is_listed_is_there").await else { return };
    let output = engine.run(sh("ls -A / /home /root /run /var /tmp")).await.unwrap();
    let listed = stdout(&output);
    let mut directories = listed.split("\n\n").map(|part| part.split_once(':').unwrap());
    let (_, root) = directories.next().unwrap();
    let allowed = [
        ".hotcell", "bin", "dev", "etc", "gnu", "home", "lib", "lib32", "lib64", "libx32", "nix", "proc", "root",
        "run", "sbin", "tmp", "usr", "var",
    ];
    for name in root.trim().lines() {
        assert!(allowed.contains(&name), "{name} in /");
    }
    let rest: Vec<(&str, Vec<&str>)> = directories.map(|(name, entries)| (name, lines(entries.trim()))).collect();
    let expected =
        [("/home", vec!["hotcell"]), ("/root", vec![]), ("/run", vec![]), ("/tmp", vec![]), ("/var", vec!["tmp"])];
    assert_eq!(rest, expected);
    // What is beside a granted file is not granted.
    let place = Place::new();
    let shown = place.file("shown/file", "x");
    place.file("shown/beside", "x");
    place.file("other/file", "x");
    let policy = Policy::builder().read(&shown).build().unwrap();
    let output =
        engine.run_with(&policy, sh(&format!("cd {} && find . -type f", place.path().display()))).await.unwrap();
    assert_eq!(stdout(&output), "./shown/file\n");
}

/// Tries to change a file in every way there is, and prints which ways worked.
const CHANGE: &str = r"
import os, sys
top = sys.argv[1]
file, directory = top + '/file', top + '/directory'
def append(): os.close(os.open(file, os.O_WRONLY | os.O_APPEND))
def truncate(): os.truncate(file, 0)
def open_truncating(): os.close(os.open(file, os.O_RDONLY | os.O_TRUNC))
def set_mode(): os.chmod(file, 0o777)
def set_mode_by_descriptor(): os.fchmod(os.open(file, os.O_RDONLY), 0o777)
def set_times(): os.utime(file, (1, 1))
def set_attribute(): os.setxattr(file, 'user.hotcell', b'1')
def set_owner(): os.chown(file, os.getuid(), os.getgid())
def link(): os.link(file, top + '/link')
def link_away(): os.link(file, '/tmp/link-of-%d' % os.getpid()); os.unlink('/tmp/link-of-%d' % os.getpid())
def rename(): os.rename(file, top + '/renamed'); os.rename(top + '/renamed', file)
def create(): os.close(os.open(top + '/new', os.O_WRONLY | os.O_CREAT))
def make_directory(): os.mkdir(top + '/new-directory')
def make_symlink(): os.symlink('x', top + '/new-symlink')
def make_fifo(): os.mkfifo(top + '/new-fifo')
def unnamed_file(): os.close(os.open(top, os.O_WRONLY | os.O_TMPFILE))
def through_proc(): os.close(os.open('/proc/self/fd/%d' % os.open(file, os.O_RDONLY), os.O_WRONLY))
def remove(): os.unlink(top + '/victim')
def remove_directory(): os.rmdir(directory)
for way in [append, truncate, open_truncating, set_mode, set_mode_by_descriptor, set_times, set_attribute, set_owner, link,
            link_away, rename, create, make_directory, make_symlink, make_fifo, unnamed_file, through_proc, remove,
            remove_directory]:
    try:
        way()
        print(way.__name__)
    except OSError:
        pass
";
const WAYS: usize = 19;

fn changeable(place: &Place, name: &str) -> PathBuf {
    place.file(&format!("{name}/file"), "content");
    place.file(&format!("{name}/victim"), "content");
    place.dir(&format!("{name}/directory"));
    // Root's box is nobody on the host: let no mode be what stops it.
    let path = place.join(name);
    for entry in [path.clone(), path.join("file"), path.join("victim"), path.join("directory")] {
        fs::set_permissions(entry, fs::Permissions::from_mode(0o777)).unwrap();
    }
    path
}

/// Everything about the files of a directory that a change could change, but for the time of reading.
fn fingerprint(path: &Path) -> Vec<String> {
    let mut all: Vec<String> = [path.to_owned()]
        .into_iter()
        .chain(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()))
        .map(|path| {
            let data = fs::symlink_metadata(&path).unwrap();
            let attributes = python_outside(&format!("import os; print(os.listxattr({path:?}))"));
            let content = fs::read(&path).unwrap_or_default();
            let times = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
            format!(
                "{path:?} {:o} {} {} {} {times:?} {attributes} {content:?}",
                data.mode(),
                data.nlink(),
                data.uid(),
                data.len()
            )
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn what_is_readable_cannot_be_changed() {
    let Some(engine) = engine("what_is_readable_cannot_be_changed").await else { return };
    let place = Place::new();
    let control = changeable(&place, "control");
    let outside = python_outside(&CHANGE.replace("sys.argv[1]", &format!("{control:?}")));
    // Linking to another file system fails for its own reasons.
    assert!(lines(&outside).len() >= WAYS - 2, "the probe cannot change anything: {outside}");

    let tree = changeable(&place, "tree");
    let before = fingerprint(&tree);
    let policy = Policy::builder().read(&tree).build().unwrap();
    let output = engine.run_with(&policy, python(CHANGE).arg(&tree)).await.unwrap();
    assert_eq!(stdout(&output), "", "these went through");
    assert_eq!(fingerprint(&tree), before);

    // Root inside the box is root of nothing.
    let policy = Policy::builder().read(&tree).user(BoxUser::ROOT).build().unwrap();
    let output = engine.run_with(&policy, python(CHANGE).arg(&tree)).await.unwrap();
    assert_eq!(stdout(&output), "", "these went through as root inside");
    assert_eq!(fingerprint(&tree), before);

    // The system's own directories, and the box's own root.
    let probe = "for d in /usr /etc /dev /proc / /usr/bin /sys /run /var /home; do touch $d/hotcell-was-here && echo $d; done; \
                 echo x >> /etc/passwd && echo passwd; echo x > /usr/bin/env && echo env; chmod 777 /etc && echo mode; exit 0";
    assert_eq!(stdout(&engine.run(sh(probe)).await.unwrap()), "");
}

#[tokio::test]
async fn what_is_writable_is_written_as_its_owner() {
    let Some(engine) = engine("what_is_writable_is_written_as_its_owner").await else { return };
    let place = Place::new();
    let tree = changeable(&place, "tree");
    if is_root() {
        std::os::unix::fs::chown(&tree, Some(4242), Some(4343)).unwrap();
    }
    let policy = Policy::builder().write(&tree).cwd(&tree).build().unwrap();
    let output = engine
        .run_with(&policy, sh("echo made > made && mkdir sub && echo deep > sub/deep && stat -c %u made"))
        .await
        .unwrap();
    assert_eq!(stdout(&output), "1000\n");
    assert_eq!(fs::read_to_string(tree.join("made")).unwrap(), "made\n");
    let owner = fs::metadata(&tree).unwrap();
    for name in ["made", "sub", "sub/deep"] {
        let data = fs::metadata(tree.join(name)).unwrap();
        assert_eq!((data.uid(), data.gid()), (owner.uid(), owner.gid()), "{name}");
    }
    // One file can be writable in a directory that is not.
    let policy = Policy::builder().read(&tree).write(tree.join("made")).cwd(&tree).build().unwrap();
    let output = engine.run_with(&policy, sh("echo again > made; rm -f made; touch file; cat made")).await.unwrap();
    assert_eq!(text(&output.stdout), "again\n");
    assert_eq!(fs::read_to_string(tree.join("made")).unwrap(), "again\n");
    assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "content");
}

#[tokio::test]
async fn what_is_denied_is_hidden() {
    let Some(engine) = engine("what_is_denied_is_hidden").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let secrets = [place.file("tree/secret", "CANARY"), place.file("tree/private/key", "CANARY")];
    place.file("tree/plain", "plain");
    for (kind, builder) in [("read", Policy::builder().read(&tree)), ("write", Policy::builder().write(&tree))] {
        let policy =
            builder.deny(&secrets[0]).deny(tree.join("private")).deny(tree.join("later")).cwd(&tree).build().unwrap();
        let probe = "cat plain; cat secret private/key; ls private; ls -l secret; \
                     echo x > secret; echo x > later; mkdir later; echo x > private/key; rm -rf secret private later; \
                     mv secret moved; mv private moved; ln secret linked; chmod 777 private secret; cat secret private/key";
        let output = engine.run_with(&policy, sh(probe)).await.unwrap();
        let seen = text(&output.stdout);
        assert!(seen.starts_with("plain") && !seen.contains("CANARY") && !seen.contains("key"), "{kind}: {seen}");
        for secret in &secrets {
            assert_eq!(fs::read_to_string(secret).unwrap(), "CANARY", "{kind}");
        }
        assert!(!tree.join("later").exists(), "{kind}");
        assert_eq!(
            place.listing(),
            ["tree", "tree/plain", "tree/private", "tree/private/key", "tree/secret"],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn nothing_takes_the_place_of_what_is_denied_or_read_only() {
    let Some(engine) = engine("nothing_takes_the_place_of_what_is_denied_or_read_only").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let denied = place.file("tree/a/denied", "CANARY");
    let readable = place.file("tree/b/readable", "CANARY");
    let later = place.join("tree/c/d/later");
    place.dir("tree/c/d");
    let policy = Policy::builder().write(&tree).deny(&denied).read(&readable).deny(&later).cwd(&tree).build().unwrap();
    let probe = "for d in a b c c/d; do mv $d $d-moved; mkdir -p $d; done; \
                 echo planted > a/denied; echo planted > b/readable; echo planted > c/d/later; cat a*/denied b/readable";
    let output = engine.run_with(&policy, sh(probe)).await.unwrap();
    assert_eq!(text(&output.stdout), "CANARY", "only what is readable is read");
    assert_eq!(fs::read_to_string(&denied).unwrap(), "CANARY");
    assert_eq!(fs::read_to_string(&readable).unwrap(), "CANARY");
    assert!(!later.exists());
}

#[tokio::test]
async fn a_link_is_no_way_around_a_denial() {
    let Some(engine) = engine("a_link_is_no_way_around_a_denial").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let secret = place.file("tree/secret", "CANARY");
    let link = place.join("link");
    symlink(&tree, &link).unwrap();
    let shown_by_link = Policy::builder().read(&link).deny(&secret).build().unwrap();
    let denied_by_link = Policy::builder().read(&tree).deny(link.join("secret")).build().unwrap();
    for (name, policy) in [("shown by a link", shown_by_link), ("denied by a link", denied_by_link)] {
        let probe = format!("cat {0}/link/secret {0}/tree/secret", place.path().display());
        match engine.run_with(&policy, sh(&probe)).await {
            Ok(output) => assert_eq!(text(&output.stdout), "", "{name}"),
            // To refuse is as good as to hold.
            Err(EngineError::Create(CreateError::Path { .. })) => {}
            Err(other) => panic!("{name}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_rule_whose_path_became_a_link_is_refused() {
    let Some(engine) = engine("a_rule_whose_path_became_a_link_is_refused").await else { return };
    let place = Place::new();
    let (tree, below) = (place.dir("work/tree"), place.dir("work/tree/below"));
    place.file("elsewhere/below/secret", "CANARY");
    let rules = [
        Policy::builder().read(&tree),
        Policy::builder().write(&tree),
        Policy::builder().overlay(&tree),
        Policy::builder().read(&below),
        Policy::builder().read(below.join("secret")),
    ];
    let policies = rules.map(|rules| rules.build().unwrap());
    // What a box that may write `work` does between two runs.
    fs::remove_dir_all(&tree).unwrap();
    symlink(place.join("elsewhere"), &tree).unwrap();
    for policy in &policies {
        match engine.create(policy).await {
            Err(EngineError::Create(error @ CreateError::Path { .. })) => {
                let text = error.to_string();
                assert!(text.contains("link") && text.contains("elsewhere"), "{text}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a box was made where a link led: {:?}", policy.filesystem.rules),
        }
    }
    // The real path is fine.
    let policy = Policy::builder().read(place.join("elsewhere")).build().unwrap();
    let probe = format!("cat {}/elsewhere/below/secret", place.path().display());
    assert_eq!(stdout(&engine.run_with(&policy, sh(&probe)).await.unwrap()), "CANARY");
}

#[tokio::test]
async fn the_most_specific_rule_wins() {
    let Some(engine) = engine("the_most_specific_rule_wins").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    for name in
        ["top", "writable/file", "writable/frozen/file", "hidden/file", "hidden/deep/shown/file", "hidden/deep/secret"]
    {
        place.file(&format!("tree/{name}"), "old");
    }
    let policy = Policy::builder()
        .read(&tree)
        .write(tree.join("writable"))
        .read(tree.join("writable/frozen"))
        .deny(tree.join("hidden"))
        .write(tree.join("hidden/deep/shown"))
        .cwd(&tree)
        .build()
        .unwrap();
    let probe = "for f in $(echo top writable/file writable/frozen/file hidden/file hidden/deep/shown/file hidden/deep/secret); do \
                 cat $f >/dev/null && r=r || r=-; echo new > $f && w=w || w=-; echo $f $r$w; done; ls hidden hidden/deep";
    let output = engine.run_with(&policy, sh(probe)).await.unwrap();
    let expected = "top r-\nwritable/file rw\nwritable/frozen/file r-\nhidden/file --\nhidden/deep/shown/file rw\nhidden/deep/secret --\n";
    let seen = text(&output.stdout);
    assert!(seen.starts_with(expected), "{seen}");
    assert!(!seen[expected.len()..].contains("secret"), "{seen}");
    for (name, content) in [
        ("top", "old"),
        ("writable/file", "new\n"),
        ("writable/frozen/file", "old"),
        ("hidden/file", "old"),
        ("hidden/deep/shown/file", "new\n"),
        ("hidden/deep/secret", "old"),
    ] {
        assert_eq!(fs::read_to_string(tree.join(name)).unwrap(), content, "{name}");
    }
}

#[tokio::test]
async fn scratch_space_is_private_to_a_box() {
    let Some(engine) = engine("scratch_space_is_private_to_a_box").await else { return };
    let first = engine.create(&Policy::default()).await.unwrap();
    let places = "/tmp /var/tmp /dev/shm /home/hotcell";
    let write = format!("for d in {places}; do echo mine > $d/hotcell-scratch && cat $d/hotcell-scratch; done");
    assert_eq!(stdout(&run_in(&*first, sh(&write)).await), "mine\nmine\nmine\nmine\n");
    // The same box keeps it, the host and another box do not see it.
    let look = format!("for d in {places}; do ls -A $d; done");
    assert_eq!(lines(&stdout(&run_in(&*first, sh(&look)).await)), ["hotcell-scratch"; 4]);
    let second = engine.create(&Policy::default()).await.unwrap();
    assert_eq!(stdout(&run_in(&*second, sh(&look)).await), "");
    assert!(["/tmp", "/var/tmp", "/dev/shm"].iter().all(|place| !Path::new(place).join("hotcell-scratch").exists()));
}

/// Marks the run of this test program that was started with secrets in its environment and open descriptors.
const SURROUNDED: &str = "HOTCELL_TEST_SURROUNDED";

/// Runs one test of this program again, surrounded by what must not get into a box.
fn run_surrounded(test: &str) {
    let place = Place::new();
    let secret = place.file("secret", "CANARY");
    let program = std::env::current_exe().unwrap();
    let status = Command::new("/bin/sh")
        .args(["-c", "exec 6<\"$1\" 7<\"${1%/*}\" 8>/dev/null 9<\"$1\"; shift; exec \"$@\"", "sh"])
        .arg(secret)
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .envs(
            std::env::vars_os()
                .filter(|(name, _)| name == "HOTCELL_TEST_SKIP_LOG" || name == "HOME" || name == "TMPDIR"),
        )
        .env(SURROUNDED, "1")
        .env("LANG", "C.UTF-8")
        .env("AWS_SECRET_ACCESS_KEY", "CANARY")
        .env("SSH_AUTH_SOCK", "/CANARY")
        .env("BASH_ENV", "/CANARY")
        .env("PYTHONPATH", "/CANARY")
        .env("PASSED", "this one is asked for")
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(String::from_utf8_lossy(&status.stdout).contains("1 passed"), "no test is called {test}");
}

#[tokio::test]
async fn exactly_three_descriptors_are_open() {
    if std::env::var_os(SURROUNDED).is_none() {
        return run_surrounded("exactly_three_descriptors_are_open");
    }
    let Some(engine) = engine("exactly_three_descriptors_are_open").await else { return };
    assert!(fs::read_to_string("/proc/self/fd/9").is_ok_and(|text| text == "CANARY"), "nothing here to inherit");
    let sweep = "
import fcntl
found = []
for number in range(4096):
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
        found.append(number)
    except OSError:
        pass
print(found)";
    let place = Place::new();
    let policy = Policy::builder().write(place.path()).overlay(place.dir("overlay")).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stdout(&run_in(&*sandbox, python(sweep)).await), "[0, 1, 2]\n");
    }
    // The sweep sees what is there to be seen.
    let output = run_in(&*sandbox, sh(&format!("exec 9</dev/null; exec {PYTHON} -I -c '{sweep}'"))).await;
    assert_eq!(stdout(&output), "[0, 1, 2, 9]\n");
}

#[tokio::test]
async fn the_environment_is_an_allow_list() {
    if std::env::var_os(SURROUNDED).is_none() {
        return run_surrounded("the_environment_is_an_allow_list");
    }
    let Some(engine) = engine("the_environment_is_an_allow_list").await else { return };
    assert_eq!(std::env::var("AWS_SECRET_ACCESS_KEY").unwrap(), "CANARY");
    // What the kernel was given: interpreters and shells add variables of their own.
    let variables =
        |output| -> BTreeSet<String> { stdout(&output).split_terminator('\0').map(str::to_owned).collect() };
    let print = || hotcell::SpawnConfig::new("cat").arg("/proc/self/environ");
    let usual = [
        "HOME=/home/hotcell",
        "LANG=C.UTF-8",
        "LOGNAME=hotcell",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SHELL=/bin/sh",
        "TMPDIR=/tmp",
        "USER=hotcell",
    ];
    let usual: BTreeSet<String> = usual.map(str::to_owned).into();
    assert_eq!(variables(engine.run(print()).await.unwrap()), usual);

    let policy =
        Policy::builder().pass_env("PASSED").pass_env("NOT_SET").set_env("SET", "by the policy").build().unwrap();
    let output =
        engine.run_with(&policy, print().env("ADDED", "by the caller").env("SHELL", "/bin/other")).await.unwrap();
    let mut expected = usual;
    expected.remove("SHELL=/bin/sh");
    expected.extend(
        ["PASSED=this one is asked for", "SET=by the policy", "ADDED=by the caller", "SHELL=/bin/other"]
            .map(str::to_owned),
    );
    assert_eq!(variables(output), expected);
}

#[tokio::test]
async fn the_working_directory_is_inside_the_view() {
    let Some(engine) = engine("the_working_directory_is_inside_the_view").await else { return };
    let place = Place::new();
    let tree = place.dir("tree");
    let file = place.file("tree/file", "x");
    let hidden = place.dir("hidden");
    symlink(&hidden, tree.join("link")).unwrap();
    let pwd = || hotcell::SpawnConfig::new("/bin/pwd").arg("-P");
    assert_eq!(stdout(&engine.run(pwd()).await.unwrap()), "/home/hotcell\n");
    let policy = Policy::builder().read(&tree).cwd(&tree).build().unwrap();
    let sandbox = engine.create(&policy).await.unwrap();
    assert_eq!(stdout(&run_in(&*sandbox, pwd()).await), format!("{}\n", tree.display()));
    assert_eq!(stdout(&run_in(&*sandbox, pwd().cwd("/tmp")).await), "/tmp\n");
    let outside = [
        hidden.clone(),
        place.join("missing"),
        file,
        tree.join("link"),
        "relative".into(),
        "/proc/1/cwd".into(),
        "/proc/1/root".into(),
        "/.hotcell".into(),
    ];
    for path in outside {
        match sandbox.spawn(pwd().cwd(&path)).await {
            Err(SpawnError::BadCwd { path: named, .. }) => assert_eq!(named, path),
            Err(other) => panic!("{}: {other}", path.display()),
            Ok(_) => panic!("{} was entered", path.display()),
        }
    }
}

#[tokio::test]
async fn there_are_no_devices_but_the_harmless_ones() {
    let Some(engine) = engine("there_are_no_devices_but_the_harmless_ones").await else { return };
    let place = Place::new();
    let policy = Policy::builder().write(place.path()).cwd(place.path()).build().unwrap();
    let list = "
import os, stat
found = []
for top, directories, files in os.walk('/'):
    if top == '/': directories.remove('proc')
    for name in files + directories:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode): found.append(path)
print(*sorted(found))";
    assert_eq!(
        stdout(&engine.run_with(&policy, python(list)).await.unwrap()),
        "/dev/full /dev/null /dev/pts/ptmx /dev/random /dev/tty /dev/urandom /dev/zero\n"
    );
    let make = "
import os, stat
made = []
for where in ['.', '/tmp', '/dev', '/dev/shm']:
    for kind, number in [(stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFCHR, 0)]:
        try:
            os.mknod(where + '/node', kind | 0o666, number)
            made.append((where, kind, number))
        except OSError:
            pass
print(made)";
    assert_eq!(stdout(&engine.run_with(&policy, python(make)).await.unwrap()), "[]\n");
    if is_root() {
        let outside = python_outside(
            &format!("import os; os.chdir({:?}){make}", place.path()).replace("'/tmp', '/dev', '/dev/shm'", ""),
        );
        assert_ne!(outside, "[]\n", "the probe makes nothing anywhere");
    }
}

#[tokio::test]
async fn proc_shows_the_box_alone() {
    let Some(engine) = engine("proc_shows_the_box_alone").await else { return };
    let probe = r"
import os, errno
own = [int(name) for name in os.listdir('/proc') if name.isdigit()]
print('processes', sorted(own) == [1, os.getpid()], 'pid', os.getpid() < 10)
for name in ['mem', 'environ', 'root/', 'cwd/', 'exe', 'fd/', 'maps', 'task/1/mem', 'map_files/', 'io', 'syscall', 'stack', 'auxv']:
    path = '/proc/1/' + name
    try:
        print('reached', path, os.listdir(path) if path.endswith('/') else open(path, 'rb').read(1))
    except OSError as error:
        pass
for path in ['sys/kernel/core_pattern', 'sys/kernel/hostname', 'sys/vm/drop_caches', 'sysrq-trigger', 'sys/kernel/ns_last_pid',
             '1/oom_score_adj', 'self/oom_score_adj', 'self/comm', 'self/coredump_filter', 'self/uid_map', 'self/setgroups',
             'self/attr/current', 'self/timerslack_ns', 'self/clear_refs', 'irq/default_smp_affinity', 'mtrr', 'scsi/scsi']:
    try:
        os.close(os.open('/proc/' + path, os.O_WRONLY))
        print('writable', path)
    except OSError as error:
        pass
for path in ['kcore', 'kmsg', 'keys', 'key-users', 'timer_list', 'sched_debug', 'slabinfo', 'vmallocinfo', 'kpageflags', 'interrupts']:
    try:
        if open('/proc/' + path, 'rb').read(1): print('read', path)
    except OSError as error:
        pass
";
    let output = engine.run(python(probe)).await.unwrap();
    assert_eq!(stdout(&output), "processes True pid True\n");
    // The same for root inside, who owns process 1 like everybody else here.
    let policy = Policy::builder().user(BoxUser::ROOT).build().unwrap();
    assert_eq!(stdout(&engine.run_with(&policy, python(probe)).await.unwrap()), "processes True pid True\n");
    let outside = python_outside(&probe.replace("/proc/1/", "/proc/self/"));
    assert!(
        outside.contains("reached /proc/self/environ") && outside.contains("writable self/oom_score_adj"),
        "{outside}"
    );
}

/// Makes files with a set-user-ID or set-group-ID bit in every way there is.
const SET_USER_ID: &str = r"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
def fresh(name, mode=0o755):
    with open(name, 'wb') as file: file.write(b'#!/bin/sh\n')
    os.chmod(name, mode)
    return name.encode()
def name_it(file, name):
    # Python's own link() does not follow links.
    if libc.linkat(-100, b'/proc/self/fd/%d' % file, -100, name, 0x400): raise OSError
def chmod(): os.chmod(fresh('chmod'), 0o4755)
def chmod_all(): os.chmod(fresh('chmod_all'), 0o7777)
def chmod_high_bits():
    if libc.syscall(90, fresh('chmod_high_bits'), ctypes.c_ulong(0xffffffff00004000 | 0o4755)): raise OSError
def fchmod(): os.fchmod(os.open(fresh('fchmod'), os.O_RDONLY), 0o4755)
def fchmodat(): os.chmod(fresh('fchmodat').decode(), 0o4755, dir_fd=os.open('.', os.O_RDONLY))
def fchmodat2():
    if libc.syscall(452, -100, fresh('fchmodat2'), 0o4755, 0): raise OSError
def created_then_written():
    file = os.open('created_then_written', os.O_CREAT | os.O_RDWR, 0o4755)
    os.write(file, b'#!/bin/sh\n')
def created_then_mapped():
    import mmap
    file = os.open('created_then_mapped', os.O_CREAT | os.O_RDWR, 0o4755)
    os.ftruncate(file, 4096)
    mmap.mmap(file, 4096)[:] = b'#' * 4096
def created_then_spliced():
    file = os.open('created_then_spliced', os.O_CREAT | os.O_RDWR, 0o4755)
    ends = os.pipe()
    os.write(ends[1], b'#!/bin/sh\n')
    os.splice(ends[0], file, 10)
def created_then_copied():
    file = os.open('created_then_copied', os.O_CREAT | os.O_RDWR, 0o4755)
    os.copy_file_range(os.open(fresh('copied_from'), os.O_RDONLY), file, 10)
def created_then_allocated():
    os.posix_fallocate(os.open('created_then_allocated', os.O_CREAT | os.O_RDWR, 0o4755), 0, 4096)
def openat2_then_written():
    how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, 0o4755, 0)
    file = libc.syscall(437, -100, b'openat2_then_written', how, 24)
    if file < 0: raise OSError
    os.write(file, b'#!/bin/sh\n')
def unnamed_then_linked():
    file = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)
    os.write(file, b'#!/bin/sh\n')
    name_it(file, b'unnamed_then_linked')
def made_as_a_node():
    os.mknod('made_as_a_node', 0o104755)
    os.close(os.open('made_as_a_node', os.O_WRONLY | os.O_TRUNC))
    with open('made_as_a_node', 'wb') as file: file.write(b'#!/bin/sh\n')
def allow_group_by_list(name):
    entries = [(1, 7), (4, 5), (32, 5)]
    access = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', kind, rights, 0xffffffff) for kind, rights in entries)
    os.setxattr(name, 'system.posix_acl_access', access)
def group_by_list():
    # The bit outlives the write, as the group may not execute the file; then an access list lets it.
    file = os.open('group_by_list', os.O_CREAT | os.O_RDWR, 0o2745)
    os.write(file, b'#!/bin/sh\n')
    allow_group_by_list('group_by_list')
def openat2_group_by_list():
    how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, 0o2745, 0)
    file = libc.syscall(437, -100, b'openat2_group_by_list', how, 24)
    if file < 0: raise OSError
    os.write(file, b'#!/bin/sh\n')
    allow_group_by_list('openat2_group_by_list')
def node_group_by_list():
    os.mknod('node_group_by_list', 0o102745)
    with open('node_group_by_list', 'wb') as file: file.write(b'#!/bin/sh\n')
    allow_group_by_list('node_group_by_list')
def unnamed_group_by_list():
    file = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o2745)
    os.write(file, b'#!/bin/sh\n')
    allow_group_by_list('/proc/self/fd/%d' % file)
    name_it(file, b'unnamed_group_by_list')
for way in [group_by_list, openat2_group_by_list, node_group_by_list, unnamed_group_by_list, chmod, chmod_all, chmod_high_bits, fchmod, fchmodat, fchmodat2, created_then_written, created_then_mapped,
            created_then_spliced, created_then_copied, created_then_allocated, openat2_then_written, unnamed_then_linked, made_as_a_node]:
    try: way()
    except OSError: pass
";

/// The files of a directory that have content and a set-ID bit.
fn set_user_id_files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let set = entries.filter(|entry| {
        let data = entry.metadata().unwrap();
        data.is_file() && data.mode() & 0o6000 != 0 && data.len() > 0
    });
    set.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn no_program_that_runs_as_its_owner_can_be_made() {
    let Some(engine) = engine("no_program_that_runs_as_its_owner_can_be_made").await else { return };
    let place = Place::new();
    let outside = place.dir("outside");
    python_outside(&format!("import os; os.chdir({outside:?}){SET_USER_ID}"));
    let made = set_user_id_files(&outside);
    assert!(made.len() >= 5, "the probe makes nothing");
    assert_eq!(made.iter().filter(|name| name.ends_with("group_by_list")).count(), 4, "{made:?}");
    let inside = place.dir("inside");
    for user in [BoxUser::HOTCELL, BoxUser::ROOT] {
        let policy = Policy::builder().write(&inside).cwd(&inside).user(user).build().unwrap();
        let output = engine.run_with(&policy, python(SET_USER_ID)).await.unwrap();
        assert!(output.status().success(), "{}", text(&output.stderr));
        assert!(fs::read_dir(&inside).unwrap().count() > 5, "the probe did not run");
        assert_eq!(set_user_id_files(&inside), Vec::<String>::new());
        // A program that is one already runs as the box's user all the same.
        let output =
            engine.run_with(&policy, sh("ls -l /usr/bin/su >&2; grep -h ^NoNewPrivs /proc/self/status")).await.unwrap();
        assert_eq!(stdout(&output), "NoNewPrivs:\t1\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_every_box_sees_can_be_denied_too() {
    let Some(engine) = engine("what_every_box_sees_can_be_denied_too").await else { return };
    let look = "ls /etc/ssl /usr/share >/dev/null 2>&1 && echo seen; exit 0";
    let shown = engine.run_with(&Policy::default(), sh(look)).await.unwrap();
    assert_eq!(stdout(&shown), "seen\n", "nothing to deny here");
    for denied in ["/etc/ssl", "/usr/share", "/etc"] {
        let policy = Policy::builder().deny(denied).build().unwrap();
        let hidden = engine.run_with(&policy, sh(look)).await.unwrap();
        assert_eq!(stdout(&hidden), "", "{denied}");
    }
}
