//! What layers delete.

use std::time::{Duration, Instant};

use crate::layers::{Arena, Layer};

fn lower() -> Layer {
    Layer::new().file("d/a", "1").file("d/b", "2").file("d/e/x", "3").file("top", "4")
}

#[test]
fn a_whiteout_deletes_one_thing_of_the_layers_below() {
    let arena = Arena::new();
    arena.unpack([lower(), Layer::new().whiteout("d/.wh.a").whiteout("d/.wh.e").whiteout("d/.wh.never")]).unwrap();
    assert_eq!(arena.names("d"), ["b"]);
    assert_eq!(arena.names(""), ["d", "top"]);
}

#[test]
fn an_opaque_directory_loses_everything_of_the_layers_below() {
    let upper = || Layer::new().directory("d").file("d/n", "5").file("d/e/y", "6");
    for before in [true, false] {
        let arena = Arena::new();
        // The mark may come after the new files.
        let layer = match before {
            true => Layer::new().directory("d").whiteout("d/.wh..wh..opq").file("d/n", "5").file("d/e/y", "6"),
            false => upper().whiteout("d/.wh..wh..opq"),
        };
        arena.unpack([lower(), layer]).unwrap();
        assert_eq!((arena.names("d"), arena.names("d/e")), (vec!["e".into(), "n".into()], vec!["y".to_owned()]));
        assert_eq!(arena.read("top").unwrap(), "4");
    }
}

#[test]
fn whiteouts_are_about_the_layers_below_and_not_their_own() {
    let arena = Arena::new();
    arena
        .unpack([lower(), Layer::new().file("d/a", "new").file("d/e/new", "").whiteout("d/.wh.a").whiteout("d/.wh.e")])
        .unwrap();
    assert_eq!(arena.read("d/a").unwrap(), "new");
    assert_eq!(arena.names("d/e"), ["new"]);
    // And the next layer's are about this one.
    let arena = Arena::new();
    arena.unpack([lower(), Layer::new().file("d/a", "new"), Layer::new().whiteout("d/.wh.a")]).unwrap();
    assert_eq!(arena.read("d/a"), None);
}

#[test]
fn a_whiteout_deletes_links_and_not_what_they_lead_to() {
    let arena = Arena::new();
    let links = lower().symlink("l", "d").symlink("out", "../outside").symlink("self", "/");
    let deletes = Layer::new().whiteout(".wh.l").whiteout(".wh.out").whiteout("self/.wh.top");
    arena.unpack([links, deletes]).unwrap();
    assert_eq!(arena.names(""), ["d", "self"]);
    assert_eq!(arena.names("d"), ["a", "b", "e"]);
}

#[test]
fn whiteouts_reach_nothing_outside() {
    for path in [".wh...", ".wh..", ".wh.", "d/.wh...", "d/.wh.."] {
        assert!(Arena::new().refuse(lower().whiteout(path)).contains("not in its directory"), "{path}");
    }
    for path in ["../.wh.outside", "../outside/.wh.secret", "d/../../outside/.wh..wh..opq"] {
        assert!(Arena::new().refuse(lower().whiteout(path)).contains(".."), "{path}");
    }
    // Through a link: it leads to the image's own root, where there is no such thing.
    let arena = Arena::new();
    let links = lower().symlink("up", "..").symlink("out", "../outside");
    let deletes = Layer::new().whiteout("up/.wh.outside").whiteout("out/.wh.secret").whiteout("out/.wh..wh..opq");
    arena.unpack([links, deletes]).unwrap();
    assert_eq!(arena.read("top").unwrap(), "4");
}

#[test]
fn many_whiteouts_of_a_large_directory_do_not_take_for_ever() {
    let started = Instant::now();
    let files = (0..12_000).fold(Layer::new(), |layer, number| layer.file(&format!("d/{number}"), ""));
    let marks = (0..12_000)
        .fold(files, |layer, number| layer.whiteout(if number % 2 == 0 { "d/.wh..wh..opq" } else { ".wh.d" }));
    let arena = Arena::new();
    arena.unpack([lower(), marks]).unwrap();
    assert_eq!(arena.names("d").len(), 12_000);
    // Looked through once for every mark it would take many minutes.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[test]
fn notes_of_other_file_systems_are_no_files() {
    let arena = Arena::new();
    arena.unpack([lower(), Layer::new().file("d/.wh..wh.plnk/1", "x").whiteout("d/.wh..wh.aufs")]).unwrap();
    assert_eq!(arena.read("d/a").unwrap(), "1");
    assert!(!arena.names("d").contains(&".wh..wh.aufs".to_owned()));
}
