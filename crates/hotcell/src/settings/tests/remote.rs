//! Keys from files, and the variables of servers' own clients.

use hotcell_core::runtime::RuntimeKind;

use super::*;

const E2B: &str = "[sandbox]\nmode = \"e2b\"\n[remote]\n";

fn key(request: &Request) -> String {
    let settings = Settings::load(request).unwrap_or_else(|error| panic!("{error}"));
    settings.policy.remote.api_key.map(|key| key.expose().clone()).unwrap_or_default()
}

/// A file that only its owner can read.
fn private(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.write(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn variable(request: &mut Request, name: &str, value: impl Into<OsString>) {
    request.environment.push((name.into(), value.into()));
}

#[test]
fn a_key_file_is_relative_to_the_file_that_names_it() {
    let place = Place::new();
    private(&place, "home/.config/hotcell/key", "from-own-directory\n");
    // A stranger's file of the same name decides nothing.
    private(&place, "project/key", "from-project");
    place.write("project/hotcell.toml", "");
    place.write(USER_FILE, &format!("{E2B}api_key_file = \"key\"\n"));
    let mut request = place.request("project");
    assert_eq!(key(&request), "from-own-directory");

    private(&place, "home/key", "from-home");
    for name in ["~/key", "../../key", place.path("home/key").to_str().unwrap()] {
        place.write(USER_FILE, &format!("{E2B}api_key_file = \"{name}\"\n"));
        assert_eq!(key(&request), "from-home", "{name}");
    }

    // In variables and flags it is relative to where the user is.
    variable(&mut request, "HOTCELL_SANDBOX_API_KEY_FILE", "key");
    assert_eq!(key(&request), "from-project");
    private(&place, "project/sub/other", "from-flag");
    flag(&mut request, "remote.api_key_file", "--sandbox-key-file", "sub/other");
    assert_eq!(key(&request), "from-flag");
}

#[test]
fn the_strongest_layer_with_a_key_or_a_file_has_the_word() {
    let place = Place::new();
    let file = private(&place, "key", "from-file");
    place.write(USER_FILE, &format!("{E2B}api_key = \"from-user\"\n"));
    let mut request = place.request("project");
    variable(&mut request, "E2B_API_KEY", "from-vendor");
    assert_eq!(key(&request), "from-user");
    variable(&mut request, "HOTCELL_SANDBOX_API_KEY_FILE", &file);
    assert_eq!(key(&request), "from-file");

    // What is overridden is not even opened.
    place.write(USER_FILE, &format!("{E2B}api_key_file = \"nowhere\"\n"));
    assert_eq!(key(&request), "from-file");
    let mut request = place.request("project");
    variable(&mut request, "HOTCELL_SANDBOX_API_KEY", "from-variable");
    assert_eq!(key(&request), "from-variable");
}

#[test]
fn a_key_file_is_read_for_remote_boxes_only() {
    let place = Place::new();
    place.write(USER_FILE, "[remote]\napi_key_file = \"nowhere\"\n");
    let mut request = place.request("project");
    assert_eq!(key(&request), "");
    flag(&mut request, "sandbox.mode", "--runtime", "native");
    assert_eq!(key(&request), "");
    let mut request = place.request("project");
    flag(&mut request, "sandbox.mode", "--runtime", "opensandbox");
    assert!(place.error(&request).contains("the key file `@/home/.config/hotcell/nowhere` cannot be read: "));
}

#[test]
fn one_newline_at_the_end_is_not_part_of_the_key() {
    let place = Place::new();
    place.write(USER_FILE, &format!("{E2B}api_key_file = \"key\"\n"));
    let request = place.request("project");
    for text in ["k", "k\n", "k\r\n"] {
        private(&place, "home/.config/hotcell/key", text);
        assert_eq!(key(&request), "k", "{text:?}");
    }
    let longest = "k".repeat(64 << 10);
    private(&place, "home/.config/hotcell/key", &format!("{longest}\n"));
    assert_eq!(key(&request), longest);
}

#[test]
fn a_key_file_that_holds_no_key_is_an_error_that_does_not_show_it() {
    let place = Place::new();
    place.write(USER_FILE, &format!("{E2B}api_key_file = \"key\"\n"));
    let request = place.request("project");
    let expect = |what: &str| {
        let error = place.error(&request);
        let start = "@/home/.config/hotcell/hotcell.toml:4: the key file `@/home/.config/hotcell/key` ";
        assert!(error.starts_with(&format!("{start}{what}")), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    };
    expect("cannot be read: No such file");
    for text in ["", "\n", "hunter2\n\n", "hunter2 x", "hunter2\r", " hunter2", "hunter2\u{e4}"] {
        private(&place, "home/.config/hotcell/key", text);
        expect("does not hold a key: a key has ");
    }
    private(&place, "home/.config/hotcell/key", &"k".repeat((64 << 10) + 1));
    expect("does not hold a key: a key has 1 to 65536 characters");
    private(&place, "home/.config/hotcell/key", &"k".repeat(70_000));
    expect("is longer than any key (64 KiB)");
    fs::write(place.path("home/.config/hotcell/key"), b"hunter2\xff").unwrap();
    expect("does not hold a key: it is not text");
    fs::remove_file(place.path("home/.config/hotcell/key")).unwrap();
    fs::create_dir(place.path("home/.config/hotcell/key")).unwrap();
    expect("is a directory");

    let mut request = place.request("project");
    flag(&mut request, "sandbox.mode", "--runtime", "e2b");
    flag(&mut request, "remote.api_key_file", "--sandbox-key-file", "~somebody/key");
    assert!(place.error(&request).starts_with("--sandbox-key-file: the key file `~somebody/key` is not a path"));
}

#[test]
fn a_key_file_is_nobody_elses() {
    let place = Place::new();
    let file = place.write("key", "hunter2");
    place.write(USER_FILE, &format!("{E2B}api_key_file = \"{}\"\n", file.display()));
    let request = place.request("project");
    for open in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610] {
        fs::set_permissions(&file, fs::Permissions::from_mode(open)).unwrap();
        let error = place.error(&request);
        assert!(error.ends_with("can be read or written by others than its owner; run chmod 600 on it"), "{error}");
    }
    for closed in [0o600, 0o400, 0o700] {
        fs::set_permissions(&file, fs::Permissions::from_mode(closed)).unwrap();
        assert_eq!(key(&request), "hunter2");
    }
    // Only root can give a file away.
    if std::os::unix::fs::chown(&file, Some(12345), None).is_ok() {
        assert!(place.error(&request).contains("belongs to user 12345, and you are user 0; "));
    }
}

#[test]
fn the_variables_of_other_clients_are_the_weakest_layer() {
    let place = Place::new();
    let mut request = place.request("project");
    for (name, value) in [
        ("E2B_API_URL", "https://e2b.example.org"),
        ("E2B_API_KEY", "e2b-key"),
        ("CUBE_API_URL", "https://cube.example.org"),
        ("CUBE_TEMPLATE_ID", "cube-template"),
        ("OPEN_SANDBOX_DOMAIN", "localhost:9"),
    ] {
        variable(&mut request, name, value);
    }
    let remote = |kind: &str, request: &Request| {
        let mut request = request.clone();
        flag(&mut request, "sandbox.mode", "--runtime", kind);
        Settings::load(&request).unwrap_or_else(|error| panic!("{error}")).policy.remote
    };
    assert_eq!(remote("e2b", &request).url.as_deref(), Some("https://e2b.example.org"));
    assert!(remote("cube", &request).api_key.is_none());
    assert_eq!(remote("cube", &request).template.as_deref(), Some("cube-template"));
    assert_eq!(remote("opensandbox", &request).url.as_deref(), Some("http://localhost:9"));
    assert_eq!(remote("native", &request), Policy::default().remote);

    place.write(USER_FILE, "sandbox_url = \"https://mine.example.org\"\n");
    assert_eq!(remote("e2b", &request).url.as_deref(), Some("https://mine.example.org"));
    assert_eq!(remote("e2b", &request).api_key.unwrap().expose(), "e2b-key");
    // A default of the calling program is stronger too.
    request.defaults.set("remote.template", "default", Origin::layer(Layer::Default)).unwrap();
    assert_eq!(remote("cube", &request).template.as_deref(), Some("default"));

    // A server that is not this machine is not reached in the clear because of somebody else's variable.
    let mut request = place.request("project");
    place.write(USER_FILE, "");
    variable(&mut request, "OPEN_SANDBOX_DOMAIN", "sandbox.example.org");
    flag(&mut request, "sandbox.mode", "--runtime", "opensandbox");
    let error = place.error(&request);
    assert!(error.starts_with("OPEN_SANDBOX_DOMAIN: `remote.url` cannot be `http://sandbox.example.org`: "), "{error}");
}

#[test]
fn a_remote_runtime_without_a_server_is_an_error_at_once() {
    let place = Place::new();
    let error = |kind: &str| {
        let mut request = place.request("project");
        flag(&mut request, "sandbox.mode", "--runtime", kind);
        Settings::load(&request).map(drop).map_err(|error| error.to_string())
    };
    assert!(error("e2b").unwrap_err().starts_with("E2B's service needs a key"));
    assert!(error("cube").unwrap_err().starts_with("the `cube` runtime needs the address"));
    assert_eq!(error("opensandbox"), Ok(()));
    // It has no server of this kind.
    assert_eq!(error("kubernetes"), Ok(()));
}

#[test]
fn a_remote_box_is_shown_what_a_local_one_is() {
    let place = Place::new();
    let mut request = place.request("project");
    let local = Settings::load(&request).unwrap().policy;
    flag(&mut request, "sandbox.mode", "--runtime", "opensandbox");
    let remote = Settings::load(&request).unwrap().policy;
    assert_eq!((remote.filesystem, remote.process), (local.filesystem, local.process));
}

#[test]
fn what_a_run_is_made_from_can_be_shown() {
    let place = Place::new();
    let mut request = place.request("project");
    variable(&mut request, "E2B_API_KEY", "hunter2");
    flag(&mut request, "remote.api_key", "--flag", "hunter2");
    let shown = format!("{request:?}");
    assert!(shown.contains("E2B_API_KEY") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn the_configured_server_is_known_in_every_directory() {
    let place = Place::new();
    let request = place.request("home");
    let with_runtime = |name: &str| {
        let mut request = place.request("home");
        flag(&mut request, "sandbox.mode", "--runtime", name);
        RemoteRuntime::load(&request)
    };
    assert_eq!(RemoteRuntime::load(&request).unwrap(), None);
    place.write(USER_FILE, &format!("{E2B}url = \"https://e2b.example.org\"\napi_key = \"k\"\n"));
    // No box would be made from here without saying what to show.
    assert!(Settings::load(&request).is_err());
    let runtime = RemoteRuntime::load(&request).unwrap().unwrap();
    assert_eq!((runtime.kind, runtime.remote.url.as_deref()), (RuntimeKind::E2b, Some("https://e2b.example.org")));
    assert_eq!(runtime.remote.api_key.unwrap().expose(), "k");
    assert_eq!(with_runtime("docker").unwrap(), None);
    // One without an address is still the configured one.
    place.write(USER_FILE, "");
    let runtime = with_runtime("cube").unwrap().unwrap();
    assert!(runtime.remote.server(runtime.kind).is_err());
    // What a project must not say is an error here as well.
    place.write("project/hotcell.toml", "sandbox_backend = \"e2b\"\n");
    assert!(RemoteRuntime::load(&place.request("project")).is_err());
}
