//! What is read, from where, and what is refused.

mod remote;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hotcell_core::config::{Layer, Origin};
use hotcell_core::policy::{Access, Policy};
use hotcell_core::presets::Preset;

use super::{RemoteRuntime, Request, Settings, default_view};

/// A directory of the test's own, removed with it: `home` and a `project` apart from it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hotcell-settings-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir_all(place.join("home/.config/hotcell")).unwrap();
        fs::create_dir_all(place.join("project/sub")).unwrap();
        Self(place.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn request(&self, cwd: &str) -> Request {
        let home = (OsString::from("HOME"), self.path("home").into_os_string());
        Request { cwd: self.path(cwd), environment: vec![home], ..Request::default() }
    }

    fn error(&self, request: &Request) -> String {
        Settings::load(request).unwrap_err().to_string().replace(self.0.to_str().unwrap(), "@")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn flag(request: &mut Request, key: &str, name: &str, text: &str) {
    request.flags.set(key, text, Origin::flag(name)).unwrap();
}

const USER_FILE: &str = "home/.config/hotcell/hotcell.toml";

#[test]
fn without_anything_the_current_directory_is_readable() {
    let place = Place::new();
    let settings = Settings::load(&place.request("project")).unwrap();
    let rules = &settings.policy.filesystem.rules;
    assert_eq!(rules.len(), 1);
    assert_eq!((rules[0].path.as_path(), rules[0].access), (place.path("project").as_path(), Access::Read));
    assert_eq!(settings.policy.process.cwd, Some(place.path("project")));
    assert!(settings.sources.is_empty());
}

#[test]
fn layers_are_found_and_named() {
    let place = Place::new();
    let own = place.write(USER_FILE, "[limits]\nmemory = \"512m\"\nprocesses = 50\n");
    let project = place.write("project/hotcell.toml", "[limits]\nmemory = \"128m\"\n");
    let mut request = place.request("project/sub");
    request.environment.push(("HOTCELL_PROCESSES".into(), "40".into()));
    let settings = Settings::load(&request).unwrap();
    assert_eq!(settings.sources, [own, project]);
    assert_eq!(settings.policy.limits.memory.value, Some(128 << 20));
    assert_eq!(settings.policy.limits.processes.value, Some(40));
    flag(&mut request, "limits.memory", "--memory", "2g");
    assert_eq!(Settings::load(&request).unwrap().policy.limits.memory.value, Some(2 << 30));
}

#[test]
fn xdg_config_home_is_used_if_it_is_absolute() {
    let place = Place::new();
    place.write(USER_FILE, "[limits]\nmemory = \"512m\"\n");
    let mut request = place.request("project");
    request.environment.push(("XDG_CONFIG_HOME".into(), place.path("elsewhere").into()));
    assert!(Settings::load(&request).unwrap().sources.is_empty());
    request.environment.pop();
    request.environment.push(("XDG_CONFIG_HOME".into(), "relative".into()));
    assert_eq!(Settings::load(&request).unwrap().sources.len(), 1);
}

#[test]
fn the_search_for_a_project_file_ends_at_the_repository_and_at_home() {
    let place = Place::new();
    place.write("project/hotcell.toml", "[limits]\nmemory = \"1m\"\n");
    fs::create_dir(place.path("project/sub/.git")).unwrap();
    assert!(Settings::load(&place.request("project/sub")).unwrap().sources.is_empty());
    place.write("project/sub/hotcell.toml", "");
    assert_eq!(Settings::load(&place.request("project/sub")).unwrap().sources.len(), 1);

    place.write("home/hotcell.toml", "[limits]\nmemory = \"1m\"\n");
    fs::create_dir(place.path("home/work")).unwrap();
    assert!(Settings::load(&place.request("home/work")).unwrap().sources.is_empty());
}

#[test]
fn a_project_file_can_only_tighten_unless_it_is_named() {
    let place = Place::new();
    let file = place.write("project/hotcell.toml", "[network]\nmode = \"open\"\n");
    let mut request = place.request("project");
    assert!(place.error(&request).starts_with("hotcell.toml:2: a project file can only tighten"));
    request.policy_file = Some("hotcell.toml".into());
    assert_eq!(Settings::load(&request).unwrap().sources, std::slice::from_ref(&file));
    // Another file does not switch the project's off.
    request.policy_file = Some(place.write("mine.toml", ""));
    assert!(place.error(&request).contains("can only tighten"));
    request.policy_file = None;
    request.environment.push(("HOTCELL_POLICY".into(), file.into()));
    assert!(Settings::load(&request).is_ok());
}

#[test]
fn a_project_cannot_reach_out_through_a_link() {
    let place = Place::new();
    place.write("home/secret", "");
    symlink(place.path("home"), place.path("project/link")).unwrap();
    place.write("project/hotcell.toml", "[filesystem]\nread = [\"link\"]\n");
    let error = place.error(&place.request("project"));
    assert!(error.starts_with("hotcell.toml:2: `filesystem.read` names `@/home`, which is outside of"), "{error}");
}

#[test]
fn files_that_are_none_are_refused() {
    let place = Place::new();
    let mut request = place.request("project");
    request.policy_file = Some("sub".into());
    assert_eq!(place.error(&request), "the policy file `@/project/sub` is a directory, not a file");
    request.policy_file = Some("nothing.toml".into());
    assert!(place.error(&request).starts_with("cannot read the policy file `@/project/nothing.toml`: No such file"));
    request.policy_file = Some("".into());
    assert!(place.error(&request).starts_with("--policy: the file's name is empty"));
    request.policy_file = Some("/dev/zero".into());
    assert_eq!(place.error(&request), "the policy file `/dev/zero` is larger than 1048576 bytes");
    fs::write(place.path("binary"), [0xff, 0xfe]).unwrap();
    request.policy_file = Some(place.path("binary"));
    assert_eq!(place.error(&request), "the policy file `@/binary` is not UTF-8 text");

    fs::create_dir(place.path("project/hotcell.toml")).unwrap();
    let error = place.error(&place.request("project"));
    assert_eq!(error, "the policy file `@/project/hotcell.toml` is a directory, not a file");
}

#[test]
fn a_file_that_everybody_may_write_is_not_obeyed() {
    let place = Place::new();
    let own = place.write(USER_FILE, "");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o666)).unwrap();
    let error = place.error(&place.request("project"));
    assert!(error.contains("is not obeyed: everybody may write it; "), "{error}");
    let mut request = place.request("project");
    request.policy_file = Some(own.clone());
    assert!(place.error(&request).contains("is not obeyed"));
    fs::set_permissions(&own, fs::Permissions::from_mode(0o664)).unwrap();
    assert!(Settings::load(&request).is_ok());
}

#[test]
fn a_missing_path_is_named_and_a_missing_denied_one_is_fine() {
    let place = Place::new();
    let mut request = place.request("project");
    flag(&mut request, "filesystem.deny", "--deny", "sub/secrets/key");
    flag(&mut request, "filesystem.read", "--read", "../home");
    let files = Settings::load(&request).unwrap().policy.filesystem;
    assert_eq!(files.access(&place.path("project/sub/secrets/key")), Access::Deny);
    assert_eq!(files.access(&place.path("home/x")), Access::Read);
    flag(&mut request, "filesystem.write", "--write", "nope");
    assert_eq!(place.error(&request), "--write: `@/project/nope` does not exist; make it first, or name another path");
}

#[test]
fn links_lead_to_the_real_place() {
    let place = Place::new();
    symlink("sub", place.path("project/link")).unwrap();
    let mut request = place.request("project/link");
    flag(&mut request, "filesystem.write", "--write", ".");
    let policy = Settings::load(&request).unwrap().policy;
    let sub = place.path("project/sub");
    assert_eq!(policy.filesystem.access(&sub), Access::Write);
    assert_eq!(policy.process.cwd, Some(sub));
}

#[test]
fn from_a_home_directory_something_must_be_named() {
    let place = Place::new();
    let mut request = place.request("home");
    let error = place.error(&request);
    assert!(error.starts_with("`@/home` is a home directory or above one"), "{error}");
    assert!(error.ends_with("--read DIR --cwd DIR"), "{error}");
    // What is named elsewhere does not say where to start.
    flag(&mut request, "filesystem.read", "--read", "../project");
    assert!(Settings::load(&request).is_err());
    flag(&mut request, "process.cwd", "--cwd", "../project");
    let policy = Settings::load(&request).unwrap().policy;
    assert_eq!(policy.process.cwd, Some(place.path("project")));
    assert_eq!(policy.filesystem.access(&place.path("home")), Access::Deny);

    let mut request = place.request("home");
    flag(&mut request, "filesystem.read", "--read", ".");
    assert_eq!(Settings::load(&request).unwrap().policy.process.cwd, Some(place.path("home")));
}

#[test]
fn a_denied_current_directory_is_no_place_to_start() {
    let place = Place::new();
    let mut request = place.request("project");
    flag(&mut request, "filesystem.deny", "--deny", ".");
    let policy = Settings::load(&request).unwrap().policy;
    assert_eq!(policy.process.cwd, None);
    assert_eq!(policy.filesystem.access(&place.path("project")), Access::Deny);
}

#[test]
fn what_is_not_shown_is_known_without_a_home_variable() {
    for not_shown in ["/", "/home", "/home/somebody", "/root", "/etc", "/etc/ssl", "/dev/shm", "/var"] {
        assert!(default_view(Path::new(not_shown), None).is_none(), "{not_shown}");
    }
    for shown in ["/srv", "/tmp", "/var/www/site", "/home/somebody/project", "/root/project"] {
        assert!(default_view(Path::new(shown), None).is_some(), "{shown}");
    }
}

#[test]
fn a_preset_is_about_the_current_directory() {
    let place = Place::new();
    // The root of the project's file is above the current directory, and is not what the preset is about.
    place.write("project/hotcell.toml", "[limits]\ntimeout = \"7s\"\n");
    place.write(USER_FILE, "[sandbox]\npreset = \"workspace-write\"\n");
    let settings = Settings::load(&place.request("project/sub")).unwrap();
    let files = &settings.policy.filesystem;
    assert_eq!(files.access(&place.path("project/sub/x")), Access::Write);
    assert_eq!(files.access(&place.path("project/x")), Access::Deny);
    let preset = settings.preset.unwrap();
    assert_eq!((preset.value, preset.origin.line), (Preset::WorkspaceWrite, Some(2)));

    let mut request = place.request("project/sub");
    request.environment.push(("HOTCELL_PRESET".into(), "read-only".into()));
    assert_eq!(Settings::load(&request).unwrap().policy.filesystem.access(&place.path("project/sub")), Access::Read);
    flag(&mut request, "sandbox.preset", "--preset", "offline");
    assert_eq!(Settings::load(&request).unwrap().policy.filesystem.access(&place.path("project/sub")), Access::Overlay);
    flag(&mut request, "network.mode", "--net", "open");
    assert!(place.error(&request).starts_with("--net: `network.mode` asks for an open network, but --preset chooses"));
}

#[test]
fn the_callers_preset_is_the_weakest() {
    let place = Place::new();
    let mut request = place.request("project");
    request.defaults.set("sandbox.preset", "workspace-overlay", Origin::layer(Layer::Default)).unwrap();
    assert_eq!(Settings::load(&request).unwrap().policy.filesystem.access(&place.path("project")), Access::Overlay);
    place.write(USER_FILE, "[sandbox]\npreset = \"read-only\"\n");
    assert_eq!(Settings::load(&request).unwrap().policy.filesystem.access(&place.path("project")), Access::Read);
}

#[test]
fn no_preset_shows_a_home_directory() {
    let place = Place::new();
    for preset in Preset::ALL {
        let mut request = place.request("home");
        flag(&mut request, "sandbox.preset", "--preset", preset.as_str());
        let error = place.error(&request);
        assert!(error.starts_with("`@/home` is a home directory or above one"), "{preset}: {error}");
        flag(&mut request, "filesystem.overlay", "--overlay", ".");
        assert_eq!(Settings::load(&request).unwrap().policy.filesystem.access(&place.path("home")), Access::Overlay);
    }
}

#[test]
fn languages_are_the_users_alone() {
    let place = Place::new();
    let languages = "[languages.lua]\ncommand = [\"lua\", \"-\"]\n";
    place.write(USER_FILE, languages);
    let settings = Settings::load(&place.request("project")).unwrap();
    assert_eq!(settings.languages["lua"], ["lua", "-"]);
    place.write("project/hotcell.toml", languages);
    let error = place.error(&place.request("project"));
    assert!(error.starts_with("hotcell.toml:1: a project file may not set `languages`: "), "{error}");
}

#[test]
fn the_box_cannot_write_the_policy_of_the_next_run() {
    let place = Place::new();
    let policy_file = place.write("project/sub/mine.toml", "[filesystem]\nwrite = [\".\"]\n");
    let mut request = place.request("project");
    request.policy_file = Some("sub/mine.toml".into());
    let access = |request: &Request, path: &Path| {
        let files = Settings::load(request).unwrap().policy.filesystem;
        assert!(files.protect_paths.is_sorted());
        files.effective_access(path)
    };
    assert_eq!(access(&request, &policy_file), Access::Read);
    assert_eq!(access(&request, &place.path("project/sub/other.toml")), Access::Write);
    // A link is what is read next time, and so is what it leads to.
    symlink(&policy_file, place.path("project/link.toml")).unwrap();
    request.policy_file = Some("link.toml".into());
    assert_eq!(access(&request, &place.path("project/link.toml")), Access::Read);
    assert_eq!(access(&request, &policy_file), Access::Read);
    // A file of the user's own, in a home that the box may write.
    let own = place.write(USER_FILE, "[filesystem]\nwrite = [\"~/\"]\n");
    assert_eq!(access(&place.request("project"), &own), Access::Read);
    assert_eq!(access(&place.request("project"), &place.path("home/x")), Access::Write);
    // Who unprotects a name means it.
    place.write(USER_FILE, "[filesystem]\nwrite = [\".\"]\nunprotect = [\"hotcell.toml\"]\n");
    let project = place.write("project/hotcell.toml", "[limits]\nmemory = \"64m\"\n");
    assert_eq!(access(&place.request("project"), &project), Access::Write);
    place.write("project/sub/mine.toml", "[filesystem]\nwrite = [\".\"]\nunprotect = [\"sub/mine.toml\"]\n");
    request.policy_file = Some("sub/mine.toml".into());
    assert_eq!(access(&request, &policy_file), Access::Write);
}

/// What a box of this request can do to the path.
#[track_caller]
fn access(request: &Request, path: &Path) -> Access {
    Settings::load(request).unwrap().policy.filesystem.effective_access(path)
}

#[test]
fn a_file_that_was_read_is_protected_in_its_own_tree_alone() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    let mine = place.write("project/mine.toml", "");
    let mut request = place.request("project");
    flag(&mut request, "filesystem.write", "--write", ".");
    flag(&mut request, "filesystem.write", "--write", "../other");
    request.policy_file = Some("mine.toml".into());
    assert_eq!(access(&request, &mine), Access::Read);
    assert_eq!(access(&request, &place.path("other/mine.toml")), Access::Write);
    let files = Settings::load(&request).unwrap().policy.filesystem;
    assert_eq!(files.protect_paths, [mine]);
    // Where the box writes nothing, there is nothing to protect.
    assert!(Settings::load(&place.request("project/sub")).unwrap().policy.filesystem.protect_paths.is_empty());
}

#[test]
fn the_users_own_file_is_protected_also_where_it_was_not_read() {
    let place = Place::new();
    let own = place.path(USER_FILE);
    let mut request = place.request("project");
    flag(&mut request, "filesystem.write", "--write", place.path("home").to_str().unwrap());
    assert_eq!(access(&request, &own), Access::Read, "it does not exist yet");
    place.write(USER_FILE, "");
    place.write("mine.toml", "");
    request.policy_file = Some(place.path("mine.toml"));
    assert_eq!(access(&request, &own), Access::Read, "another file was read");
    assert_eq!(access(&request, &place.path("home/.config/hotcell/x")), Access::Write);
}

#[test]
fn every_link_on_the_way_to_a_file_is_protected() {
    let place = Place::new();
    let mut request = place.request("project");
    flag(&mut request, "filesystem.write", "--write", place.0.to_str().unwrap());
    flag(&mut request, "filesystem.write", "--write", ".");
    // A linked directory above it, relative and by way of its parent.
    fs::create_dir(place.path("dotfiles")).unwrap();
    fs::rename(place.path("home/.config"), place.path("dotfiles/config")).unwrap();
    symlink("../dotfiles/./config", place.path("home/.config")).unwrap();
    // A chain of links, one of them absolute.
    place.write("project/sub/real.toml", "");
    symlink("sub/real.toml", place.path("project/second.toml")).unwrap();
    symlink(place.path("project/second.toml"), place.path("project/first.toml")).unwrap();
    request.policy_file = Some("first.toml".into());
    let mut expected = [
        "dotfiles/config/hotcell/hotcell.toml",
        "home/.config",
        "project/first.toml",
        "project/second.toml",
        "project/sub/real.toml",
    ]
    .map(|name| place.path(name));
    expected.sort();
    assert_eq!(Settings::load(&request).unwrap().policy.filesystem.protect_paths, expected);
    // Links that lead nowhere end.
    symlink("hotcell.toml", place.path("dotfiles/config/hotcell/hotcell.toml")).unwrap();
    assert_eq!(access(&request, &place.path("dotfiles/config/hotcell/hotcell.toml")), Access::Read);
}

#[test]
fn names_are_unprotected_however_they_are_written() {
    let place = Place::new();
    let mine =
        place.write("project/sub/mine.toml", "[filesystem]\nwrite = [\".\"]\nunprotect = [\"./sub/./mine.toml\"]\n");
    let mut request = place.request("project");
    request.policy_file = Some("sub/mine.toml".into());
    assert_eq!(access(&request, &mine), Access::Write);
}
