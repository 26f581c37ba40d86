//! The same entries give the same bytes; what has no place in an image is refused.

use super::*;

const EPOCH: u64 = 1_700_000_000;

/// An entry of an archive as somebody else may have written it.
#[derive(Clone)]
struct Raw {
    path: &'static str,
    kind: EntryType,
    mode: u32,
    mtime: u64,
    link: &'static str,
    data: &'static [u8],
}

const fn raw(path: &'static str, kind: EntryType) -> Raw {
    Raw { path, kind, mode: 0o755, mtime: EPOCH - 10, link: "", data: b"" }
}

fn entries() -> Vec<Raw> {
    vec![
        raw("./", EntryType::Directory),
        raw("./usr/", EntryType::Directory),
        raw("./usr/bin/", EntryType::Directory),
        Raw { mode: 0o4755, data: b"su", ..raw("./usr/bin/su", EntryType::Regular) },
        Raw { data: b"perl", ..raw("./usr/bin/perl", EntryType::Regular) },
        Raw { link: "./usr/bin/perl", ..raw("./usr/bin/a-perl", EntryType::Link) },
        Raw { link: "usr/bin", ..raw("./bin", EntryType::Symlink) },
        Raw { mode: 0o1777, mtime: EPOCH + 99, ..raw("./tmp/", EntryType::Directory) },
        Raw { data: b"x", ..raw("./usr-local", EntryType::Regular) },
    ]
}

fn archive(entries: &[Raw], header: fn() -> Header) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut builder = tar::Builder::new(file.reopen().unwrap());
    for entry in entries {
        let mut header = header();
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_mtime(entry.mtime);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(entry.data.len() as u64);
        // Written as they are: `append_data` would refuse some of the paths that are tried here.
        header.as_old_mut().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
        header.as_old_mut().linkname[..entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_cksum();
        builder.append(&header, entry.data).unwrap();
    }
    builder.into_inner().unwrap();
    file
}

fn settled(entries: &[Raw], header: fn() -> Header) -> Result<Tree, BuildError> {
    let file = archive(entries, header);
    // The archive has to outlive the tree.
    let (_, path) = file.keep().unwrap();
    let result = Tree::read(&path, &|_| true).and_then(|mut tree| tree.settle(EPOCH).map(|()| tree));
    if result.is_err() {
        std::fs::remove_file(path).unwrap();
    }
    result
}

fn bytes(entries: &[Raw], header: fn() -> Header) -> Vec<u8> {
    let tree = settled(entries, header).unwrap();
    let mut output = Vec::new();
    tree.write(&mut output).unwrap();
    std::fs::remove_file(tree.archive.unwrap()).unwrap();
    output
}

fn refused(entry: Raw) -> String {
    let mut all = entries();
    all.push(entry);
    settled(&all, Header::new_gnu).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn the_order_of_the_input_does_not_show() {
    let expected = bytes(&entries(), Header::new_gnu);
    let mut order = entries();
    // A small generator is enough: every seed gives another order.
    let mut seed = 7_u64;
    for _ in 0..50 {
        for index in (1..order.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(index, (seed >> 33) as usize % (index + 1));
        }
        assert!(bytes(&order, Header::new_gnu) == expected);
    }
}

#[test]
fn the_headers_of_the_input_do_not_show() {
    let mut named = entries();
    for entry in &mut named {
        entry.path = entry.path.strip_prefix("./").filter(|path| !path.is_empty()).unwrap_or(entry.path);
    }
    assert!(bytes(&entries(), Header::new_gnu) == bytes(&entries(), Header::new_ustar));
    assert!(bytes(&entries(), Header::new_gnu) == bytes(&named, Header::new_gnu));
}

#[test]
fn whichever_name_of_a_file_had_the_contents_does_not_show() {
    let mut other = entries();
    other[4] = Raw { link: "./usr/bin/a-perl", ..raw("./usr/bin/perl", EntryType::Link) };
    other[5] = Raw { data: b"perl", ..raw("./usr/bin/a-perl", EntryType::Regular) };
    assert!(bytes(&entries(), Header::new_gnu) == bytes(&other, Header::new_gnu));
}

#[test]
fn contents_modes_and_times_do_show() {
    let expected = bytes(&entries(), Header::new_gnu);
    for change in [
        |entry: &mut Raw| entry.data = b"perL",
        |entry: &mut Raw| entry.mode = 0o700,
        |entry: &mut Raw| entry.mtime -= 1,
    ] {
        let mut changed = entries();
        change(&mut changed[4]);
        assert!(bytes(&changed, Header::new_gnu) != expected);
    }
}

#[test]
fn the_written_archive_is_settled() {
    let output = bytes(&entries(), Header::new_gnu);
    let mut archive = Archive::new(&output[..]);
    let mut seen = Vec::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert!(header.mtime().unwrap() <= EPOCH, "no file is younger than the image");
        assert_eq!(header.mode().unwrap() & 0o6000, 0, "no set-ID bits");
        seen.push((entry.path().unwrap().to_string_lossy().into_owned(), header.entry_type()));
    }
    let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["./", "bin", "tmp/", "usr/", "usr-local", "usr/bin/", "usr/bin/a-perl", "usr/bin/perl", "usr/bin/su"]
    );
    assert_eq!((seen[6].1, seen[7].1), (EntryType::Regular, EntryType::Link), "a link comes after its file");
}

#[test]
fn a_written_archive_is_written_the_same_again() {
    let once = bytes(&entries(), Header::new_gnu);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &once).unwrap();
    let mut tree = Tree::read(file.path(), &|_| true).unwrap();
    tree.settle(EPOCH).unwrap();
    let mut again = Vec::new();
    let written = tree.write(&mut again).unwrap();
    assert!(once == again);
    assert_eq!(written, Written { entries: 9, file_bytes: 7 });
}

#[test]
fn long_names_and_links_survive() {
    let path = format!("{}/{}", "d".repeat(150), "f".repeat(200));
    let target = "t/".repeat(120);
    let mut tree = Tree::default();
    tree.make_directories(&"d".repeat(150), EPOCH);
    tree.put(&path, Entry::new(Kind::File(Data::Memory(b"long".to_vec())), 0o644, EPOCH));
    tree.put("link", Entry::new(Kind::Symlink(target.clone()), 0o644, EPOCH));
    tree.settle(EPOCH).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    tree.write(file.reopen().unwrap()).unwrap();
    let read = Tree::read(file.path(), &|_| true).unwrap();
    assert_eq!(read.contents(&path).unwrap().unwrap(), b"long");
    assert!(matches!(&read.entries["link"].kind, Kind::Symlink(found) if *found == target));
}

#[test]
fn what_has_no_place_in_an_image_is_refused() {
    for (entry, why) in [
        (raw("./dev/null", EntryType::Char), "no part of an image"),
        (raw("./pipe", EntryType::Fifo), "no part of an image"),
        (raw("../x", EntryType::Regular), "no path beneath the root"),
        (raw("./usr/../../x", EntryType::Regular), "no path beneath the root"),
        (raw("/etc/x", EntryType::Regular), "no path beneath the root"),
        (raw("/", EntryType::Directory), "no path beneath the root"),
        (raw("./usr//x", EntryType::Regular), "no path beneath the root"),
        (raw("./usr/bin/su", EntryType::Regular), "twice"),
        (raw("./none/x", EntryType::Regular), "in no directory"),
        (raw("./bin/x", EntryType::Regular), "in no directory"),
        (Raw { link: "./gone", ..raw("./l", EntryType::Link) }, "no file"),
        (Raw { link: "./l", ..raw("./l", EntryType::Link) }, "no file"),
        (Raw { link: "./usr", ..raw("./l", EntryType::Link) }, "no file"),
    ] {
        let error = refused(entry.clone());
        assert!(error.contains(why), "{}: {error}", entry.path);
    }
}

#[test]
fn unwanted_entries_are_left_out_before_they_are_looked_at() {
    let mut all = entries();
    all.push(raw("./dev/null", EntryType::Char));
    let file = archive(&all, Header::new_gnu);
    let tree = Tree::read(file.path(), &|path| !path.starts_with("dev")).unwrap();
    assert_eq!(tree.entries.len(), entries().len());
}
