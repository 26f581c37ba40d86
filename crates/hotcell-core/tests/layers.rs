//! How layers become a policy: precedence, paths, and what a project file may say.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests assert by panicking")]

use std::path::{Path, PathBuf};

use hotcell_core::capability::Control;
use hotcell_core::config::{Config, Layer, Origin, environment_config};
use hotcell_core::layers::{Context, Layers, PolicyError, resolve};
use hotcell_core::policy::{Access, BoxUser, NetworkMode, Policy, PullPolicy};
use hotcell_core::runtime::{Isolation, RuntimeChoice, RuntimeKind};

fn context() -> Context {
    Context { root: "/w/app".into(), home: Some("/home/me".into()) }
}

fn user(text: &str) -> Layers {
    Layers { user: Some(Config::parse(text, "user.toml", Layer::User).unwrap()), ..Layers::default() }
}

fn with_project(mut layers: Layers, text: &str) -> Layers {
    layers.project = Some(Config::parse(text, "hotcell.toml", Layer::Project).unwrap());
    layers
}

fn with_flags(mut layers: Layers, flags: &[(&str, &str)]) -> Layers {
    for (key, text) in flags {
        layers.flags.set(key, text, Origin::flag("--flag")).unwrap();
    }
    layers
}

fn policy(layers: &Layers) -> Policy {
    resolve(layers, &context()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(layers: &Layers) -> String {
    resolve(layers, &context()).unwrap_err().to_string()
}

fn access(policy: &Policy, path: &str) -> Access {
    policy.filesystem.effective_access(Path::new(path))
}

#[test]
fn nothing_written_is_the_default_policy() {
    assert_eq!(policy(&Layers::default()), Policy::default());
}

#[test]
fn later_layers_win() {
    let mut layers = with_project(user("[limits]\nmemory = \"512m\"\ntimeout = 60"), "[limits]\nmemory = \"256m\"");
    assert_eq!(policy(&layers).limits.memory.value, Some(256 << 20));
    layers.environment = environment_config([("HOTCELL_MEMORY".into(), "2g".into())]).unwrap();
    assert_eq!(policy(&layers).limits.memory.value, Some(2 << 30));
    let layers = with_flags(layers, &[("limits.memory", "unlimited")]);
    let limits = policy(&layers).limits;
    assert_eq!((limits.memory.value, limits.memory.explicit), (None, true));
    assert_eq!(limits.timeout.value.unwrap().as_secs(), 60);
    assert!(!limits.disk.explicit);
}

#[test]
fn paths_are_resolved_by_text() {
    let layers = user("[filesystem]\nread = [\"src/../lib\", \"~/data/\", \"/opt//x/.\"]\nwrite = [\".\"]");
    let policy = policy(&layers);
    let paths: Vec<_> = policy.filesystem.rules.iter().map(|rule| rule.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["/opt/x", "/w/app", "/home/me/data", "/w/app/lib"]);
}

#[test]
fn paths_that_leave_the_root_or_mean_nothing_are_errors() {
    let cases = [
        (
            "../x",
            "user.toml:2: `filesystem.read` names `../x`, which is outside of `/w/app`; write an absolute path in your own file or as a flag",
        ),
        (
            "a/../../app/b",
            "user.toml:2: `filesystem.read` names `a/../../app/b`, which is outside of `/w/app`; write an absolute path in your own file or as a flag",
        ),
        (
            "~you/x",
            "user.toml:2: `filesystem.read` cannot name `~you/x`: only your own home can be written as `~/…`; for a file of that name write `./~…`",
        ),
    ];
    for (path, expected) in cases {
        assert_eq!(error(&user(&format!("[filesystem]\nread = [\"{path}\"]"))), expected);
    }
    let homeless = Context { home: None, ..context() };
    let message = resolve(&user("[filesystem]\nread = [\"~\"]"), &homeless).unwrap_err().to_string();
    assert!(message.contains("no home directory is known"), "{message}");
    for name in ["/abs", "../up", ".", "a/../b"] {
        let message = error(&user(&format!("[filesystem]\nprotect = [\"{name}\"]")));
        assert!(message.starts_with("user.toml:2: `filesystem.protect` cannot name"), "{message}");
    }
}

#[test]
fn one_layer_may_not_contradict_itself() {
    let message = error(&user("[filesystem]\nread = [\"a\"]\ndeny = [\"./a\"]"));
    assert_eq!(
        message,
        "user.toml:3: `filesystem.deny` contradicts `filesystem.read` at user.toml:2: both name `/w/app/a`; keep one"
    );
    let message = error(&user("[env]\npass = [\"A\"]\nset = { A = \"b\" }"));
    assert_eq!(message, "user.toml:3: `env.set` contradicts `env.pass` at user.toml:2: both name `A`; keep one");
    let message = error(&user("[filesystem]\nprotect = [\"x\"]\nunprotect = [\"x\"]"));
    assert!(message.contains("contradicts `filesystem.protect`"), "{message}");
    // Saying the same twice is none.
    assert_eq!(policy(&user("[filesystem]\nread = [\"a\", \"./a\"]")).filesystem.rules.len(), 1);
}

#[test]
fn the_most_specific_rule_wins_and_deny_wins_a_tie() {
    let layers =
        user("[filesystem]\nwrite = [\"/d\"]\nread = [\"/d/a\"]\ndeny = [\"/d/a/b\"]\noverlay = [\"/d/a/b/c\"]");
    let granted = policy(&layers);
    for (path, expected) in [
        ("/d/x", Access::Write),
        ("/d/a/x", Access::Read),
        ("/d/a/b", Access::Deny),
        ("/d/a/bb", Access::Read),
        ("/d/a/b/c/x", Access::Overlay),
        ("/d/x/../a/b/y", Access::Deny),
        ("/", Access::Deny),
        ("d", Access::Deny),
    ] {
        assert_eq!(granted.filesystem.access(Path::new(path)), expected, "{path}");
    }

    let mut tie = user("[filesystem]\nread = [\"/d\"]");
    tie.defaults.set("filesystem.deny", "/d", Origin::layer(Layer::Default)).unwrap();
    assert_eq!(access(&policy(&tie), "/d"), Access::Deny);
    assert_eq!(access(&policy(&with_flags(tie, &[("filesystem.read", "/d")])), "/d"), Access::Read);
}

#[test]
fn a_project_file_may_narrow_what_the_user_grants() {
    let layers = with_project(
        user(
            "[filesystem]\nwrite = [\".\"]\n[network]\nmode = \"open\"\n[process]\nuser = \"root\"\ntty = true\n[sandbox]\nmode = \"docker\"\nisolation = \"process\"\napproximate = [\"memory\"]",
        ),
        "[filesystem]\nread = [\"docs\"]\noverlay = [\"src\"]\nwrite = [\"target\"]\ndeny = [\"keys\", \"/etc/ssl\"]\nprotect = [\"deploy\"]\n\
         [network]\nmode = \"deny\"\n[limits]\nmemory = \"64m\"\ncpus = 1\n[env]\npass = [\"LANG\"]\nset = { PATH = \"/bin\" }\n\
         [process]\ncwd = \"src\"\nuser = \"hotcell\"\ntty = false\n[sandbox]\nmode = \"firecracker\"\nisolation = \"microvm\"\napproximate = [\"memory\"]",
    );
    let policy = policy(&layers);
    for (path, expected) in [
        ("/w/app/docs", Access::Read),
        ("/w/app/src", Access::Overlay),
        ("/w/app/target", Access::Write),
        ("/w/app/keys", Access::Deny),
        ("/w/app/deploy/run", Access::Read),
        ("/w/app/target/deploy", Access::Read),
        ("/etc/ssl", Access::Deny),
    ] {
        assert_eq!(access(&policy, path), expected, "{path}");
    }
    assert_eq!(policy.network, NetworkMode::Deny);
    assert_eq!(policy.limits.memory.value, Some(64 << 20));
    assert_eq!(policy.process.user, Some(BoxUser::HOTCELL));
    assert_eq!(policy.process.cwd.as_deref(), Some(Path::new("/w/app/src")));
    assert!(!policy.process.tty);
    assert_eq!(policy.runtime, RuntimeChoice::Kind(RuntimeKind::Firecracker));
    assert_eq!(policy.isolation, Some(Isolation::MicroVm));
    assert!(policy.approximate.contains(&Control::Memory));
}

#[test]
fn a_project_file_can_only_tighten() {
    let own = "[filesystem]\nread = [\".\"]\nwrite = [\"out\"]\n[sandbox]\nisolation = \"container\"\nmode = \"docker\"\n[limits]\nmemory = \"512m\"";
    let cases = [
        (
            "[filesystem]\nwrite = [\"src\"]",
            "hotcell.toml:2: a project file can only tighten: `filesystem.write` asks for write access to /w/app/src, but read access is all that it has there; if you trust it, put `write = [\"/w/app/src\"]` under [filesystem] into your own file, or pass --write /w/app/src",
        ),
        (
            "[filesystem]\noverlay = [\".\"]",
            "hotcell.toml:2: a project file can only tighten: `filesystem.overlay` asks for overlay access to /w/app, but read access is all that it has there; if you trust it, put `overlay = [\"/w/app\"]` under [filesystem] into your own file, or pass --overlay /w/app",
        ),
        (
            "[filesystem]\nread = [\"/etc\"]",
            "hotcell.toml:2: `filesystem.read` names `/etc`, which is outside of `/w/app`; a project file can only name what is beneath it, except to deny it",
        ),
        (
            "[filesystem]\nread = [\"~/x\"]",
            "hotcell.toml:2: `filesystem.read` names `~/x`, which is outside of `/w/app`; a project file can only name what is beneath it, except to deny it",
        ),
        (
            "[filesystem]\nwrite = [\"out/.git/hooks\"]",
            "hotcell.toml:2: a project file can only tighten: `filesystem.write` asks for write access to /w/app/out/.git/hooks, but read access is all that it has there; if you trust it, put `write = [\"/w/app/out/.git/hooks\"]` under [filesystem] into your own file, or pass --write /w/app/out/.git/hooks",
        ),
        (
            "[network]\nmode = \"open\"",
            "hotcell.toml:2: a project file can only tighten: `network.mode` asks for an open network, but the network is denied; if you trust it, put `mode = \"open\"` under [network] into your own file, or pass --net open",
        ),
        (
            "[limits]\nmemory = \"1g\"",
            "hotcell.toml:2: a project file can only tighten: `limits.memory` asks for 1 GiB, but 512 MiB is the limit (user.toml:8); if you trust it, put `memory = \"1g\"` under [limits] into your own file, or pass --memory 1g",
        ),
        (
            "[limits]\ntimeout = \"1h\"",
            "hotcell.toml:2: a project file can only tighten: `limits.timeout` asks for 3600 s, but 300 s is the limit (default); if you trust it, put `timeout = \"3600s\"` under [limits] into your own file, or pass --timeout 3600s",
        ),
        (
            "[env]\npass = [\"AWS_SECRET_ACCESS_KEY\"]",
            "hotcell.toml:2: a project file can only tighten: `env.pass` asks for the variable AWS_SECRET_ACCESS_KEY of the host, but it is not passed; if you trust it, put `pass = [\"AWS_SECRET_ACCESS_KEY\"]` under [env] into your own file, or pass --pass-env AWS_SECRET_ACCESS_KEY",
        ),
        (
            "[sandbox]\nisolation = \"process\"",
            "hotcell.toml:2: a project file can only tighten: `sandbox.isolation` asks for isolation process, but container is asked for; if you trust it, put `isolation = \"process\"` under [sandbox] into your own file, or pass --isolation process",
        ),
        (
            "[sandbox]\nmode = \"native\"",
            "hotcell.toml:2: a project file can only tighten: `sandbox.mode` asks for the runtime native, but it can be weaker than docker; if you trust it, put `mode = \"native\"` under [sandbox] into your own file, or pass --runtime native",
        ),
        (
            "[sandbox]\nmode = \"e2b\"",
            "hotcell.toml:2: a project file can only tighten: `sandbox.mode` asks for the runtime e2b, but it would send files and code to another machine; if you trust it, put `mode = \"e2b\"` under [sandbox] into your own file, or pass --runtime e2b",
        ),
        (
            "[sandbox]\napproximate = [\"memory\"]",
            "hotcell.toml:2: a project file can only tighten: `sandbox.approximate` asks for an approximation of memory, but it has to be enforced; if you trust it, put `approximate = [\"memory\"]` under [sandbox] into your own file",
        ),
        (
            "[process]\nuser = \"root\"",
            "hotcell.toml:2: a project file can only tighten: `process.user` asks for root in the box, but the code runs as an ordinary user; if you trust it, put `user = \"root\"` under [process] into your own file",
        ),
        (
            "[process]\ntty = true",
            "hotcell.toml:2: a project file can only tighten: `process.tty` asks for a terminal, but the code has none; if you trust it, put `tty = true` under [process] into your own file, or pass --tty",
        ),
    ];
    for (project, expected) in cases {
        assert_eq!(error(&with_project(user(own), project)), expected);
    }
}

#[test]
fn what_the_error_advises_works() {
    let project = "[limits]\nmemory = \"2g\"\n[network]\nmode = \"open\"\n[filesystem]\nwrite = [\"src\"]";
    let layers = with_project(Layers::default(), project);
    assert!(matches!(resolve(&layers, &context()), Err(PolicyError::ProjectLoosens { .. })));
    let flags = [("limits.memory", "2g"), ("network.mode", "open"), ("filesystem.write", "/w/app/src")];
    let policy = policy(&with_flags(layers, &flags));
    assert_eq!(access(&policy, "/w/app/src"), Access::Write);
    assert_eq!(policy.limits.memory.value, Some(2 << 30));
}

#[test]
fn a_projects_deny_and_protect_hold_unless_a_flag_names_the_same_path() {
    let layers = with_project(
        user("[filesystem]\nwrite = [\".\"]\nread = [\"keys\"]\nunprotect = [\"deploy\", \".vscode\"]"),
        "[filesystem]\ndeny = [\"keys\"]\nprotect = [\"deploy\"]",
    );
    let held = policy(&layers);
    assert_eq!(access(&held, "/w/app/keys"), Access::Deny);
    assert_eq!(access(&held, "/w/app/deploy"), Access::Read);
    assert_eq!(access(&held, "/w/app/.vscode"), Access::Write);
    let wide = policy(&with_flags(layers.clone(), &[("filesystem.write", "/w")]));
    assert_eq!(access(&wide, "/w/app/keys"), Access::Deny);
    let named = policy(&with_flags(layers, &[("filesystem.write", "keys"), ("filesystem.unprotect", "deploy")]));
    assert_eq!(access(&named, "/w/app/keys"), Access::Write);
    assert_eq!(access(&named, "/w/app/deploy"), Access::Write);
}

#[test]
fn protected_names_hold_in_every_writable_tree() {
    let paths = |toml: &str| -> Vec<String> {
        let protected = policy(&user(toml)).filesystem.protected_paths();
        protected.iter().map(|protected| protected.path.display().to_string()).collect()
    };
    let some = paths("[filesystem]\nwrite = [\"/a\"]\noverlay = [\"/b\"]\nread = [\"/c\"]");
    assert!(some.contains(&"/a/.git/hooks".to_owned()) && some.contains(&"/b/.git/hooks".to_owned()));
    assert!(!some.iter().any(|path| path.starts_with("/c")));
    // A tree that starts inside the path of a protected name.
    assert!(paths("[filesystem]\nwrite = [\"/a/.git\"]").contains(&"/a/.git/hooks".to_owned()));
    // A narrower rule in between takes over; naming the place itself, writable, is meant.
    assert!(!paths("[filesystem]\nwrite = [\"/a\"]\nread = [\"/a/.git\"]").contains(&"/a/.git/hooks".to_owned()));
    assert!(!paths("[filesystem]\nwrite = [\"/a\", \"/a/.git/hooks\"]").contains(&"/a/.git/hooks".to_owned()));
    // Naming it readable is no reason to let it be created.
    assert!(paths("[filesystem]\nwrite = [\"/a\"]\nread = [\"/a/.git/hooks\"]").contains(&"/a/.git/hooks".to_owned()));
}

#[test]
fn single_places_are_protected_in_the_tree_that_holds_them() {
    let with_places = |toml: &str, places: &[&str]| {
        let mut policy = policy(&user(toml));
        policy.filesystem.protect = Vec::new();
        policy.filesystem.protect_paths = places.iter().map(PathBuf::from).collect();
        policy
    };
    let places = ["/a/x/mine.toml", "/b/mine.toml", "/c/mine.toml", "/d/mine.toml"];
    let held = with_places(
        "[filesystem]\nwrite = [\"/a\", \"/d\", \"/d/mine.toml\"]\noverlay = [\"/b\"]\nread = [\"/c\"]",
        &places,
    );
    let protected = held.filesystem.protected_paths();
    let protected: Vec<_> = protected.iter().map(|place| (place.path.to_str().unwrap(), place.access)).collect();
    assert_eq!(protected, [("/a/x/mine.toml", Access::Write), ("/b/mine.toml", Access::Overlay)]);
    for (path, expected) in [
        ("/a/x/mine.toml", Access::Read),
        ("/a/x/mine.toml/below", Access::Read),
        ("/a/x", Access::Write),
        ("/a/mine.toml", Access::Write),
        ("/b/mine.toml", Access::Read),
        ("/d/mine.toml", Access::Write),
    ] {
        assert_eq!(access(&held, path), expected, "{path}");
    }
    // Both lists hold in what two policies grant.
    let other = with_places("[filesystem]\nwrite = [\"/a\"]", &["/a/other", "/a/x/mine.toml"]);
    let both = held.narrow(&other);
    assert_eq!(both.filesystem.protect_paths.len(), 5);
    assert_eq!((access(&both, "/a/other"), access(&both, "/a/x/mine.toml")), (Access::Read, Access::Read));
    assert!(both.is_at_most(&held) && both.is_at_most(&other) && !held.is_at_most(&other));
    // Policies are shown as ever where there are none.
    let shown = |policy: &Policy| serde_json::to_value(&policy.filesystem).unwrap();
    assert_eq!(shown(&other)["protect_paths"], serde_json::json!(["/a/other", "/a/x/mine.toml"]));
    assert!(shown(&Policy::default()).get("protect_paths").is_none());
}

#[test]
fn values_that_a_program_gives_are_checked_too() {
    let bad = [
        Policy::builder().memory(0).build(),
        Policy::builder().memory(u64::MAX).build(),
        Policy::builder().cpus(-1.0).build(),
        Policy::builder().timeout(std::time::Duration::MAX).build(),
        Policy::builder().read("relative").build(),
        Policy::builder().read("").build(),
        Policy::builder().read("/a\0b").build(),
        Policy::builder().pass_env("A=B").build(),
        Policy::builder().set_env("", "x").build(),
        Policy::builder().set_env("A", "\0").build(),
        Policy::builder().unlimited(Control::Network).build(),
        Policy::builder().read("/a").write("/a").build(),
    ];
    for result in bad {
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with("the calling program: "), "{message}");
    }
}

#[test]
fn what_a_project_names_as_image_is_not_fetched_unasked() {
    let project = "[container]\nimage = \"a/b:1\"\n";
    let container = policy(&with_project(Layers::default(), project)).container;
    assert_eq!(container.image.as_deref(), Some("a/b:1"));
    assert_eq!(container.pull, PullPolicy::Never);
    let asked = with_project(user("[container]\npull = \"missing\"\n"), project);
    assert_eq!(policy(&asked).container.pull, PullPolicy::Missing);
    assert_eq!(policy(&user("[container]\nimage = \"c\"\n")).container.pull, PullPolicy::Missing);
}

#[test]
fn a_project_names_no_program_of_the_host() {
    for line in ["runtime = \"runc\"", "runtime = \"/tmp/evil\"", "pull = \"always\""] {
        let text = format!("[container]\n{line}\n");
        assert!(Config::parse(&text, "hotcell.toml", Layer::Project).is_err(), "{line}");
        assert!(Config::parse(&text, "hotcell.toml", Layer::User).is_ok(), "{line}");
    }
    let parent = Policy::default();
    let child = Policy::builder().oci_runtime("/tmp/evil").pull(PullPolicy::Always).build().unwrap();
    assert!(!child.is_at_most(&parent));
    let both = parent.narrow(&child);
    assert_eq!((both.container.runtime, both.container.pull), (None, PullPolicy::Missing));
}
