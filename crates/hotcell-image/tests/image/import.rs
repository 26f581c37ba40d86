//! Archives and directories of every kind, honest and not; and giving images away again.

use std::fs;
use std::path::{Path, PathBuf};

use hotcell_image::{Digest, ExportFormat, Image, ImageError, Limits, Store, silent};
use serde_json::json;
use tar::EntryType;
use tempfile::TempDir;

use crate::archives::{Parts, architecture, blob_path, directory_of, gzip, header, tar_of, zstd};
use crate::layers::{Layer, names};

struct Place {
    directory: TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Some(directory.path().join("store"))).unwrap();
        Self { directory, store }
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join("archive");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn import(&self, bytes: &[u8], name: Option<&str>) -> Result<Image, ImageError> {
        self.store.import(&self.file(bytes), name, &mut silent)
    }

    /// The image is what [`Parts::small`] is.
    #[track_caller]
    fn assert_is_small(&self, image: &Image) {
        assert_eq!(image.config().env, ["A=b"]);
        assert_eq!((image.config().working_dir.as_str(), image.config().user.as_str()), ("/work", "1000"));
        let rootfs = self.store.rootfs(image).unwrap();
        assert_eq!(fs::read_to_string(rootfs.path().join("etc/name")).unwrap(), "small\n");
        assert_eq!(names(rootfs.path()), ["etc", "link"]);
    }

    /// Nothing was named, and nothing is in the way of the next try.
    #[track_caller]
    fn assert_failed_cleanly(&self) {
        assert!(self.store.list().unwrap().is_empty());
        assert!(names(&self.store.place().join("temporary")).is_empty());
        self.assert_is_small(&self.import(&tar_of(&Parts::small().docker(&["a:b"])), None).unwrap());
    }
}

#[test]
fn layouts_and_archives_of_every_kind_give_the_same_image() {
    let parts = Parts::small();
    let layout = parts.named_layout("example.org/small:1");
    let tar = tar_of(&layout);
    for bytes in [tar.clone(), gzip(&tar), zstd(&tar), tar_of(&parts.combined("example.org/small:1"))] {
        let place = Place::new();
        let image = place.import(&bytes, None).unwrap();
        assert_eq!(image.digest(), &parts.digest());
        assert_eq!(image.name().unwrap().to_string(), "example.org/small:1");
        place.assert_is_small(&image);
    }
    let place = Place::new();
    let directory = place.directory.path().join("layout");
    directory_of(&directory, &layout);
    let image = place.store.import(&directory, Some("other"), &mut silent).unwrap();
    assert_eq!((image.digest(), image.name().unwrap().to_string()), (&parts.digest(), "other:latest".to_owned()));
    place.assert_is_small(&image);
}

#[test]
fn compressed_layers_are_unpacked() {
    for parts in [Parts::small().compressed(gzip, "+gzip"), Parts::small().compressed(zstd, "+zstd")] {
        // In archives of engines too, where nothing says how.
        for files in [parts.named_layout("a:b"), parts.docker(&["a:b"])] {
            let place = Place::new();
            place.assert_is_small(&place.import(&tar_of(&files), None).unwrap());
        }
    }
}

#[test]
fn what_engines_save_is_imported_with_its_tag() {
    let place = Place::new();
    let image = place.import(&tar_of(&Parts::small().docker(&["debian:12", "other:tag"])), None).unwrap();
    assert_eq!(image.name().unwrap().full(), "docker.io/library/debian:12");
    place.assert_is_small(&image);
    assert_eq!(place.store.find("docker.io/debian:12").unwrap().digest(), image.digest());
}

#[test]
fn a_layer_of_an_old_archive_may_be_a_link_to_another() {
    let layer = Layer::new().file("a", "1").tar();
    let parts = Parts::of(&[layer.clone(), layer.clone()], architecture());
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in parts.docker(&["a:b"]) {
        if path.starts_with(&format!("{:064}/", 1)) {
            let target = format!("../{:064}/layer.tar", 0);
            builder.append_link(&mut header(EntryType::Symlink, 0), path, target).unwrap();
        } else {
            builder.append_data(&mut header(EntryType::Regular, bytes.len() as u64), path, &bytes[..]).unwrap();
        }
    }
    let place = Place::new();
    let image = place.import(&builder.into_inner().unwrap(), None).unwrap();
    assert_eq!(fs::read_to_string(place.store.rootfs(&image).unwrap().path().join("a")).unwrap(), "1");
    // A link that leads out of the archive, or in a circle, leads to nothing.
    for target in ["../../../etc/passwd", "layer.tar", "/etc/passwd"] {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in parts.docker(&["a:b"]) {
            if path.ends_with("layer.tar") {
                builder.append_link(&mut header(EntryType::Symlink, 0), path, target).unwrap();
            } else {
                builder.append_data(&mut header(EntryType::Regular, bytes.len() as u64), path, &bytes[..]).unwrap();
            }
        }
        let error = Place::new().import(&builder.into_inner().unwrap(), None).unwrap_err();
        assert!(matches!(&error, ImageError::Malformed { why, .. } if why.contains("not in it")), "{error}");
    }
}

#[test]
fn a_plain_tar_or_directory_is_a_root_file_system() {
    let tar = Layer::new().file("bin/sh", "x").symlink("lib", "usr/lib").tar();
    for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
        let place = Place::new();
        assert!(matches!(place.import(&bytes, None), Err(ImageError::NameNeeded { .. })));
        let image = place.import(&bytes, Some("mine")).unwrap();
        assert_eq!(names(place.store.rootfs(&image).unwrap().path()), ["bin", "lib"]);
        assert_eq!(image.config().architecture, architecture());
    }
    let place = Place::new();
    let directory = place.directory.path().join("tree");
    fs::create_dir_all(directory.join("sub/empty")).unwrap();
    fs::write(directory.join("sub/file"), "content").unwrap();
    std::os::unix::fs::symlink("/etc/shadow", directory.join("sub/link")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap());
    let first = place.store.import(&directory, Some("mine"), &mut silent).unwrap();
    let rootfs = place.store.rootfs(&first).unwrap();
    assert_eq!(names(rootfs.path()), ["sub"]);
    assert_eq!(names(&rootfs.path().join("sub")), ["empty", "file", "link"]);
    assert_eq!(fs::read_link(rootfs.path().join("sub/link")).unwrap(), Path::new("/etc/shadow"));
    let second = place.store.import(&directory, Some("again"), &mut silent).unwrap();
    assert_eq!(first.digest(), second.digest());
}

#[test]
fn an_image_for_another_machine_is_refused() {
    let layer = Layer::new().file("a", "1").tar();
    let parts = Parts::of(&[layer], "vax");
    for bytes in [tar_of(&parts.named_layout("a:b")), tar_of(&parts.docker(&["a:b"]))] {
        let place = Place::new();
        let error = place.import(&bytes, None).unwrap_err();
        let ImageError::WrongPlatform { found, wanted, .. } = &error else { panic!("{error}") };
        assert_eq!((found.as_str(), wanted), ("linux/vax", &format!("linux/{}", architecture())));
        place.assert_failed_cleanly();
    }
}

#[test]
fn the_image_for_this_machine_is_chosen() {
    let (here, other) = (Parts::small(), Parts::of(&[Layer::new().file("vax", "").tar()], "vax"));
    let entry = |parts: &Parts, architecture: &str| {
        let mut entry = parts.descriptor();
        entry["platform"] = json!({ "os": "linux", "architecture": architecture });
        entry
    };
    let both = [entry(&other, "vax"), entry(&here, architecture())];
    // In the index itself, and in an index that the index names.
    let flat = [here.layout(&both), other.layout(&[])].concat();
    let inner = json!({ "schemaVersion": 2, "manifests": both }).to_string().into_bytes();
    let outer = json!({ "mediaType": "application/vnd.oci.image.index.v1+json", "digest": Digest::of(&inner), "size": inner.len() });
    let mut nested = here.layout(&[outer]);
    nested.push((blob_path(&inner), inner));
    // The first file of a name counts for nothing: later ones replace it.
    let flat: Vec<_> = flat.into_iter().filter(|(path, bytes)| path != "index.json" || bytes.len() > 60).collect();
    for files in [flat, nested] {
        let place = Place::new();
        let image = place.import(&tar_of(&files), Some("a:b")).unwrap();
        assert_eq!(image.digest(), &here.digest());
        place.assert_is_small(&image);
    }
    let place = Place::new();
    let error = place.import(&tar_of(&other.layout(&[entry(&other, "vax")])), Some("a:b")).unwrap_err();
    assert!(matches!(error, ImageError::WrongPlatform { .. }), "{error}");
}

#[test]
fn one_of_several_images_is_chosen_by_name() {
    let (one, two) = (Parts::small(), Parts::of(&[Layer::new().file("two", "").tar()], architecture()));
    let entry = |parts: &Parts, name: &str| {
        let mut entry = parts.descriptor();
        entry["annotations"] = json!({ "io.containerd.image.name": name });
        entry
    };
    let mut files = one.layout(&[entry(&one, "x.org/one:1"), entry(&two, "x.org/two:1")]);
    files.extend(two.blobs().into_iter().map(|blob| (blob_path(&blob), blob)));
    let place = Place::new();
    let error = place.import(&tar_of(&files), None).unwrap_err();
    assert!(
        matches!(&error, ImageError::Ambiguous { names, .. } if names.contains("one") && names.contains("two")),
        "{error}"
    );
    assert_eq!(place.import(&tar_of(&files), Some("x.org/two:1")).unwrap().digest(), &two.digest());
}

#[test]
fn every_damaged_blob_is_found_and_named() {
    let parts = Parts::small();
    let layout = parts.named_layout("a:b");
    for (number, what) in [(2, "manifest"), (3, "configuration"), (4, "layer"), (5, "layer")] {
        let mut files = layout.clone();
        let last = files[number].1.len() - 1;
        files[number].1[last / 2] ^= 1;
        let place = Place::new();
        let error = place.import(&tar_of(&files), None).unwrap_err();
        let name = files[number].0.strip_prefix("blobs/sha256/").unwrap();
        let ImageError::Corrupt { what: found, .. } = &error else { panic!("{what}: {error}") };
        assert_eq!(*found, format!("{what} sha256:{name}"));
        place.assert_failed_cleanly();
    }
    let mut old = parts.docker(&["a:b"]);
    old[1].1[600] ^= 1;
    assert!(matches!(Place::new().import(&tar_of(&old), None), Err(ImageError::Corrupt { .. })));
}

#[test]
fn what_is_missing_or_garbled_is_an_error_and_leaves_nothing() {
    let parts = Parts::small();
    let layout = parts.named_layout("a:b");
    let without = |number: usize| {
        tar_of(
            &layout
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != number)
                .map(|(_, file)| file.clone())
                .collect::<Vec<_>>(),
        )
    };
    let replaced = |number: usize, bytes: &[u8]| {
        let mut files = layout.clone();
        files[number].1 = bytes.to_vec();
        tar_of(&files)
    };
    let whole = tar_of(&layout);
    let cases = [
        without(2),
        without(3),
        without(4),
        replaced(1, b"{}"),
        replaced(1, b"[[[["),
        replaced(1, &[b'['; 100_000]),
        b"no archive at all".repeat(100),
        Vec::new(),
        vec![0; 1024],
        gzip(b"x"),
        gzip(&whole)[..200].to_vec(),
        whole[..700].to_vec(),
        [b"\xfd7zXZ\0".to_vec(), vec![0; 1000]].concat(),
        tar_of(&[("manifest.json".to_owned(), b"[]".to_vec())]),
        tar_of(&[("manifest.json".to_owned(), br#"[{"Config":"../../x","Layers":[]}]"#.to_vec())]),
    ];
    for (number, bytes) in cases.iter().enumerate() {
        let place = Place::new();
        let imported = place.import(bytes, Some("a:b"));
        assert!(imported.is_err(), "case {number}: {imported:?}");
        place.assert_failed_cleanly();
    }
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    let zeros = Layer::new().file("a", &"\0".repeat(3_000_000)).tar();
    let mut limits = Limits::default();
    (limits.ratio, limits.ratio_from) = (20, 100_000);
    for bytes in [gzip(&zeros), zstd(&zeros)] {
        let place = Place::new();
        let store = place.store.clone().with_limits(limits.clone());
        let error = store.import(&place.file(&bytes), Some("a:b"), &mut silent).unwrap_err();
        assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
        place.import(&bytes, Some("a:b")).unwrap();
    }
    // A layer in an honest archive.
    let parts = Parts::of(&[zeros], architecture()).compressed(gzip, "+gzip");
    let place = Place::new();
    let image = place.import(&tar_of(&parts.named_layout("a:b")), None).unwrap();
    let error = place.store.clone().with_limits(limits).rootfs(&image).unwrap_err();
    assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
    place.store.rootfs(&image).unwrap();
}

#[test]
fn what_is_exported_can_be_imported_again() {
    let from = Place::new();
    let parts = Parts::small().compressed(zstd, "+zstd");
    let image = from.import(&tar_of(&parts.named_layout("x.org/a:b")), None).unwrap();
    let export = |format| {
        let mut bytes = Vec::new();
        from.store.export(&image, format, &mut bytes).unwrap();
        bytes
    };
    let (oci, docker) = (export(ExportFormat::Oci), export(ExportFormat::Docker));
    assert_eq!(oci, export(ExportFormat::Oci));
    let place = Place::new();
    let again = place.import(&oci, None).unwrap();
    assert_eq!((again.digest(), again.name()), (image.digest(), image.name()));
    place.assert_is_small(&again);
    let place = Place::new();
    let again = place.import(&docker, None).unwrap();
    assert_eq!((again.config_digest(), again.name()), (image.config_digest(), image.name()));
    place.assert_is_small(&again);
    // A damaged layer is noticed before anybody is told that the archive is good.
    let layer = from.store.place().join(blob_path(&parts.layers[0]));
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, bytes).unwrap();
    for format in [ExportFormat::Oci, ExportFormat::Docker] {
        let error = from.store.export(&image, format, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ImageError::Corrupt { .. }), "{error}");
    }
}
