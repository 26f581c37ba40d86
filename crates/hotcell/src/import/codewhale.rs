//! The flat keys of CodeWhale's `config.toml`.
//!
//! Hotcell reads `sandbox_backend`, `sandbox_url` and `sandbox_api_key` itself; the others are about the local sandbox.

use hotcell_core::policy::{Access, NetworkMode};
use hotcell_core::secret::Secret;

use super::codex::{self, approval};
use super::paths::{BOXES_OWN, is_boxes_own};
use super::tree::Entry;
use super::{ImportError, Importer};

/// Keys that tell CodeWhale's settings from others.
pub(super) const TELLING: &[&str] = &[
    "sandbox_backend",
    "sandbox_url",
    "sandbox_api_key",
    "prefer_bwrap",
    "bwrap_ro_roots",
    "bwrap_dev_roots",
    "allow_shell",
    "default_text_model",
    "mcp_config_path",
    "providers",
];

/// Names that its sandbox keeps code from changing.
const PROTECTED: [&str; 2] = [".codewhale", ".deepseek"];

/// Settings of the agent, not of its sandbox.
const AGENTS_OWN: &[&str] = &[
    "api_key",
    "auto_allow",
    "base_url",
    "cost_currency",
    "default_text_model",
    "features",
    "history",
    "hooks",
    "hotbar",
    "http_headers",
    "instructions",
    "lsp",
    "managed_config_path",
    "max_subagents",
    "mcp_config_path",
    "memory",
    "memory_path",
    "model",
    "notes_path",
    "notifications",
    "profile",
    "profiles",
    "prompt_suggestion",
    "provider",
    "providers",
    "reasoning_effort",
    "requirements_path",
    "search",
    "skills",
    "skills_dir",
    "snapshots",
    "speech",
    "subagents",
    "telemetry",
    "telemetry_endpoint",
    "tools",
    "tui",
    "update",
];

pub(super) fn read(importer: &mut Importer, top: &Entry<'_>) -> Result<(), ImportError> {
    let remote = match top.get("sandbox_backend")? {
        Some(backend) => backend.text()? == "opensandbox",
        None => false,
    };
    for entry in top.entries()? {
        match entry.name {
            "sandbox_mode" => sandbox_mode(importer, &entry, remote)?,
            "sandbox_backend" => backend(importer, &entry)?,
            "sandbox_url" => {
                importer.draft.url = Some(entry.text()?.to_owned());
                importer.report.carried(&entry, &["remote.url"]);
            }
            "sandbox_api_key" => {
                importer.draft.api_key = Some(Secret::new(entry.text()?.to_owned()));
                importer.report.carried(&entry, &["remote.api_key"]);
            }
            "prefer_bwrap" => {
                entry.boolean()?;
                importer.report.always(&entry, "every command runs in a box, whatever it is made with");
            }
            "bwrap_ro_roots" | "bwrap_dev_roots" if entry.elements()?.is_empty() => {
                importer.report.always(&entry, "it names nothing");
            }
            "bwrap_ro_roots" => read_only_roots(importer, &entry)?,
            "bwrap_dev_roots" => importer.report.lost(
                &entry,
                "a box has a /dev of its own, with no devices of the host's",
                "leave it out",
            ),
            "allow_shell" if entry.boolean()? => importer.report.always(&entry, "commands run in the box"),
            "allow_shell" => importer.report.lost(
                &entry,
                "whether there are commands at all is for the agent to decide",
                "leave it out, and give the agent no tool that runs them",
            ),
            "approval_policy" => approval(importer, &entry),
            "network" => network(importer, &entry)?,
            "allowed_sandbox_modes" | "allowed_approval_policies" => importer.report.lost(
                &entry,
                "it binds whoever chooses the settings, and not the code",
                "leave it out; whoever writes your own hotcell.toml decides",
            ),
            name if AGENTS_OWN.contains(&name) => {
                importer.report.elsewhere(&entry, "is about the agent, and not about what code in its sandbox may do");
            }
            _ => {}
        }
    }
    if top.get("sandbox_mode")?.is_none() && !remote {
        importer.draft.rule(&importer.places.workspace(), Access::Read, "no sandbox_mode is named");
        importer.report.unsaid("sandbox_mode", &["filesystem.read"], codex::EVERYTHING_READ);
    }
    importer.draft.network = Some(NetworkMode::Deny);
    if importer.draft.writes_anything() {
        for name in PROTECTED {
            importer.draft.protect.insert(name.to_owned(), "always protected there".to_owned());
        }
    }
    let passed = "there all variables are passed; here LANG, TERM and their like, and what `pass` names";
    importer.report.unsaid("variables", &["env.pass"], passed);
    importer.report.unsaid(
        "limits",
        &["limits"],
        "CodeWhale has none; here the default ones hold unless you set others",
    );
    Ok(())
}

fn sandbox_mode(importer: &mut Importer, entry: &Entry<'_>, remote: bool) -> Result<(), ImportError> {
    match entry.text()? {
        "external-sandbox" if remote => importer.report.carried(entry, &["sandbox.mode"]),
        "external-sandbox" => importer.report.lost(
            entry,
            "it says that something else keeps the code apart, and not what; Hotcell runs nothing without a box of its own",
            "choose \"read-only\" or \"workspace-write\", or name a sandbox_backend",
        ),
        _ => codex::sandbox_mode(importer, entry)?,
    }
    Ok(())
}

fn backend(importer: &mut Importer, entry: &Entry<'_>) -> Result<(), ImportError> {
    importer.draft.mode = Some(match entry.text()? {
        "none" => "native",
        "opensandbox" => "opensandbox",
        other => return Err(entry.bad_value(format!("is `{other}`, and can be \"none\" or \"opensandbox\""))),
    });
    importer.report.carried(entry, &["sandbox.mode"]);
    Ok(())
}

fn read_only_roots(importer: &mut Importer, list: &Entry<'_>) -> Result<(), ImportError> {
    for root in list.elements()? {
        match importer.places.of(&root, root.text()?)? {
            Ok(place) if place.absolute.as_os_str() == "/" => {
                importer.report.narrower(&root, &["filesystem.read"], codex::EVERYTHING_READ);
            }
            Ok(place) if is_boxes_own(&place.absolute) => importer.report.narrower(&root, &[], BOXES_OWN),
            Ok(place) => {
                importer.draft.rule(&place, Access::Read, &root.key);
                importer.report.carried(&root, &["filesystem.read"]);
            }
            Err(none) => importer.report.lost(&root, none.why(), none.instead()),
        }
    }
    Ok(())
}

/// What the agent's own tools may fetch. Commands are not bound by it there.
fn network(importer: &mut Importer, table: &Entry<'_>) -> Result<(), ImportError> {
    if table.is_empty() {
        importer.report.always(table, "it names nothing");
    }
    for entry in table.entries()? {
        match entry.name {
            "default" if entry.text()? == "deny" => importer.report.carried(&entry, &["network.mode"]),
            "default" | "allow" | "deny" | "proxy" | "proxy_fake_ip_cidrs" | "audit" => {
                let what = "is about what the agent's own tools fetch; commands have no network here";
                importer.report.elsewhere(&entry, what);
            }
            _ => {}
        }
    }
    Ok(())
}
