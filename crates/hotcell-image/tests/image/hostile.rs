//! Layers that try to get out, to bring something in, or to use up the machine. Each attack has a twin that is allowed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use hotcell_image::{ImageError, Limits};
use proptest::prelude::*;
use tar::EntryType;

use crate::layers::{Arena, Layer};

#[test]
fn absolute_paths_are_inside() {
    let arena = Arena::new();
    let outside = arena.outside();
    arena.unpack([Layer::new().file("/etc/a", "1").file(&format!("{outside}/secret"), "2")]).unwrap();
    assert_eq!(arena.read("etc/a").unwrap(), "1");
    assert_eq!(arena.read(&format!("{}/secret", &outside[1..])).unwrap(), "2");
}

#[test]
fn paths_with_two_dots_are_refused() {
    for path in ["../x", "a/../../x", "..", "a/..", "./../x", "/../x", "a/../b"] {
        for layer in [Layer::new().file(path, "x"), Layer::new().directory(path), Layer::new().symlink(path, "y")] {
            assert!(Arena::new().refuse(layer).contains(".."), "{path}");
        }
    }
    let arena = Arena::new();
    arena.unpack([Layer::new().file("./a/./b..c", "x").file("a//..d", "y")]).unwrap();
    assert_eq!((arena.read("a/b..c").unwrap(), arena.read("a/..d").unwrap()), ("x".into(), "y".into()));
}

#[test]
fn links_in_a_path_stay_inside() {
    let arena = Arena::new();
    let outside = arena.outside();
    for target in [outside.as_str(), "../outside", "../../../../../../../../..", "/"] {
        let layer = Layer::new().symlink("l", target).file("l/secret", "mine");
        let arena = Arena::new();
        // Either the target is not in the image, or it is the image's own root.
        match arena.unpack([layer]) {
            Ok(()) => assert_eq!(arena.read("secret").unwrap(), "mine"),
            Err(error) => assert!(matches!(error, ImageError::Hostile { .. }), "{error}"),
        }
    }
    let usual = Layer::new().directory("usr/lib").symlink("lib", "usr/lib").symlink("abs", "/usr/lib");
    arena.unpack([usual, Layer::new().file("lib/a", "1").file("abs/b", "2")]).unwrap();
    assert_eq!((arena.read("usr/lib/a").unwrap(), arena.read("usr/lib/b").unwrap()), ("1".into(), "2".into()));
    assert!(fs::symlink_metadata(arena.root().join("lib")).unwrap().is_symlink());
}

#[test]
fn a_link_at_the_end_of_a_path_is_replaced_and_not_followed() {
    let arena = Arena::new();
    let secret = format!("{}/secret", arena.outside());
    let links = Layer::new().symlink("a", &secret).symlink("b", "../outside/secret").symlink("c", "../outside");
    let over = || Layer::new().file("a", "1").file("b", "2").directory("c").file("c/secret", "3");
    arena.unpack([links, over()]).unwrap();
    assert_eq!(["a", "b", "c/secret"].map(|path| arena.read(path).unwrap()), ["1", "2", "3"]);
}

#[test]
fn links_in_circles_are_refused() {
    assert!(Arena::new().refuse(Layer::new().symlink("a", "b").symlink("b", "a").file("a/x", "")).contains("circle"));
    assert!(Arena::new().refuse(Layer::new().symlink("a", "gone").file("a/x", "")).contains("nowhere"));
    let arena = Arena::new();
    arena.unpack([Layer::new().directory("d").symlink("a", "b").symlink("b", "d").file("a/x", "1")]).unwrap();
    assert_eq!(arena.read("d/x").unwrap(), "1");
}

#[test]
fn hard_links_reach_only_files_of_the_image() {
    let arena = Arena::new();
    let secret = format!("{}/secret", arena.outside());
    for target in ["../outside/secret", &secret, "gone", "gone/x", "/", "d", "l", "dl/secret"] {
        let layer = Layer::new().directory("d").symlink("l", &secret).symlink("dl", "../outside");
        Arena::new().refuse(layer.hard_link("h", target));
    }
    arena.unpack([Layer::new().file("a", "1").hard_link("b", "a").hard_link("c", "/a").hard_link("a", "a")]).unwrap();
    assert_eq!((arena.read("a").unwrap(), arena.read("b").unwrap()), ("1".into(), "1".into()));
    assert_eq!(fs::metadata(arena.root().join("c")).unwrap().nlink(), 3);
}

#[test]
fn writing_to_one_of_two_hard_links_makes_a_new_file() {
    let arena = Arena::new();
    arena.unpack([Layer::new().file("a", "1").hard_link("b", "a"), Layer::new().file("b", "2")]).unwrap();
    assert_eq!((arena.read("a").unwrap(), arena.read("b").unwrap()), ("1".into(), "2".into()));
}

#[test]
fn a_link_to_what_it_replaces_is_refused() {
    // The target is in the directory that has to go for the link.
    let layer = Layer::new().file("d/x", "1").hard_link("d", "d/x");
    assert!(Arena::new().refuse(layer).contains("not in the image"));
}

#[test]
fn devices_and_pipes_are_left_out() {
    let arena = Arena::new();
    let kinds = [EntryType::Char, EntryType::Block, EntryType::Fifo];
    let layer = kinds.into_iter().enumerate().fold(Layer::new(), |layer, (number, kind)| {
        layer.entry(kind, format!("dev/{number}").as_bytes(), b"", b"", 0o666)
    });
    arena.unpack([layer.file("dev/file", "x")]).unwrap();
    assert_eq!(arena.names("dev"), ["file"]);
    assert!(!fs::symlink_metadata(arena.root().join("dev/file")).unwrap().file_type().is_char_device());
}

#[test]
fn set_id_bits_are_dropped_and_others_stay() {
    let arena = Arena::new();
    let layer = Layer::new().file_with_mode("suid", 0o6755).file_with_mode("plain", 0o755);
    arena.unpack([layer.directory_with_mode("sgid", 0o2755).directory_with_mode("tmp", 0o1777)]).unwrap();
    let mode = |path| arena.mode(path).unwrap() & 0o7777;
    assert_eq!(["suid", "plain", "sgid", "tmp"].map(mode), [0o755, 0o755, 0o755, 0o1777]);
}

#[test]
fn attributes_of_files_are_not_for_images_to_give() {
    let arena = Arena::new();
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let attributes = [("SCHILY.xattr.security.capability", &capability[..]), ("SCHILY.xattr.user.x", b"y")];
    let layer = attributes.into_iter().fold(Layer::new(), |layer, (key, value)| layer.extended(key, value));
    arena.unpack([layer.file("a", "x")]).unwrap();
    let mut buffer = [0; 256];
    let listed = rustix::fs::listxattr(arena.root().join("a"), &mut buffer[..]);
    let names = String::from_utf8_lossy(&buffer[..listed.unwrap_or(0)]).into_owned();
    assert!(!names.contains("capability") && !names.contains("user.x"), "{names}");
    assert_eq!(arena.read("a").unwrap(), "x");
}

#[test]
fn owners_are_kept_by_root_and_are_oneself_otherwise() {
    let arena = Arena::new();
    let layer = Layer::new().owned_by(1234).directory("d").file("d/f", "x").symlink("d/l", "f");
    arena.unpack([layer]).unwrap();
    let me = rustix::process::geteuid();
    let expected = if me.is_root() { 1234 } else { me.as_raw() };
    for path in ["d", "d/f", "d/l"] {
        assert_eq!(fs::symlink_metadata(arena.root().join(path)).unwrap().uid(), expected, "{path}");
    }
    for owner in ["4294967295", "4294967296", "99999999999"] {
        assert!(Arena::new().refuse(Layer::new().extended("uid", owner.as_bytes()).file("a", "")).contains("owner"));
    }
}

#[test]
fn what_nobody_may_read_can_still_be_unpacked_and_removed() {
    let arena = Arena::new();
    let layer = || Layer::new().directory_with_mode("d", 0).file("d/a", "1").file_with_mode("d/b", 0);
    arena.unpack([layer(), layer(), Layer::new().file("d/c", "2")]).unwrap();
    assert_eq!((arena.read("d/a").unwrap(), arena.read("d/c").unwrap()), ("1".into(), "2".into()));
    hotcell_image::unpack::remove_tree(&arena.root()).unwrap();
    assert!(!arena.root().exists());
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file() {
    let lower = || Layer::new().file("a", "1").file("b/c/d", "2").symlink("e", "b");
    let upper = || Layer::new().directory("a").file("a/x", "3").file("b", "4").directory("e").file("e/y", "5");
    let arena = Arena::new();
    arena.unpack([lower(), upper()]).unwrap();
    assert_eq!(["a/x", "b", "e/y"].map(|path| arena.read(path).unwrap()), ["3", "4", "5"]);
    // Without an entry of its own nothing says that the file should go.
    assert!(Arena::new().refuse(Layer::new().file("a", "1").file("a/x", "2")).contains("not a directory"));
}

#[test]
fn the_last_of_several_entries_counts() {
    let arena = Arena::new();
    arena
        .unpack([Layer::new().file("a", "long content").file("a", "2").directory("d").file("d/x", "").directory("d")])
        .unwrap();
    assert_eq!(arena.read("a").unwrap(), "2");
    assert_eq!(arena.names("d"), ["x"]);
}

#[test]
fn odd_names_are_kept_and_impossible_ones_refused() {
    let arena = Arena::new();
    arena
        .unpack([Layer::new().file("new\nline", "1").file("\u{1b}[2J", "2").entry(
            EntryType::Regular,
            b"\xff\xfe",
            b"",
            b"3",
            0o644,
        )])
        .unwrap();
    assert_eq!(arena.read("new\nline").unwrap(), "1");
    assert_eq!(fs::read_dir(arena.root()).unwrap().count(), 3);
    assert!(Arena::new().refuse(Layer::new().extended("path", b"a\0b").file("x", "")).contains("zero"));
    assert!(Arena::new().refuse(Layer::new().extended("linkpath", b"a\0b").symlink("x", "y")).contains("zero"));
    assert!(Arena::new().refuse(Layer::new().symlink("x", "")).contains("nothing"));
    assert!(Arena::new().refuse(Layer::new().file("", "x")).contains("root"));
    let message = Arena::new().unpack([Layer::new().file("../\u{1b}[2J", "")]).unwrap_err().to_string();
    assert!(message.contains("u{1b}") && !message.contains('\u{1b}'), "{message}");
}

#[test]
fn unknown_kinds_and_holes_are_refused() {
    for kind in [EntryType::GNUSparse, EntryType::new(b'Z'), EntryType::new(b'M')] {
        Arena::new().refuse(Layer::new().entry(kind, b"a", b"", b"", 0o644));
    }
    Arena::new().refuse(Layer::new().extended("GNU.sparse.size", b"1000000000000").file("a", ""));
}

#[test]
fn a_tar_that_ends_early_is_corrupt() {
    let whole = Layer::new().file("a", &"x".repeat(2000)).tar();
    for length in [100, 512, 700, 2000] {
        let arena = Arena::new();
        let mut unpacker = hotcell_image::unpack::Unpacker::new(&arena.root(), Limits::default()).unwrap();
        let unpacked = unpacker.layer(&whole[..length], "it");
        assert!(matches!(unpacked, Err(ImageError::Corrupt { .. })), "{length}: {unpacked:?}");
    }
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

#[track_caller]
fn assert_too_large(layers: impl IntoIterator<Item = Layer>, limits: Limits) {
    let unpacked = Arena::new().unpack_within(layers, limits);
    assert!(matches!(unpacked, Err(ImageError::TooLarge { .. })), "{unpacked:?}");
}

#[test]
fn entries_and_bytes_are_counted_over_all_layers() {
    let files = |count: usize| (0..count).fold(Layer::new(), |layer, number| layer.file(&number.to_string(), ""));
    let few = || limits(|limits| limits.entries = 10);
    assert_too_large([files(6), files(5)], few());
    Arena::new().unpack_within([files(5), files(5)], few()).unwrap();
    let small = || limits(|limits| limits.unpacked_bytes = 10_000);
    let big = |size: usize| Layer::new().file("a", &"x".repeat(size));
    assert_too_large([big(5000), big(5000)], small());
    // Entries alone fill disks too.
    assert_too_large([files(20)], small());
    Arena::new().unpack_within([big(4000), big(4000)], small()).unwrap();
}

#[test]
fn a_size_that_is_only_claimed_writes_nothing() {
    let claim = {
        let mut header = tar::Header::new_gnu();
        header.set_size(1 << 50);
        header.set_path("a").unwrap();
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let arena = Arena::new();
    let mut unpacker = hotcell_image::unpack::Unpacker::new(&arena.root(), Limits::default()).unwrap();
    assert!(matches!(unpacker.layer(&claim[..], "it"), Err(ImageError::TooLarge { .. })));
    assert!(arena.names("").is_empty());
}

#[test]
fn paths_are_bounded_in_length_and_depth() {
    assert!(Arena::new().refuse(Layer::new().file(&"d/".repeat(3000), "")).contains("too long"));
    assert!(Arena::new().refuse(Layer::new().file(&"n".repeat(300), "")).contains("too long"));
    assert!(Arena::new().refuse(Layer::new().symlink("l", &"t".repeat(5000))).contains("too long"));
    assert!(Arena::new().refuse(Layer::new().file(&("d/".repeat(201) + "x"), "")).contains("too deep"));
    Arena::new().unpack([Layer::new().file(&("d/".repeat(200) + "x"), "").file(&"n".repeat(255), "")]).unwrap();
}

#[test]
fn depth_cannot_be_had_through_links() {
    // Each link leads to the deepest directory so far: every path is short, and the tree grows without end.
    let mut layer = Layer::new().directory("0");
    let mut deepest = String::from("0");
    for step in 0..8 {
        let inner = "d/".repeat(40);
        layer = layer.directory(&format!("{deepest}/{inner}"));
        layer = layer.symlink(&format!("link{step}"), &format!("{deepest}/{inner}"));
        deepest = format!("link{step}");
    }
    assert!(Arena::new().refuse(layer).contains("too deep"));
}

/// Entries that like to meet: few names, many links.
fn entries() -> impl Strategy<Value = Vec<(u8, String, String)>> {
    let name = prop::sample::select(vec!["a", "b", "c", "..", ".", ".wh.a", ".wh..wh..opq", ".wh...", "", "outside"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let target = prop_oneof![path.clone(), path.clone().prop_map(|path| format!("/{path}")), Just("../outside".into())];
    prop::collection::vec((0..6_u8, path, target), 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the entries are: nothing outside changes, and inside are only files, directories and links, without set-id bits.
    #[test]
    fn nothing_gets_out(layers in prop::collection::vec(entries(), 1..4)) {
        let arena = Arena::new();
        let layers = layers.into_iter().map(|entries| {
            entries.into_iter().fold(Layer::new(), |layer, (kind, path, target)| match kind {
                0 => layer.directory_with_mode(&path, 0o7777),
                1 => layer.symlink(&path, &target),
                2 => layer.hard_link(&path, &target),
                3 => layer.entry(EntryType::Char, path.as_bytes(), b"", b"", 0o666),
                _ => layer.file_with_mode(&path, 0o7777),
            })
        });
        // Looks at the outside itself.
        let _ = arena.unpack(layers);
        assert_is_plain(&arena.root());
    }
}

fn assert_is_plain(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let status = fs::symlink_metadata(&path).unwrap();
        let kind = status.file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{path:?}");
        assert!(kind.is_symlink() || status.mode() & 0o6000 == 0, "{path:?}");
        if kind.is_dir() {
            assert_is_plain(&path);
        }
    }
}
