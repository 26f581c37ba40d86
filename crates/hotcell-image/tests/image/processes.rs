//! Several processes with one store, and processes that are killed.
//!
//! The others are this test program itself, started again to run the test `child` alone, with its orders in the environment.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hotcell_image::{ImageConfig, Store, silent};

use crate::archives::{Parts, architecture, tar_of};
use crate::layers::{Layer, names};

const ORDERS: &str = "HOTCELL_TEST_IMAGE_CHILD";

/// Another process. It ends with the test, also with one that fails.
struct Other(Child);

impl Other {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(orders: &str, store: &Path, source: &Path) -> Other {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::child", "--nocapture", "--test-threads=1"]);
    command.env(ORDERS, orders).env("STORE", store).env("SOURCE", source);
    Other(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Not a test of its own: what the other processes do.
#[test]
fn child() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let variable = |name| std::path::PathBuf::from(std::env::var_os(name).unwrap());
    let store = Store::open(Some(variable("STORE"))).unwrap();
    match orders.as_str() {
        "import" => {
            let image = store.import(&variable("SOURCE"), Some("a:b"), &mut silent).unwrap();
            let rootfs = store.rootfs(&image).unwrap();
            assert_eq!(fs::read_to_string(rootfs.path().join("last")).unwrap(), "last");
        }
        "use" => {
            let image = store.find("a:b").unwrap();
            let _rootfs = store.rootfs(&image).unwrap();
            fs::write(variable("SOURCE"), "").unwrap();
            thread::sleep(Duration::from_secs(60));
        }
        "add slowly" => {
            store.add_rootfs_tar(Slow, ImageConfig::default(), "slow").unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Some bytes, and then nothing for a long time.
struct Slow;

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        thread::sleep(Duration::from_millis(5));
        buffer.fill(b'x');
        Ok(buffer.len().min(1000))
    }
}

/// An image that takes a moment to unpack.
fn large() -> Vec<u8> {
    let layer =
        (0..1500).fold(Layer::new(), |layer, number| layer.file(&format!("d/{}/{number}", number % 40), "content"));
    tar_of(&Parts::of(&[layer.file("last", "last").tar()], architecture()).named_layout("a:b"))
}

fn wait_until(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(60), "it never happened");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn processes_that_import_and_unpack_the_same_image_share_it() {
    let place = tempfile::tempdir().unwrap();
    let (store, source) = (place.path().join("store"), place.path().join("archive"));
    fs::write(&source, large()).unwrap();
    let children: Vec<Other> = (0..4).map(|_| start("import", &store, &source)).collect();
    for mut child in children {
        assert!(child.0.wait().unwrap().success());
    }
    let store = Store::open(Some(store)).unwrap();
    let unpacked = names(&store.place().join("rootfs")).into_iter().filter(|name| name.len() == 64).count();
    assert_eq!((unpacked, names(&store.place().join("temporary")).len()), (1, 0));
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn what_another_process_uses_is_not_removed() {
    let place = tempfile::tempdir().unwrap();
    let (path, source) = (place.path().join("store"), place.path().join("archive"));
    fs::write(&source, large()).unwrap();
    let store = Store::open(Some(path.clone())).unwrap();
    store.import(&source, None, &mut silent).unwrap();
    let sign = place.path().join("sign");
    let mut child = start("use", &path, &sign);
    wait_until(|| sign.exists());
    store.remove("a:b").unwrap();
    assert_eq!(store.prune(None).unwrap().rootfs, 0);
    // The lock ends with the process, however that ends.
    child.kill();
    assert_eq!(store.prune(None).unwrap().rootfs, 1);
}

#[test]
fn a_process_that_is_killed_while_adding_is_no_trouble_for_the_next() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let store = Store::open(Some(path.clone())).unwrap();
    let mut child = start("add slowly", &path, Path::new(""));
    let temporary = path.join("temporary");
    wait_until(|| {
        fs::read_dir(&temporary).unwrap().any(|entry| entry.unwrap().metadata().is_ok_and(|status| status.len() > 0))
    });
    // While it lives, its file is its own.
    let tar = Layer::new().file("a", "1").tar();
    store.add_rootfs_tar(&tar[..], ImageConfig::default(), "quick").unwrap();
    assert_eq!(names(&temporary).len(), 1);
    child.kill();
    assert_eq!(names(&temporary).len(), 1);
    store.add_rootfs_tar(&tar[..], ImageConfig::default(), "again").unwrap();
    assert!(names(&temporary).is_empty());
    assert!(store.find("slow").is_err());
}

#[test]
fn processes_that_are_killed_at_any_moment_leave_a_store_that_works() {
    let place = tempfile::tempdir().unwrap();
    let (path, source) = (place.path().join("store"), place.path().join("archive"));
    fs::write(&source, large()).unwrap();
    let store = Store::open(Some(path.clone())).unwrap();
    for attempt in 0..12 {
        let mut child = start("import", &path, &source);
        thread::sleep(Duration::from_millis(8 * attempt));
        child.kill();
        // A root file system is there as a whole or not at all.
        if let Ok(image) = store.find("a:b") {
            let rootfs = store.rootfs(&image).unwrap();
            assert_eq!(fs::read_dir(rootfs.path().join("d")).unwrap().count(), 40);
            drop(rootfs);
            store.prune(Some(0)).unwrap();
        }
    }
    let image = store.import(&source, None, &mut silent).unwrap();
    assert_eq!(fs::read_to_string(store.rootfs(&image).unwrap().path().join("last")).unwrap(), "last");
    assert!(names(&path.join("temporary")).is_empty());
}
