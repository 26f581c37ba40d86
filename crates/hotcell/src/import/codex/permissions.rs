//! `default_permissions` and `[permissions.NAME]`: profiles, each made of another one and what it says itself.

use std::path::Path;

use hotcell_core::policy::Access;

use super::super::draft::key_of;
use super::super::paths::{BOXES_OWN, NoPlace, Place, is_boxes_own};
use super::super::tree::{Entry, Value};
use super::super::{ImportError, Importer};
use super::{EVERYTHING_READ, PRIVATE_TMP, ROOT, network, protected_in};

/// Longer chains of profiles than this are a mistake.
const MAX_PROFILES: usize = 32;
const READ_ONLY: &str = ":read-only";
const WORKSPACE: &str = ":workspace";

/// The profiles that the chosen one is made of, itself first.
struct Chain<'a> {
    profiles: Vec<Entry<'a>>,
    /// The built-in one at its end.
    built_in: Option<&'a str>,
}

/// One rule of a profile.
struct Rule<'a> {
    /// The place: a path or a word such as `:root`.
    place: &'a str,
    /// The path beneath it; "." is the place itself.
    inside: &'a str,
    access: Access,
    /// Where it is written; none for a rule of a built-in profile.
    entry: Option<Entry<'a>>,
}

pub(super) fn read(importer: &mut Importer, top: &Entry<'_>, chosen: &Entry<'_>) -> Result<(), ImportError> {
    let permissions = top.get("permissions")?;
    let Some(chain) = chain(importer, permissions.as_ref(), chosen)? else {
        for profile in permissions.iter().map(Entry::entries).collect::<Result<Vec<_>, _>>()?.iter().flatten() {
            let lost =
                profile.get("extends")?.filter(|extends| importer.report.losses().any(|loss| loss.key == extends.key));
            for entry in profile.entries()?.iter().filter(|entry| lost.is_none() || entry.name != "extends") {
                importer
                    .report
                    .elsewhere(entry, "a profile that is not used, because the chosen one cannot be carried");
            }
        }
        return Ok(());
    };
    let used: Vec<&str> = chain.profiles.iter().map(|profile| profile.name).collect();
    for profile in permissions.iter().map(Entry::entries).collect::<Result<Vec<_>, _>>()?.iter().flatten() {
        if !used.contains(&profile.name) {
            profile.entries()?;
            importer.report.elsewhere(profile, "a profile that is not chosen, and that the chosen one is not made of");
        }
    }
    let mut roots = vec![importer.places.workspace()];
    for profile in &chain.profiles {
        for entry in profile.entries()? {
            match entry.name {
                "extends" => importer.report.carried(&entry, &["filesystem", "network.mode"]),
                "description" => importer.report.elsewhere(&entry, "a text for people"),
                "workspace_roots" => workspace_roots(importer, &entry, &mut roots)?,
                // Together below.
                "filesystem" | "network" => {}
                _ => {}
            }
        }
    }
    filesystem(importer, &chain, &roots)?;
    network::read(importer, top, &chain.profiles)
}

/// The chosen profile and those that it is made of; none if it is none that can be carried.
fn chain<'a>(
    importer: &mut Importer,
    permissions: Option<&Entry<'a>>,
    chosen: &Entry<'a>,
) -> Result<Option<Chain<'a>>, ImportError> {
    let mut chain = Chain { profiles: Vec::new(), built_in: None };
    let mut named = chosen.clone();
    loop {
        let name = named.text()?;
        match name {
            READ_ONLY | WORKSPACE => chain.built_in = Some(name),
            _ if name.starts_with(':') => {
                let why = "Hotcell runs nothing without a box, and knows no other profile of that kind than :read-only and :workspace";
                importer.report.lost(&named, why, "choose one of those");
                if named.key != chosen.key {
                    importer.report.lost(chosen, "the profile is made of one that cannot be carried", "choose another");
                }
                return Ok(None);
            }
            _ => {
                let profile = permissions.map(|permissions| permissions.get(name)).transpose()?.flatten();
                let profile = profile
                    .ok_or_else(|| named.bad_value(format!("names the profile `{name}`, which is not there")))?;
                if chain.profiles.iter().any(|earlier| earlier.name == profile.name)
                    || chain.profiles.len() == MAX_PROFILES
                {
                    return Err(named.bad_value("makes a profile of itself"));
                }
                let parent = profile.get("extends")?;
                chain.profiles.push(profile);
                if let Some(parent) = parent {
                    named = parent;
                    continue;
                }
            }
        }
        importer.report.carried(chosen, &["filesystem", "network.mode"]);
        return Ok(Some(chain));
    }
}

fn workspace_roots(importer: &mut Importer, table: &Entry<'_>, roots: &mut Vec<Place>) -> Result<(), ImportError> {
    if table.is_empty() {
        importer.report.always(table, "it names nothing");
    }
    for entry in table.entries()? {
        if !entry.boolean()? {
            importer.report.always(&entry, "it is no workspace unless it is named as one");
            continue;
        }
        match importer.places.of(&entry, entry.name)? {
            Ok(place) => {
                roots.push(place);
                importer.report.carried(&entry, &["filesystem"]);
            }
            Err(none) => importer.report.lost(&entry, none.why(), none.instead()),
        }
    }
    Ok(())
}

fn filesystem(importer: &mut Importer, chain: &Chain<'_>, roots: &[Place]) -> Result<(), ImportError> {
    let mut rules = Vec::new();
    for profile in &chain.profiles {
        let table = profile.get("filesystem")?;
        for entry in table.iter().map(Entry::entries).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            match entry.name {
                "glob_scan_max_depth" => importer.report.always(&entry, "there are no patterns to look for"),
                "allow_limited_git_writes" if entry.boolean()? => importer.report.lost(
                    &entry,
                    "what steers git is protected as a whole",
                    "leave it out, or name under `unprotect` what may be changed",
                ),
                "allow_limited_git_writes" => importer.report.always(&entry, "what steers git is protected"),
                _ => rules_of(importer, &entry, &mut rules)?,
            }
        }
    }
    rules.extend(built_in(chain.built_in));
    // The chosen profile is first, and wins over those that it is made of.
    let mut kept: Vec<Rule<'_>> = Vec::new();
    for rule in rules {
        if kept.iter().any(|earlier| (earlier.place, earlier.inside) == (rule.place, rule.inside)) {
            if let Some(entry) = &rule.entry {
                importer.report.always(entry, "it has no effect: a profile that is made of this one says otherwise");
            }
        } else {
            kept.push(rule);
        }
    }
    let minimal = kept.iter().any(|rule| rule.place == ":minimal" && rule.access >= Access::Read);
    let root =
        kept.iter().find(|rule| rule.place == ":root" && rule.inside == ".").map_or(Access::Deny, |rule| rule.access);
    let mut places: Vec<(Place, Access, Option<Entry<'_>>)> = Vec::new();
    for rule in &kept {
        for place in places_of(importer, rule, roots, minimal)? {
            places.push((place, rule.access, rule.entry.clone()));
        }
    }
    apply(importer, &places);
    // The current directory is shown by default here.
    let workspace = importer.places.workspace();
    let nearest = places.iter().filter(|(place, ..)| workspace.absolute.starts_with(&place.absolute));
    let nearest = nearest.max_by_key(|(place, ..)| place.absolute.components().count()).map(|(_, access, _)| *access);
    if nearest.unwrap_or(root) == Access::Deny {
        importer.draft.rule(&workspace, Access::Deny, "out of reach there, and shown here by default");
    }
    Ok(())
}

/// The rules of one place.
fn rules_of<'a>(importer: &mut Importer, entry: &Entry<'a>, rules: &mut Vec<Rule<'a>>) -> Result<(), ImportError> {
    let Value::Table(_) = &entry.node.value else {
        rules.push(Rule { place: entry.name, inside: ".", access: access(entry)?, entry: Some(entry.clone()) });
        return Ok(());
    };
    if entry.is_empty() {
        importer.report.always(entry, "it names nothing");
    }
    for inside in entry.entries()? {
        rules.push(Rule { place: entry.name, inside: inside.name, access: access(&inside)?, entry: Some(inside) });
    }
    Ok(())
}

fn access(entry: &Entry<'_>) -> Result<Access, ImportError> {
    match entry.text()? {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "deny" | "none" => Ok(Access::Deny),
        other => Err(entry.bad_value(format!("is `{other}`, and can be \"read\", \"write\" or \"deny\""))),
    }
}

fn built_in(name: Option<&str>) -> Vec<Rule<'static>> {
    let rule = |place, access| Rule { place, inside: ".", access, entry: None };
    match name {
        Some(WORKSPACE) => vec![
            rule(":root", Access::Read),
            rule(":workspace_roots", Access::Write),
            rule(":tmpdir", Access::Write),
            rule(":slash_tmp", Access::Write),
        ],
        Some(READ_ONLY) => vec![rule(":root", Access::Read), rule(":workspace_roots", Access::Read)],
        _ => Vec::new(),
    }
}

/// The places that a rule is about. A rule that is about none is reported here; the others when they are applied.
fn places_of(
    importer: &mut Importer,
    rule: &Rule<'_>,
    roots: &[Place],
    minimal: bool,
) -> Result<Vec<Place>, ImportError> {
    let inside = |place: &Place| importer.places.inside(place, rule.inside);
    let places: Result<Vec<Place>, NoPlace> = match (rule.place, rule.inside) {
        (":workspace_roots" | ":project_roots", _) => roots.iter().map(inside).collect(),
        (":cwd", _) => inside(&importer.places.workspace()).map(|place| vec![place]),
        (":root", ".") => return Ok(root(importer, rule, minimal)),
        (":root", _) => inside(&Place { written: "/".to_owned(), absolute: "/".into() }).map(|place| vec![place]),
        (":minimal" | ":tmpdir" | ":slash_tmp", _) => return Ok(boxes_own(importer, rule)),
        (special, _) if special.starts_with(':') => {
            if let Some(entry) = &rule.entry {
                importer.report.lost(entry, "Hotcell does not know this place", "name the path that it stands for");
            }
            return Ok(Vec::new());
        }
        (path, _) => match &rule.entry {
            Some(entry) => importer
                .places
                .of(entry, path)?
                .and_then(|place| importer.places.inside(&place, rule.inside).map(|place| vec![place])),
            None => Ok(Vec::new()),
        },
    };
    match (places, &rule.entry) {
        (Ok(places), _) => Ok(places),
        (Err(none), Some(entry)) => {
            importer.report.lost(entry, none.why(), none.instead());
            Ok(Vec::new())
        }
        (Err(_), None) => Ok(Vec::new()),
    }
}

fn root(importer: &mut Importer, rule: &Rule<'_>, minimal: bool) -> Vec<Place> {
    let Some(entry) = &rule.entry else {
        importer.report.unsaid(":root", &["filesystem.read"], EVERYTHING_READ);
        return Vec::new();
    };
    match rule.access {
        Access::Deny if minimal => importer.report.always(entry, "what no rule names is out of reach"),
        Access::Deny => importer.report.lost(
            entry,
            "the system's own directories can always be read, as programs need them",
            "add \":minimal\" = \"read\", which means the same, or leave it out",
        ),
        Access::Read => importer.report.narrower(entry, &["filesystem.read"], EVERYTHING_READ),
        _ => importer.report.lost(entry, ROOT, "name the directories that the code needs"),
    }
    Vec::new()
}

/// Places that a box has of its own.
fn boxes_own(importer: &mut Importer, rule: &Rule<'_>) -> Vec<Place> {
    let Some(entry) = &rule.entry else {
        if rule.place == ":slash_tmp" {
            importer.report.unsaid(rule.place, &[], PRIVATE_TMP);
        }
        return Vec::new();
    };
    match (rule.place, rule.access) {
        (":minimal", Access::Read) => importer.report.always(entry, "the system's own directories can be read"),
        (":minimal", Access::Deny) => {
            importer.report.lost(entry, "the system's own directories can always be read", "leave it out");
        }
        (":minimal", _) => {
            importer.report.lost(entry, "the system's own directories are never written", "leave it out")
        }
        (_, Access::Deny) => {
            importer.report.always(entry, "nothing of the host's /tmp is in a box; it has one of its own")
        }
        _ => importer.report.narrower(entry, &[], PRIVATE_TMP),
    }
    Vec::new()
}

/// Puts the rules into the draft. What can only be read inside a writable tree becomes a protected name: that holds even
/// while nothing is there.
fn apply(importer: &mut Importer, places: &[(Place, Access, Option<Entry<'_>>)]) {
    for (place, access, entry) in places {
        let from = entry.as_ref().map_or("the profile that it extends", |entry| &entry.key);
        let above = places
            .iter()
            .filter(|(above, ..)| place.absolute != above.absolute && place.absolute.starts_with(&above.absolute));
        let above = above.max_by_key(|(above, ..)| above.absolute.components().count());
        let kept_as_it_is = *access == Access::Read && matches!(above, Some((_, Access::Write, _)));
        let mut to = key_of(*access);
        if place.absolute == Path::new("/") {
            if let Some(entry) = entry {
                importer.report.lost(entry, ROOT, "name the directories that the code needs");
            }
            continue;
        }
        if is_boxes_own(&place.absolute) && *access != Access::Deny {
            match (entry, access) {
                (Some(entry), Access::Read) => importer.report.narrower(entry, &[], BOXES_OWN),
                (Some(entry), _) => importer.report.lost(entry, BOXES_OWN, "leave it out"),
                (None, _) => {}
            }
            continue;
        }
        let mut kept = true;
        if kept_as_it_is {
            importer.draft.keep(&place.absolute, from);
            to = "filesystem.protect";
        } else {
            kept = importer.draft.rule(place, *access, from);
        }
        let Some(entry) = entry else { continue };
        let protected = if *access == Access::Write { protected_in(&place.absolute) } else { None };
        match (kept, protected) {
            (true, Some(how)) => importer.report.narrower(entry, &[to, "filesystem.protect"], how),
            (true, None) => importer.report.carried(entry, &[to]),
            (false, _) => {
                importer.report.narrower(entry, &["filesystem"], "another rule for the same path is stricter, and wins")
            }
        }
    }
}
