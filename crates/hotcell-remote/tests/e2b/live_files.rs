//! Files, against a real server.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hotcell_remote::e2b::{ChangeKind, EntryKind, SignedUrl};
use hotcell_remote::http::{Address, PlainHttp, Server, Why};

use crate::live::{Real, all, sh, skip};

/// A directory of the test's own, which is not there yet.
fn place(test: &str) -> String {
    format!("/tmp/hotcell-test-{test}-{}", std::process::id())
}

#[tokio::test]
async fn files_go_up_and_come_down() {
    let Some(real) = Real::new("e2b::files_go_up_and_come_down").await else { return };
    let envd = real.envd();
    let file = format!("{}/a b/ä&=?#%.bin", place("up"));
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    envd.write(&file, content.clone()).await.unwrap();
    let download = envd.download(&file).await.unwrap();
    assert!(download.bytes(1 << 30).await.unwrap() == content);
    // In pieces of unknown number, over what was there.
    let pieces: Vec<_> =
        content.chunks(70_001).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    envd.upload(&file, futures_util::stream::iter(pieces.into_iter().take(3)), None).await.unwrap();
    assert!(envd.download(&file).await.unwrap().bytes(1 << 30).await.unwrap() == content[..3 * 70_001]);
    envd.write(&file, "").await.unwrap();
    assert_eq!(envd.download(&file).await.unwrap().bytes(0).await.unwrap(), "");
    envd.write(&file, "four").await.unwrap();
    let error = envd.download(&file).await.unwrap().bytes(3).await.unwrap_err();
    assert!(matches!(error.why, Why::TooLarge { limit: 3 }), "{error}");
    assert!(envd.download(&place("nothing")).await.unwrap_err().is_not_found());
    // A stream that fails in the middle is no success.
    let broken = futures_util::stream::iter([Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("gone"))]);
    envd.upload(&file, broken, None).await.unwrap_err();
    envd.remove(&place("up")).await.unwrap();
    real.end().await;
}

#[tokio::test]
async fn directories_are_made_listed_moved_and_removed() {
    let Some(real) = Real::new("e2b::directories_are_made_listed_moved_and_removed").await else { return };
    let envd = real.envd();
    let top = place("directories");
    let path = |name: &str| format!("{top}/{name}");
    assert!(envd.make_dir(&path("deep/deeper")).await.unwrap());
    assert!(!envd.make_dir(&path("deep/deeper")).await.unwrap());
    envd.write(&path("deep/file"), "12345").await.unwrap();
    let (_, _, end) = all(&mut envd
        .start(&sh(&format!("ln -s deep/file {} && chmod 640 {}/deep/file", path("link"), top)))
        .await
        .unwrap())
    .await
    .unwrap();
    assert_eq!(end.exit_code, 0);
    let file = envd.stat(&path("deep/file")).await.unwrap();
    assert_eq!((file.kind, file.size, file.mode & 0o777), (EntryKind::File, 5, 0o640), "{file:?}");
    assert_eq!((file.name.as_str(), file.path.as_str()), ("file", path("deep/file").as_str()));
    let names = |entries: Vec<hotcell_remote::e2b::Entry>| {
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(envd.list_dir(&top, 1).await.unwrap()), ["deep", "link"]);
    assert_eq!(names(envd.list_dir(&top, 2).await.unwrap()), ["deep", "deeper", "file", "link"]);
    let listed = envd.list_dir(&path("deep"), 1).await.unwrap();
    assert!(listed.iter().any(|entry| entry.name == "deeper" && entry.kind == EntryKind::Directory), "{listed:?}");
    envd.rename(&path("deep"), &path("moved")).await.unwrap();
    assert!(envd.stat(&path("deep")).await.unwrap_err().is_not_found());
    envd.remove(&top).await.unwrap();
    assert!(envd.stat(&top).await.unwrap_err().is_not_found());
    assert!(envd.list_dir(&top, 1).await.unwrap_err().is_not_found());
    real.end().await;
}

#[tokio::test]
async fn changes_are_told() {
    let test = "e2b::changes_are_told";
    let Some(real) = Real::new(test).await else { return };
    let envd = real.envd();
    let top = place("changes");
    envd.make_dir(&top).await.unwrap();
    let watcher = match envd.watch(&top, false).await {
        Err(error) if matches!(error.why, Why::Unsupported { .. }) => {
            skip(test, "the server does not watch directories");
            return real.end().await;
        }
        watcher => watcher.unwrap(),
    };
    envd.write(&format!("{top}/new"), "x").await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|(name, kind)| name == "new" && *kind == ChangeKind::Created) {
        seen.extend(envd.changes(&watcher).await.unwrap().into_iter().map(|change| (change.name, change.kind)));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    envd.unwatch(watcher.clone()).await.unwrap();
    assert!(envd.changes(&watcher).await.unwrap_err().is_not_found());
    envd.remove(&top).await.unwrap();
    real.end().await;
}

#[tokio::test]
async fn a_signed_address_opens_one_file_and_no_other() {
    let Some(real) = Real::new("e2b::a_signed_address_opens_one_file_and_no_other").await else { return };
    let envd = real.envd();
    let top = place("signed");
    let file = format!("{top}/file");
    envd.write(&file, "content").await.unwrap();
    let soon = SystemTime::now() + Duration::from_secs(600);
    for (expires, works) in [(None, true), (Some(soon), true), (Some(SystemTime::UNIX_EPOCH), false)] {
        let url = match envd.signed_url(SignedUrl::Read, &file, expires) {
            Ok(url) => url,
            // A sandbox without a token is open anyway.
            Err(error) => {
                assert!(matches!(error.why, Why::Unsupported { .. }));
                break;
            }
        };
        let fetch = async |text: &str| {
            let (base, query) = text.split_once("/files?").unwrap();
            let address = Address::parse(base, PlainHttp::LoopbackOnly).unwrap();
            let server =
                Server::new("Test", address).unwrap().header("e2b-sandbox-id", real.sandbox.id().as_str()).unwrap();
            let mut call = server.header("e2b-sandbox-port", "49983").unwrap().get("fetch", &["files"]);
            for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
                call = call.query(&name, &value);
            }
            call.send().await?.bytes().await
        };
        match fetch(url.expose()).await {
            Ok(bytes) => assert!(works && bytes == "content"),
            Err(error) => assert!(!works && matches!(error.status(), Some(401 | 403)), "{error}"),
        }
        let other = url.expose().replace("%2Ffile&", "%2Fother&");
        assert_ne!(&other, url.expose());
        assert!(matches!(fetch(&other).await.unwrap_err().status(), Some(401 | 403)));
    }
    envd.remove(&top).await.unwrap();
    real.end().await;
}
