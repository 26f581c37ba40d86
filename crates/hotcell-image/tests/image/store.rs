//! The store: names, digests, damage, use and pruning.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hotcell_image::{Digest, Image, ImageConfig, ImageError, Limits, Store, StoreError, silent};
use tempfile::TempDir;

use crate::archives::{Parts, tar_of};
use crate::layers::{Layer, names};

fn open() -> (TempDir, Store) {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(Some(place.path().join("store"))).unwrap();
    (place, store)
}

fn add(store: &Store, content: &str, name: &str) -> Image {
    let tar = Layer::new().file("file", content).tar();
    store.add_rootfs_tar(&tar[..], ImageConfig::default(), name).unwrap()
}

#[test]
fn an_image_is_found_by_every_way_of_saying_its_name() {
    let (_place, store) = open();
    let image = add(&store, "x", "hotcell/code");
    let digest = *image.digest();
    let ways = [
        "hotcell/code".to_owned(),
        "hotcell/code:latest".to_owned(),
        "docker.io/hotcell/code".to_owned(),
        digest.to_string(),
        digest.hex(),
        digest.short(),
        format!("sha256:{}", digest.short()),
        format!("hotcell/code@{digest}"),
        format!("elsewhere.org/other@{digest}"),
    ];
    for way in &ways {
        assert_eq!(store.find(way).unwrap().digest(), &digest, "{way}");
    }
    let other = Digest::of(b"other");
    for way in
        ["hotcell/code:other", "code", "x.org/hotcell/code", &other.to_string(), &format!("hotcell/code@{other}")]
    {
        let error = store.find(way).unwrap_err();
        assert!(matches!(error, ImageError::NotFound { .. }), "{way}");
        assert!(["pull", "import", "build"].iter().all(|word| error.to_string().contains(word)), "{error}");
    }
    assert!(matches!(store.find("../x"), Err(ImageError::BadName { .. })));
}

#[test]
fn the_same_bytes_have_the_same_digest_everywhere() {
    let ((_a, one), (_b, two)) = (open(), open());
    let config = ImageConfig { env: vec!["PATH=/bin".into()], cmd: vec!["sh".into()], ..ImageConfig::default() };
    let tar = Layer::new().file("a", "1").tar();
    let first = one.add_rootfs_tar(&tar[..], config.clone(), "a").unwrap();
    let second = two.add_rootfs_tar(&tar[..], config.clone(), "b").unwrap();
    assert_eq!(first.digest(), second.digest());
    assert_eq!(first.config(), &config);
    let other = two.add_rootfs_tar(&tar[..], ImageConfig::default(), "c").unwrap();
    assert_ne!(other.digest(), first.digest());
    // The layers are the same, so what is unpacked is too.
    let (one, two) = (two.rootfs(&second).unwrap(), two.rootfs(&other).unwrap());
    assert_eq!(one.path(), two.path());
}

#[test]
fn a_reader_that_fails_adds_nothing() {
    struct Failing(usize);
    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 3 { Err(std::io::Error::other("no more")) } else { Ok(buffer.len()) }
        }
    }
    let (_place, store) = open();
    assert!(store.add_rootfs_tar(Failing(0), ImageConfig::default(), "a").unwrap_err().to_string().contains("no more"));
    assert!(store.list().unwrap().is_empty());
    assert!(names(&store.place().join("temporary")).is_empty());
    assert!(names(&store.place().join("blobs/sha256")).is_empty());
}

#[test]
fn a_damaged_layer_is_named_and_never_becomes_a_root_file_system() {
    let (place, store) = open();
    let parts = Parts::small();
    let archive = place.path().join("archive");
    fs::write(&archive, tar_of(&parts.named_layout("a:b"))).unwrap();
    let image = store.import(&archive, None, &mut silent).unwrap();
    let layer = store.place().join("blobs/sha256").join(Digest::of(&parts.layers[1]).hex());
    let good = fs::read(&layer).unwrap();
    let changes: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[515] ^= 1, |bytes| bytes[3] ^= 1, |bytes| bytes.truncate(600), |bytes| bytes.push(0)];
    for change in changes {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&layer, bytes).unwrap();
        let error = store.rootfs(&image).unwrap_err();
        let ImageError::Corrupt { what, .. } = &error else { panic!("{error}") };
        assert_eq!(*what, format!("layer {}", Digest::of(&parts.layers[1])));
        assert!(names(&store.place().join("temporary")).is_empty());
    }
    fs::remove_file(&layer).unwrap();
    assert!(matches!(store.rootfs(&image), Err(ImageError::Corrupt { .. })));
    fs::write(&layer, good).unwrap();
    store.rootfs(&image).unwrap();
}

#[test]
fn content_must_be_what_the_configuration_says() {
    let (place, store) = open();
    let mut parts = Parts::small();
    // A layer that is whole, but not the one that the configuration is about.
    parts.layers[1] = Layer::new().file("other", "x").tar();
    let archive = place.path().join("archive");
    fs::write(&archive, tar_of(&parts.named_layout("a:b"))).unwrap();
    let image = store.import(&archive, None, &mut silent).unwrap();
    let error = store.rootfs(&image).unwrap_err();
    assert!(matches!(&error, ImageError::Corrupt { what, .. } if what.contains("content")), "{error}");
}

#[test]
fn damaged_documents_are_found_when_they_are_read() {
    let (_place, store) = open();
    let image = add(&store, "x", "a");
    for digest in [*image.digest(), *image.config_digest()] {
        let path = store.place().join("blobs/sha256").join(digest.hex());
        let good = fs::read(&path).unwrap();
        fs::write(&path, [&good[..], b" "].concat()).unwrap();
        assert!(matches!(store.find("a"), Err(ImageError::Corrupt { .. })));
        assert!(store.list().unwrap()[0].problem.as_ref().unwrap().contains("corrupt"));
        // Nothing is removed on the word of a document that lies.
        assert!(store.prune(None).unwrap_err().to_string().contains("hotcell image rm"));
        fs::write(&path, good).unwrap();
    }
    store.find("a").unwrap();
    fs::write(store.place().join("index.json"), "{").unwrap();
    assert!(matches!(store.find("a"), Err(ImageError::Store(StoreError::Index { .. }))));
}

#[test]
fn a_root_file_system_is_made_once_and_not_removed_while_it_is_used() {
    let (_place, store) = open();
    let image = add(&store, "x", "a");
    let first = store.rootfs(&image).unwrap();
    let marked = first.path().join("file");
    let made = fs::metadata(&marked).unwrap().created().ok();
    let second = store.rootfs(&image).unwrap();
    assert_eq!((first.path(), fs::metadata(&marked).unwrap().created().ok()), (second.path(), made));
    store.remove("a").unwrap();
    drop(first);
    assert_eq!(store.prune(None).unwrap().rootfs, 0);
    assert_eq!(fs::read_to_string(&marked).unwrap(), "x");
    drop(second);
    let pruned = store.prune(None).unwrap();
    assert_eq!((pruned.rootfs, pruned.left), (1, 0));
    assert!(!marked.exists());
    assert!(names(&store.place().join("rootfs")).is_empty());
}

#[test]
fn only_what_nothing_names_is_pruned() {
    let (_place, store) = open();
    let (kept, gone) = (add(&store, "kept", "kept"), add(&store, "gone", "gone"));
    let rootfs = store.rootfs(&kept).unwrap().path().to_owned();
    add(&store, "kept", "second-name");
    assert_eq!(store.prune(None).unwrap().blobs, 0);
    store.remove("gone").unwrap();
    store.remove("second-name").unwrap();
    let pruned = store.prune(None).unwrap();
    assert_eq!((pruned.blobs, pruned.rootfs), (3, 0));
    assert!(pruned.freed > 0 && pruned.left > 0);
    assert!(rootfs.is_dir());
    store.find("kept").unwrap();
    assert!(store.find(&gone.digest().to_string()).is_err());
    assert!(matches!(store.remove("gone"), Err(ImageError::NotFound { .. })));
}

#[test]
fn with_a_limit_what_was_used_last_stays_longest() {
    let (_place, store) = open();
    let big = "x".repeat(100_000);
    let layers: Vec<_> = ["1", "2", "3"]
        .into_iter()
        .map(|number| {
            let tar = Layer::new().file("file", &format!("{number}{big}")).tar();
            store.add_rootfs_tar(&tar[..], ImageConfig::default(), number).unwrap();
            store.remove(number).unwrap();
            store.place().join("blobs/sha256").join(Digest::of(&tar).hex())
        })
        .collect();
    for (age, layer) in [(100, &layers[1]), (50, &layers[0]), (10, &layers[2])] {
        age_by(layer, age);
    }
    let all = store.prune(Some(u64::MAX)).unwrap();
    assert_eq!(all.blobs, 0);
    store.prune(Some(all.left - 1)).unwrap();
    assert_eq!(layers.iter().map(|layer| layer.exists()).collect::<Vec<_>>(), [true, false, true]);
    store.prune(Some(150_000)).unwrap();
    assert_eq!(layers.iter().map(|layer| layer.exists()).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn what_can_be_unpacked_again_goes_last_and_images_stay() {
    let (_place, store) = open();
    let image = add(&store, "x", "a");
    let rootfs = store.rootfs(&image).unwrap();
    let path = rootfs.path().to_owned();
    assert_eq!(store.prune(Some(0)).unwrap().rootfs, 0);
    drop(rootfs);
    assert_eq!(store.prune(None).unwrap().rootfs, 0);
    let pruned = store.prune(Some(0)).unwrap();
    assert_eq!((pruned.rootfs, pruned.blobs), (1, 0));
    assert!(!path.exists());
    store.rootfs(&store.find("a").unwrap()).unwrap();
}

#[test]
fn names_that_are_added_at_the_same_time_are_all_there() {
    let (_place, store) = open();
    // Each opens its locks for itself, as processes do.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || (0..8).for_each(|number| drop(add(store, "x", &format!("t{thread}-{number}")))));
        }
    });
    assert_eq!(store.list().unwrap().len(), 32);
}

#[test]
fn a_full_store_makes_room_by_itself() {
    let (_place, store) = open();
    let mut limits = Limits::default();
    limits.store_bytes = 1;
    let store = store.with_limits(limits);
    add(&store, "1", "a");
    store.remove("a").unwrap();
    add(&store, "2", "b");
    assert_eq!(names(&store.place().join("blobs/sha256")).len(), 3);
    store.find("b").unwrap();
}

#[test]
fn a_store_that_others_can_change_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    fs::create_dir(&path).unwrap();
    for mode in [0o777, 0o770, 0o702] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(Store::open(Some(path.clone())), Err(StoreError::Unsafe { .. })), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Store::open(Some(path)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place.path(), Some(12345), None).unwrap();
        assert!(matches!(Store::open(Some(place.path().to_owned())), Err(StoreError::Unsafe { .. })));
    }
}

fn age_by(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}
