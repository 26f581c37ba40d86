//! The `config.toml` of Codex: sandbox modes, the environment of commands, and permission profiles.
//!
//! There everything can be read unless a profile says otherwise; of a writable tree `.git`, `.agents` and `.codex` stay as they
//! are.

mod environment;
mod network;
mod permissions;

use std::path::Path;

use hotcell_core::policy::protect::DEFAULT_PROTECTED;
use hotcell_core::policy::{Access, NetworkMode};

use super::draft::Draft;
use super::paths::{BOXES_OWN, is_boxes_own};
use super::report::{NO_SOCKETS_THERE, SOCKETS};
use super::tree::{Entry, Value};
use super::{ImportError, Importer};

/// Keys that tell Codex's settings from others.
pub(super) const TELLING: &[&str] = &[
    "sandbox_workspace_write",
    "shell_environment_policy",
    "default_permissions",
    "permissions",
    "mcp_servers",
    "model_providers",
    "model_provider",
    "model_reasoning_effort",
    "projects",
    "windows",
    "features",
];

/// What code in a writable tree cannot change.
const PROTECTED: [&str; 3] = [".git", ".agents", ".codex"];

/// Settings of the agent, not of its sandbox.
const AGENTS_OWN: &[&str] = &[
    "agents",
    "allow_login_shell",
    "analytics",
    "approvals_reviewer",
    "apps",
    "apps_mcp_product_sku",
    "audio",
    "auto_review",
    "background_terminal_max_timeout",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "compact_prompt",
    "debug",
    "desktop",
    "developer_instructions",
    "disable_paste_burst",
    "experimental_compact_prompt_file",
    "experimental_realtime_start_instructions",
    "experimental_realtime_ws_backend_prompt",
    "experimental_realtime_ws_base_url",
    "experimental_realtime_ws_model",
    "experimental_realtime_ws_startup_context",
    "experimental_thread_config_endpoint",
    "experimental_thread_store",
    "experimental_use_unified_exec_tool",
    "features",
    "feedback",
    "file_opener",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "ghost_snapshot",
    "hide_agent_reasoning",
    "history",
    "hooks",
    "include_apps_instructions",
    "include_collaboration_mode_instructions",
    "include_environment_context",
    "include_permissions_instructions",
    "instructions",
    "log_dir",
    "marketplaces",
    "mcp_oauth_callback_port",
    "mcp_oauth_callback_url",
    "mcp_oauth_credentials_store",
    "mcp_servers",
    "memories",
    "model",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "model_catalog_json",
    "model_context_window",
    "model_instructions_file",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_supports_reasoning_summaries",
    "model_verbosity",
    "notice",
    "notify",
    "openai_base_url",
    "oss_provider",
    "otel",
    "personality",
    "plan_mode_reasoning_effort",
    "plugins",
    "project_doc_fallback_filenames",
    "project_doc_max_bytes",
    "project_root_markers",
    "projects",
    "realtime",
    "review_model",
    "service_tier",
    "show_raw_agent_reasoning",
    "skills",
    "sqlite_home",
    "suppress_unstable_features_warning",
    "tool_output_token_limit",
    "tool_suggest",
    "tools",
    "tui",
    "web_search",
];

pub(super) fn read(importer: &mut Importer, top: &Entry<'_>) -> Result<(), ImportError> {
    let mode = top.get("sandbox_mode")?;
    let profile = top.get("default_permissions")?;
    let uses_profile = profile.is_some();
    for entry in top.entries()? {
        match entry.name {
            "sandbox_workspace_write" if uses_profile && mode.is_none() => importer
                .report
                .always(&entry, "it has no effect: default_permissions chooses a profile, and that says all of it"),
            "sandbox_mode" | "sandbox_workspace_write" if uses_profile => importer.report.lost(
                &entry,
                "default_permissions is there as well, and not both of them hold",
                "keep the one that you mean; with this one left out, the profile holds",
            ),
            "sandbox_mode" => sandbox_mode(importer, &entry)?,
            "sandbox_workspace_write" => workspace_write(importer, top, &entry, mode.as_ref())?,
            "shell_environment_policy" => environment::read(importer, &entry)?,
            "approval_policy" => approval(importer, &entry),
            "default_permissions" => permissions::read(importer, top, &entry)?,
            // With the profile that is chosen.
            "permissions" if uses_profile => {}
            "permissions" => {
                importer.report.always(&entry, "it has no effect: default_permissions chooses no profile");
            }
            "profile" => importer.report.lost(
                &entry,
                "the profile that it chooses can say something else about the sandbox",
                "put what that profile says at the top level, or leave it out",
            ),
            "profiles" => importer.report.elsewhere(&entry, "profiles, of which none is used unless it is chosen"),
            "allowed_sandbox_modes" | "allowed_approval_policies" => importer.report.lost(
                &entry,
                "it binds whoever chooses the settings, and not the code",
                "leave it out; whoever writes your own hotcell.toml decides",
            ),
            "windows" => importer.report.elsewhere(&entry, "is for Windows alone"),
            "projects" if mode.is_none() && !uses_profile => importer.report.narrower(
                &entry,
                &["filesystem.read"],
                "there the projects that it names can be written, as no sandbox_mode is named; here they can be read",
            ),
            name if AGENTS_OWN.contains(&name) => {
                importer.report.elsewhere(&entry, "is about the agent, and not about what code in its sandbox may do");
            }
            _ => {}
        }
    }
    if mode.is_none() && !uses_profile {
        importer.draft.rule(&importer.places.workspace(), Access::Read, "the mode read-only, as none is named");
        let how = format!("there a project that Codex has been told to trust or not can be written; {EVERYTHING_READ}");
        importer.report.unsaid("sandbox_mode", &["filesystem.read"], how);
    }
    if top.get("shell_environment_policy")?.is_none() {
        environment::unsaid(importer);
    }
    let network = *importer.draft.network.get_or_insert(NetworkMode::Deny);
    if network == NetworkMode::Deny && importer.draft.writes_anything() {
        importer.report.unsaid_loss("unix_sockets", SOCKETS, NO_SOCKETS_THERE);
    }
    protect(&mut importer.draft);
    importer.report.unsaid("limits", &["limits"], "Codex has none; here the default ones hold unless you set others");
    Ok(())
}

pub(super) const EVERYTHING_READ: &str =
    "there everything can be read; here the system's directories, the current directory and what is named";
const PRIVATE_TMP: &str = "/tmp can be written, and is the box's own: nothing of the host's is in it";

pub(super) fn sandbox_mode(importer: &mut Importer, entry: &Entry<'_>) -> Result<(), ImportError> {
    let workspace = importer.places.workspace();
    match entry.text()? {
        "read-only" => {
            importer.draft.rule(&workspace, Access::Read, &entry.key);
            importer.report.narrower(entry, &["filesystem.read"], EVERYTHING_READ);
        }
        "workspace-write" => {
            importer.draft.rule(&workspace, Access::Write, &entry.key);
            let how = format!("{EVERYTHING_READ}; {PRIVATE_TMP}");
            importer.report.narrower(entry, &["filesystem.write", "filesystem.protect"], how);
        }
        "danger-full-access" => importer.report.lost(
            entry,
            "Hotcell runs nothing without a box",
            "choose \"read-only\" or \"workspace-write\" there, or a preset here",
        ),
        other => return Err(entry.bad_value(format!("is `{other}`, which is no sandbox mode"))),
    }
    Ok(())
}

fn workspace_write(
    importer: &mut Importer,
    top: &Entry<'_>,
    table: &Entry<'_>,
    mode: Option<&Entry<'_>>,
) -> Result<(), ImportError> {
    if table.is_empty() {
        importer.report.always(table, "it names nothing");
        return Ok(());
    }
    let Some(mode) = mode else {
        importer.report.lost(
            table,
            "no sandbox_mode is named: then it holds in projects that Codex has been told to trust or not, and in no others",
            "add sandbox_mode = \"workspace-write\" if you mean that, or leave it out, and nothing can be written",
        );
        return Ok(());
    };
    if mode.text()? != "workspace-write" {
        importer.report.always(table, "it has no effect unless sandbox_mode is \"workspace-write\"");
        return Ok(());
    }
    for entry in table.entries()? {
        match entry.name {
            "writable_roots" if entry.elements()?.is_empty() => importer.report.always(&entry, "it names nothing"),
            "writable_roots" => {
                for root in entry.elements()? {
                    match importer.places.of(&root, root.text()?)? {
                        Ok(place) if place.absolute.as_os_str() == "/" => {
                            importer.report.lost(&root, ROOT, "name the directories that the code needs");
                        }
                        Ok(place) if is_boxes_own(&place.absolute) => {
                            importer.report.lost(&root, BOXES_OWN, "leave it out");
                        }
                        Ok(place) => {
                            importer.draft.rule(&place, Access::Write, &root.key);
                            let to = ["filesystem.write", "filesystem.protect"];
                            match protected_in(&place.absolute) {
                                Some(how) => importer.report.narrower(&root, &to, how),
                                None => importer.report.carried(&root, &to),
                            }
                        }
                        Err(none) => importer.report.lost(&root, none.why(), none.instead()),
                    }
                }
            }
            "network_access" if entry.boolean()? && network::proxy(top)? => {
                importer.draft.network = Some(NetworkMode::Deny);
                importer.report.lost(&entry, network::BEHIND_PROXY, network::LEAVE_IT);
            }
            "network_access" => {
                let mode = if entry.boolean()? { NetworkMode::Open } else { NetworkMode::Deny };
                importer.draft.network = Some(mode);
                importer.report.carried(&entry, &["network.mode"]);
            }
            "exclude_tmpdir_env_var" | "exclude_slash_tmp" if entry.boolean()? => {
                importer.report.always(&entry, "nothing of the host's /tmp is in a box; it has one of its own");
            }
            "exclude_tmpdir_env_var" | "exclude_slash_tmp" => importer.report.narrower(&entry, &[], PRIVATE_TMP),
            _ => {}
        }
    }
    Ok(())
}

const ROOT: &str = "the root of a box is its own, with the system's directories in it";

/// Who is asked before a command leaves the sandbox, or runs at all.
pub(super) fn approval(importer: &mut Importer, entry: &Entry<'_>) {
    let never_out = "nothing leaves the box, and nobody is asked to let it";
    match &entry.node.value {
        Value::Text(policy) if policy == "never" => importer.report.always(entry, never_out),
        Value::Text(policy) if policy == "on-request" || policy == "on-failure" => {
            importer.report.narrower(entry, &[], format!("{never_out}: what would be asked for is refused"));
        }
        _ => importer.report.lost(
            entry,
            "Hotcell asks nobody before a command runs in its box",
            "let the agent ask, and leave it out",
        ),
    }
}

/// What is held in a tree that is itself part of a protected name: of a writable `.git`, hooks and configuration stay as they are.
fn protected_in(tree: &Path) -> Option<String> {
    let names: Vec<String> = DEFAULT_PROTECTED
        .iter()
        .filter_map(|protected| {
            let name = Path::new(protected.name);
            let above =
                name.ancestors().skip(1).find(|above| !above.as_os_str().is_empty() && tree.ends_with(above))?;
            Some(name.strip_prefix(above).ok()?.display().to_string())
        })
        .collect();
    (!names.is_empty()).then(|| format!("what steers programs on the host stays as it is in it: {}", names.join(", ")))
}

/// Protects what Codex protects, in every tree that can be written.
fn protect(draft: &mut Draft) {
    if draft.writes_anything() {
        for name in PROTECTED {
            draft.protect.entry(name.to_owned()).or_insert_with(|| "always protected there".to_owned());
        }
    }
}
