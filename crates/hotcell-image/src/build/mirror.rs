//! Which mirror of Debian is used when none is named: that of the machine's own apt.

use std::fs;

use super::error::BuildError;

/// Debian's own address, for machines whose apt knows no Debian.
const DEFAULT: &str = "http://deb.debian.org/debian";

/// Debian's names for its releases. Other distributions have a component `main` too, but none of these.
const SUITES: &[&str] = &[
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "sid",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
];

/// The address of the mirror, without a slash at its end.
pub(super) fn choose(named: Option<&str>) -> Result<String, BuildError> {
    let mirror = named.map(str::to_owned).or_else(of_machine).unwrap_or_else(|| DEFAULT.to_owned());
    // It becomes part of a line that apt reads.
    if !is_address(&mirror) {
        let why = "it is no address of the form http://… or https://…".into();
        return Err(BuildError::Text { what: format!("the mirror `{}`", mirror.escape_debug()), why });
    }
    Ok(mirror.trim_end_matches('/').to_owned())
}

fn is_address(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'[' && byte != b'#');
    plain && (text.starts_with("http://") || text.starts_with("https://"))
}

/// What cannot be read is no reason to stop: there is a default.
fn of_machine() -> Option<String> {
    let read = |path: &str| fs::read_to_string(path).ok();
    read("/etc/apt/sources.list.d/debian.sources")
        .and_then(|text| in_stanzas(&text))
        .or_else(|| read("/etc/apt/sources.list").and_then(|text| in_lines(&text)))
}

/// Reads the format of `.sources` files: stanzas of fields, which continue on lines that begin with a space.
fn in_stanzas(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).find_map(|stanza| {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), fields.last_mut()) {
                value.push(' ');
                value.push_str(line);
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
        let words = |name: &str| {
            let value = fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value);
            value.split_whitespace()
        };
        let off = words("enabled").any(|word| ["no", "false", "without", "off", "disable"].contains(&word));
        (!off && words("types").any(|word| word == "deb"))
            .then(|| of_entry(words("uris"), words("suites"), words("components")))?
    })
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

/// The mirror of an entry, if that entry is Debian itself and not its updates or somebody else's packages.
fn of_entry<'a>(
    mut uris: impl Iterator<Item = &'a str>,
    mut suites: impl Iterator<Item = &'a str>,
    mut components: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if !suites.any(|suite| SUITES.contains(&suite)) || !components.any(|component| component == "main") {
        return None;
    }
    uris.find(|uri| is_address(uri)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_mirror_comes_first() {
        assert_eq!(choose(Some("https://mirror.example/debian/")).unwrap(), "https://mirror.example/debian");
    }

    #[test]
    fn what_apt_would_read_as_more_than_an_address_is_refused() {
        for text in ["", "mirror.example", "http://m.example/ sid main", "http://m.example/\ndeb x", "copy:///x"] {
            assert!(choose(Some(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn stanzas_name_the_mirror() {
        let text = "Types: deb\nURIs: http://m.example/security\nSuites: trixie-security\nComponents: main\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: trixie\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://source.example/debian\nSuites: trixie\nComponents: main\n\n\
                    Types: deb\n# why\nURIs:\n http://m.example/debian\nSuites: trixie\n trixie-updates\nComponents: main\n";
        assert_eq!(in_stanzas(text).as_deref(), Some("http://m.example/debian"));
        assert_eq!(in_stanzas("Types: deb\nURIs: http://m.example/ubuntu\nSuites: noble\nComponents: main\n"), None);
    }

    #[test]
    fn lines_name_the_mirror() {
        let text = "# deb http://comment.example/debian trixie main\ndeb cdrom:[Debian]/ trixie main\n\
                    deb-src http://source.example/debian trixie main\ndeb http://m.example/node nodistro main\n\
                    deb [arch=amd64 signed-by=/k] https://m.example/debian/ trixie main # here\n";
        assert_eq!(in_lines(text).as_deref(), Some("https://m.example/debian/"));
        assert_eq!(in_lines("deb http://m.example/ubuntu noble main\ndeb\ndeb x\n"), None);
    }
}
