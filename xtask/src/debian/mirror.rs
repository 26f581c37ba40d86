//! Which Debian mirror this machine uses: the one that its own apt is configured with.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail};

/// Finds the mirror in a file's text.
type Reader = fn(&str) -> Option<String>;

/// Where a Debian system names its mirror, and how to read it there. The first that names one counts.
const SOURCES: &[(&str, Reader)] =
    &[("/etc/apt/sources.list.d/debian.sources", in_stanzas), ("/etc/apt/sources.list", in_lines)];

/// Debian's own names for its releases. Other repositories have `main` too, but none of these.
const DEBIAN_SUITES: &[&str] = &[
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "sid",
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
];

/// The mirror's address.
pub(crate) fn find() -> Result<String> {
    for (path, read) in SOURCES {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        if let Some(mirror) = read(&text) {
            return Ok(mirror);
        }
    }
    let places: Vec<&str> = SOURCES.iter().map(|(path, _)| *path).collect();
    bail!(
        "no Debian mirror is named in {}: packages come from the mirror that this machine's apt uses, so this works on \
         Debian only",
        places.join(" or ")
    )
}

/// Reads the format of `.sources` files: stanzas of fields.
fn in_stanzas(text: &str) -> Option<String> {
    let mut stanza: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            if let Some(mirror) = of_stanza(&stanza) {
                return Some(mirror);
            }
            stanza.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    None
}

fn of_stanza(stanza: &[(String, String)]) -> Option<String> {
    let words = |wanted: &str| {
        let value = stanza.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value);
        value.split_whitespace()
    };
    let off = words("enabled").any(|word| ["no", "false", "without", "off", "disable"].contains(&word));
    if off || !words("types").any(|word| word == "deb") {
        return None;
    }
    of_entry(words("uris"), words("suites"), words("components"))
}

/// Reads the format of `sources.list`: one entry per line, `deb [options] uri suite component…`.
fn in_lines(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut rest = line.trim().strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        if let Some(options) = rest.strip_prefix('[') {
            rest = options.split_once(']')?.1;
        }
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        of_entry([uri].into_iter(), [suite].into_iter(), words)
    })
}

/// The mirror of an entry, if that entry is Debian itself rather than its updates or somebody else's packages.
fn of_entry<'a>(
    mut uris: impl Iterator<Item = &'a str>,
    mut suites: impl Iterator<Item = &'a str>,
    mut components: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if !suites.any(|suite| DEBIAN_SUITES.contains(&suite)) || !components.any(|component| component == "main") {
        return None;
    }
    uris.find(|uri| !uri.starts_with("cdrom:")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_name_the_mirror() {
        let text = "# ours\nTypes: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\n\
                    Components: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://source.example/debian\nSuites: bookworm\nComponents: main\n\n\
                    types: deb deb-src\n# a snapshot\nURIs:\n http://mirror.example/debian\nSuites: bookworm\n bookworm-updates\n\
                    Components: main contrib\nSigned-By: /a/key\n";
        assert_eq!(in_stanzas(text).as_deref(), Some("http://mirror.example/debian"));
    }

    #[test]
    fn lines_name_the_mirror() {
        let text = "# deb http://comment.example/debian bookworm main\n\
                    deb cdrom:[Debian]/ bookworm main\n\
                    deb-src http://source.example/debian bookworm main\n\
                    deb http://mirror.example/security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/a/key] https://other.example/node nodistro main\n\
                    deb https://other.example/docker bookworm stable\n\
                    deb [ signed-by=/a/key ] https://mirror.example/debian/ bookworm main # here\n";
        assert_eq!(in_lines(text).as_deref(), Some("https://mirror.example/debian/"));
        assert_eq!(
            in_lines("deb\thttp://mirror.example/debian\tsid main").as_deref(),
            Some("http://mirror.example/debian")
        );
    }

    #[test]
    fn a_system_without_debian_s_packages_has_no_mirror() {
        assert_eq!(in_lines("deb http://mirror.example/ubuntu noble main universe\ndeb\ndeb x\n"), None);
        assert_eq!(in_stanzas("Types: deb\nURIs: http://m.example/ubuntu\nSuites: noble\nComponents: main\n"), None);
        assert_eq!(in_stanzas(" a line that continues nothing\n"), None);
    }
}
