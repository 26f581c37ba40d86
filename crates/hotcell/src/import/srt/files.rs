//! `filesystem` and `credentials`: what can be read and written.

use std::path::Path;

use hotcell_core::policy::{Access, DEFAULT_PASS};

use super::super::draft::{cover, key_of};
use super::super::paths::{BOXES_OWN, Place, is_boxes_own, is_own_device};
use super::super::tree::{Entry, Value};
use super::super::{ImportError, Importer};
use super::{off, path};

const ROOT: &str = "the root of a box is its own, with the system's directories in it";
const NAME_THEM: &str = "name the directories that the code needs";
/// Deeper than the top, names are not protected here.
const TOP_ONLY: &str = "1";

/// The name that a file with a secret goes by among the lists.
const SECRET: &str = "secret";

/// The lists, as places.
#[derive(Default)]
struct Lists {
    deny_read: Vec<Place>,
    allow_read: Vec<Place>,
    allow_write: Vec<Place>,
    deny_write: Vec<Place>,
    /// Files with secrets: no list makes them readable.
    secrets: Vec<Place>,
}

impl Lists {
    /// The nearest rule decides; where a path is in both lists, it can be read.
    fn readable(&self, path: &Path) -> bool {
        path.ancestors()
            .find_map(|above| {
                let is = |places: &[Place]| places.iter().any(|place| place.absolute == above);
                if is(&self.secrets) {
                    Some(false)
                } else if is(&self.allow_read) {
                    Some(true)
                } else {
                    is(&self.deny_read).then_some(false)
                }
            })
            .unwrap_or(true)
    }

    /// A denial wins, however far above it is.
    fn writable(&self, path: &Path) -> bool {
        covered(&self.allow_write, path) && !covered(&self.deny_write, path)
    }
}

fn covered(places: &[Place], path: &Path) -> bool {
    places.iter().any(|place| path.starts_with(&place.absolute))
}

pub(super) fn read(importer: &mut Importer, top: &Entry<'_>) -> Result<(), ImportError> {
    let filesystem = top.get("filesystem")?;
    let entries = filesystem.as_ref().map(Entry::entries).transpose()?.unwrap_or_default();
    let mut lists = Lists::default();
    let mut found: Vec<(Entry<'_>, Place)> = Vec::new();
    for entry in &entries {
        match entry.name {
            "denyRead" | "allowRead" | "allowWrite" | "denyWrite" => {
                let places = places(importer, entry)?;
                let list = match entry.name {
                    "denyRead" => &mut lists.deny_read,
                    "allowRead" => &mut lists.allow_read,
                    "allowWrite" => &mut lists.allow_write,
                    _ => &mut lists.deny_write,
                };
                list.extend(places.iter().map(|(_, place)| place.clone()));
                found.extend(places);
            }
            "disabled" => off(importer, entry, "files are always kept apart", "there is no box without it")?,
            "allowGitConfig" if entry.boolean()? => {
                importer.draft.unprotect.insert(".git/config".to_owned(), entry.key.clone());
                importer.report.carried(entry, &["filesystem.unprotect"]);
            }
            "allowGitConfig" => importer.report.always(entry, ".git/config is protected in every writable tree"),
            _ => {}
        }
    }
    credentials(importer, top, &mut lists, &mut found)?;
    for (entry, place) in &found {
        match entry.name {
            "allowRead" => allow_read(importer, &lists, entry, place),
            "allowWrite" => allow_write(importer, &lists, entry, place),
            "denyWrite" => deny_write(importer, &lists, entry, place),
            _ => deny_read(importer, &lists, entry, place),
        }
    }
    unsaid(importer);
    search_depth(importer, top, &lists)
}

/// The places of a list; what is none is reported.
fn places<'a>(importer: &mut Importer, list: &Entry<'a>) -> Result<Vec<(Entry<'a>, Place)>, ImportError> {
    let elements = list.elements()?;
    if elements.is_empty() {
        importer.report.always(list, "it names nothing");
    }
    let mut places = Vec::new();
    for element in elements {
        let written = path(&element)?;
        let place = match written.literal {
            true => importer.places.literal(written.text),
            false => importer.places.of(&element, written.text)?,
        };
        match place {
            Ok(place) => places.push((element, place)),
            Err(none) => importer.report.lost(&element, none.why(), none.instead()),
        }
    }
    Ok(places)
}

fn deny_read(importer: &mut Importer, lists: &Lists, entry: &Entry<'_>, place: &Place) {
    if place.absolute == Path::new("/") {
        let why = "the system's own directories can always be read, as programs need them";
        importer.report.lost(entry, why, "name the directories that are to be out of reach");
    } else if entry.name != SECRET && lists.allow_read.iter().any(|allowed| allowed.absolute == place.absolute) {
        importer.report.always(entry, "it has no effect: allowRead names the same path, and wins");
    } else {
        importer.draft.rule(place, Access::Deny, &entry.key);
        importer.report.carried(entry, &["filesystem.deny"]);
    }
}

fn allow_read(importer: &mut Importer, lists: &Lists, entry: &Entry<'_>, place: &Place) {
    if place.absolute == Path::new("/") {
        return importer.report.narrower(
            entry,
            &["filesystem.read"],
            format!("{ROOT}; the rest is out of reach unless it is named"),
        );
    }
    if is_boxes_own(&place.absolute) {
        return importer.report.narrower(entry, &[], BOXES_OWN);
    }
    if !lists.readable(&place.absolute) {
        return importer.report.narrower(entry, &["filesystem.deny"], "a credential is there, and that is denied");
    }
    let access = if lists.writable(&place.absolute) { Access::Write } else { Access::Read };
    importer.draft.rule(place, access, &entry.key);
    importer.report.carried(entry, &[key_of(access)]);
}

fn allow_write(importer: &mut Importer, lists: &Lists, entry: &Entry<'_>, place: &Place) {
    let path = &place.absolute;
    if path == Path::new("/") {
        importer.report.lost(entry, ROOT, NAME_THEM);
    } else if is_own_device(path) {
        importer.report.always(entry, "a box has this device of its own");
    } else if is_boxes_own(path) {
        importer.report.lost(entry, BOXES_OWN, "leave it out");
    } else if !lists.readable(path) {
        let why = "denyRead covers it: it may be written and not read, and what a box may write it can read";
        importer.report.lost(entry, why, "name it under allowRead too, or leave it out");
    } else if covered(&lists.deny_write, path) {
        importer.draft.rule(place, Access::Read, &entry.key);
        importer.report.carried(entry, &["filesystem.read"]);
    } else {
        importer.draft.rule(place, Access::Write, &entry.key);
        importer.report.carried(entry, &["filesystem.write"]);
    }
}

fn deny_write(importer: &mut Importer, lists: &Lists, entry: &Entry<'_>, place: &Place) {
    if !covered(&lists.allow_write, &place.absolute) {
        importer.report.always(entry, "nothing can be written that is not named");
    } else if !lists.readable(&place.absolute) {
        importer.report.carried(entry, &["filesystem.deny"]);
    } else if lists.allow_write.iter().any(|tree| tree.absolute == place.absolute) {
        importer.report.carried(entry, &["filesystem.read"]);
    } else {
        importer.draft.keep(&place.absolute, &entry.key);
        importer.report.carried(entry, &["filesystem.protect"]);
    }
}

/// What srt does without being told.
fn unsaid(importer: &mut Importer) {
    let how = "srt lets everything be read that is not denied; here the system's directories, the current directory and what is named";
    importer.report.unsaid("reads", &["filesystem.read"], how);
    let how = "/tmp/claude, ~/.npm/_logs and ~/.claude/debug, which srt lets be written by itself, are the box's own or not there";
    importer.report.unsaid("writes", &["filesystem.write"], how);
}

/// srt protects names such as .git/hooks wherever it finds them, three directories deep.
fn search_depth(importer: &mut Importer, top: &Entry<'_>, lists: &Lists) -> Result<(), ImportError> {
    let why = "srt looks for protected names, such as .git/hooks and .bashrc, in directories beneath a writable one too; \
               here they are protected at the top of every path that `write` names";
    let instead = "name nested repositories under allowWrite, so that each is a tree of its own, and leave it out";
    let Some(entry) = top.get("mandatoryDenySearchDepth")? else {
        if !lists.allow_write.is_empty() {
            importer.report.unsaid_loss("mandatoryDenySearchDepth", why, instead);
        }
        return Ok(());
    };
    match &entry.node.value {
        Value::Number(depth) if depth == TOP_ONLY || lists.allow_write.is_empty() => {
            importer.report.always(&entry, "protected names are protected at the top of every writable tree");
        }
        Value::Number(_) => importer.report.lost(&entry, why, instead),
        _ => return Err(entry.wrong_type("a number")),
    }
    Ok(())
}

fn credentials<'a>(
    importer: &mut Importer,
    top: &Entry<'a>,
    lists: &mut Lists,
    found: &mut Vec<(Entry<'a>, Place)>,
) -> Result<(), ImportError> {
    let Some(credentials) = top.get("credentials")? else { return Ok(()) };
    for entry in credentials.entries()? {
        match entry.name {
            "files" | "envVars" if entry.elements()?.is_empty() => importer.report.always(&entry, "it names nothing"),
            "files" => {
                for file in entry.elements()? {
                    let Some(path) = denied(importer, &file, "path")? else { continue };
                    match importer.places.of(&path, path.text()?)? {
                        Ok(place) => {
                            lists.secrets.push(place.clone());
                            found.push((Entry { name: SECRET, ..file }, place));
                        }
                        Err(none) => importer.report.lost(&file, none.why(), none.instead()),
                    }
                }
            }
            "envVars" => {
                for variable in entry.elements()? {
                    let Some(name) = denied(importer, &variable, "name")? else { continue };
                    let name = name.text()?;
                    if DEFAULT_PASS.contains(&name) {
                        importer.draft.set.insert(name.to_owned(), cover(name).to_owned());
                        importer.report.carried(&variable, &["env.set"]);
                    } else {
                        importer.report.always(&variable, "no variable is passed that is not named");
                    }
                }
            }
            "allowPlaintextInject" => {
                off(importer, &entry, "nothing is put into requests", "there is no proxy to do it")?
            }
            "awsPairs" | "sigv4" if entry.is_empty() => importer.report.always(&entry, "it names nothing"),
            "awsPairs" | "sigv4" => {
                importer.report.lost(&entry, "Hotcell signs no requests for the code", "leave it out");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The path or name of a credential that is denied; others are reported.
fn denied<'a>(importer: &mut Importer, credential: &Entry<'a>, name: &str) -> Result<Option<Entry<'a>>, ImportError> {
    let mode = credential.get("mode")?.map(|mode| mode.text()).transpose()?;
    let more = credential.entries()?.iter().any(|entry| ![name, "mode"].contains(&entry.name));
    let named = credential.get(name)?;
    match (mode, named) {
        (Some("deny"), Some(named)) if !more => Ok(Some(named)),
        (Some("mask") | Some("deny"), Some(_)) => {
            let why = "Hotcell does not put secrets into requests for the code: it has them, or it does not";
            importer.report.lost(credential, why, "set `mode` to \"deny\" alone, or leave it out");
            Ok(None)
        }
        _ => Err(credential.bad_value(format!("has no `{name}`, or a `mode` that is neither \"deny\" nor \"mask\""))),
    }
}
