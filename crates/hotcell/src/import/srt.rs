//! The JSON settings of sandbox-runtime (`srt`).
//!
//! There everything can be read unless it is denied, nothing can be written unless it is allowed, and the network is a list
//! of names. Names in writable trees are protected by a search; here they are protected at the top of every tree.

mod files;
mod network;

use super::tree::{Entry, Value};
use super::{ImportError, Importer};

const MACHINERY: &str = "says where srt finds its own parts, and not what code may do";
const NEVER_WEAKER: &str = "a box is never made weaker than it is";

pub(super) fn read(importer: &mut Importer, top: &Entry<'_>) -> Result<(), ImportError> {
    for entry in top.entries()? {
        match entry.name {
            // Below, in this order: what may be written depends on what may be read, and sockets on what may be written.
            "network" | "filesystem" | "credentials" | "mandatoryDenySearchDepth" => {}
            "allowPty" => tty(importer, &entry)?,
            "enableWeakerNestedSandbox" | "enableWeakerNetworkIsolation" => {
                off(importer, &entry, NEVER_WEAKER, "where a rule cannot be held, nothing runs")?;
            }
            "allowNestedUserNamespaces" => {
                off(importer, &entry, "code in a box gets no namespaces of its own", "it has no equal")?;
            }
            "allowAppleEvents" => off(importer, &entry, "a box reaches no programs outside", "it is for macOS alone")?,
            "ignoreViolations" => {
                importer.report.elsewhere(&entry, "says which violations are not shown, and not what code may do");
            }
            "ripgrep" | "seccomp" | "bwrapPath" | "socatPath" | "javaAgentJarPath" | "srtWin" => {
                importer.report.elsewhere(&entry, MACHINERY);
            }
            "windows" => importer.report.elsewhere(&entry, "is for Windows alone"),
            "git" => git(importer, &entry)?,
            _ => {}
        }
    }
    files::read(importer, top)?;
    network::read(importer, top.get("network")?.as_ref())?;
    if importer.draft.network.is_none() {
        importer.draft.network = Some(hotcell_core::policy::NetworkMode::Deny);
    }
    let passed =
        "srt passes all variables but those it is told not to; here LANG, TERM and their like, and what `pass` names";
    importer.report.unsaid("variables", &["env.pass"], passed);
    importer.report.unsaid("limits", &["limits"], "srt has none; here the default ones hold unless you set others");
    Ok(())
}

fn tty(importer: &mut Importer, entry: &Entry<'_>) -> Result<(), ImportError> {
    if entry.boolean()? {
        importer.draft.tty = true;
        importer.report.carried(entry, &["process.tty"]);
    } else {
        importer.report.always(entry, "a command has no terminal unless it is allowed one");
    }
    Ok(())
}

fn git(importer: &mut Importer, entry: &Entry<'_>) -> Result<(), ImportError> {
    for entry in entry.entries()? {
        match entry.name {
            "safeDirectories" if entry.is_empty() => importer.report.always(&entry, "it names none"),
            "safeDirectories" => importer.report.lost(
                &entry,
                "Hotcell tells git in the box nothing",
                "set GIT_CONFIG_COUNT, GIT_CONFIG_KEY_0 and GIT_CONFIG_VALUE_0 under [env.set] yourself",
            ),
            _ => {}
        }
    }
    Ok(())
}

/// A switch that is off here, always.
fn off(importer: &mut Importer, entry: &Entry<'_>, how: &str, why: &str) -> Result<(), ImportError> {
    if entry.boolean()? {
        importer.report.lost(entry, format!("{how}: {why}"), "leave it out");
    } else {
        importer.report.always(entry, how);
    }
    Ok(())
}

/// A path: a text, or an object with `path` and `literal`.
struct Written<'a> {
    text: &'a str,
    literal: bool,
}

fn path<'a>(entry: &Entry<'a>) -> Result<Written<'a>, ImportError> {
    if let Value::Text(text) = &entry.node.value {
        return Ok(Written { text, literal: false });
    }
    let mut written = Written { text: "", literal: false };
    for part in entry.entries()? {
        match part.name {
            "path" => written.text = part.text()?,
            "literal" => written.literal = part.boolean()?,
            _ => return Err(part.bad_value("is no part of a path: those are `path` and `literal`")),
        }
    }
    if written.text.is_empty() || written.text.contains('\0') {
        return Err(entry.bad_value("has no `path`, or one that is empty or has a NUL byte in it"));
    }
    Ok(written)
}
