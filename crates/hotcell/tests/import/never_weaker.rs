//! For lists made at random: the policy grants nothing that the source did not.

use hotcell::import::Format;
use hotcell::policy::Access;

use super::{HOME, WORKSPACE, import_anyway, policy};

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// A path from so few names that they often contain each other.
    fn path(&mut self) -> String {
        let start = ["/a", "/b", "~", ".", "src"][self.roll(5)];
        (0..self.roll(3)).fold(start.to_owned(), |path, _| format!("{path}/{}", ["x", "y"][self.roll(2)]))
    }
}

fn absolute(path: &str) -> String {
    let path = match path.strip_prefix('~') {
        Some(rest) => format!("{HOME}{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{WORKSPACE}/{path}"),
    };
    path.replace("/./", "/").trim_end_matches("/.").to_owned()
}

/// How long a rule's path is if it covers another; none if it does not.
fn covers(rule: &str, path: &str) -> Option<usize> {
    let rule = absolute(rule);
    (path == rule || path.starts_with(&format!("{rule}/"))).then_some(rule.len())
}

fn probes() -> Vec<String> {
    let mut probes = Vec::new();
    for start in ["/a", "/b", HOME, WORKSPACE, "/home/ada/project/src", "/elsewhere"] {
        for end in ["", "/x", "/y", "/x/x", "/x/y", "/y/x", "/x/x/x", "/other"] {
            probes.push(format!("{start}{end}"));
        }
    }
    probes
}

#[test]
fn srt_lists() {
    let mut dice = Dice(1);
    let mut granted = 0;
    for _ in 0..600 {
        let mut lists: Vec<Vec<String>> = Vec::new();
        for _ in 0..4 {
            let length = dice.roll(4);
            lists.push((0..length).map(|_| dice.path()).collect());
        }
        let [deny_read, allow_read, allow_write, deny_write] = &lists[..] else { unreachable!() };
        let text = serde_json::json!({ "filesystem": {
            "denyRead": deny_read, "allowRead": allow_read, "allowWrite": allow_write, "denyWrite": deny_write,
        }})
        .to_string();
        let toml = import_anyway(Format::Srt, &text).toml;
        let policy = policy(&toml);
        for probe in probes() {
            let nearest = |list: &[String]| list.iter().filter_map(|rule| covers(rule, &probe)).max();
            let readable = nearest(deny_read).is_none_or(|deny| nearest(allow_read).is_some_and(|allow| allow >= deny));
            let writable = nearest(allow_write).is_some() && nearest(deny_write).is_none();
            let access = policy.filesystem.effective_access(probe.as_ref());
            assert!(access < Access::Read || readable, "{probe} can be read:\n{text}\n{toml}");
            assert!(access < Access::Overlay || writable, "{probe} can be written:\n{text}\n{toml}");
            granted += usize::from(access == Access::Write);
        }
    }
    assert!(granted > 1000, "the test would pass without granting anything: {granted}");
}

#[test]
fn codex_profiles() {
    let mut dice = Dice(2);
    let mut granted = 0;
    for _ in 0..600 {
        let mut rules: Vec<(String, &str)> = Vec::new();
        for _ in 0..dice.roll(6) {
            let path = dice.path();
            let path = if path.starts_with('.') || path.starts_with('s') { absolute(&path) } else { path };
            let access = ["read", "write", "deny"][dice.roll(3)];
            if rules.iter().all(|(other, _)| absolute(other) != absolute(&path)) {
                rules.push((path, access));
            }
        }
        let mut text = "default_permissions = \"p\"\n[permissions.p.filesystem]\n".to_owned();
        rules.iter().for_each(|(path, access)| text.push_str(&format!("\"{path}\" = \"{access}\"\n")));
        let root = ["", "\":root\" = \"read\"\n"][dice.roll(2)];
        text.push_str(root);
        let toml = import_anyway(Format::Codex, &text).toml;
        let policy = policy(&toml);
        for probe in probes() {
            let nearest = rules.iter().filter_map(|(path, access)| Some((covers(path, &probe)?, *access))).max();
            let allowed = nearest.map_or(if root.is_empty() { "deny" } else { "read" }, |(_, access)| access);
            let access = policy.filesystem.effective_access(probe.as_ref());
            assert!(access < Access::Read || allowed != "deny", "{probe} can be read:\n{text}\n{toml}");
            assert!(access < Access::Overlay || allowed == "write", "{probe} can be written:\n{text}\n{toml}");
            granted += usize::from(access == Access::Write);
        }
    }
    assert!(granted > 1000, "the test would pass without granting anything: {granted}");
}
