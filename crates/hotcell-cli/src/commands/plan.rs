//! `hotcell plan`: what would be enforced, without running anything.

use std::path::PathBuf;

use hotcell::config::Config;
use hotcell::plan::{Enforcement, Plan};
use hotcell::policy::Policy;
use hotcell::presets::Preset;
use hotcell::runtime::{Isolation, RuntimeKind};
use hotcell::settings::Settings;
use hotcell::text::PrintablePath;
use serde::Serialize;

use super::{block_on, prepare};
use crate::arguments::PlanArguments;
use crate::failure::Failure;
use crate::{json, output, report};

#[derive(Serialize)]
struct PlanObject<'a> {
    backend: RuntimeKind,
    isolation: Isolation,
    /// Where a remote box is made, and files and code are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    enforcement: &'a [Enforcement],
    policy: &'a Policy,
    sources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<Preset>,
}

/// Prints the plan, or the refusal.
pub(crate) fn execute(arguments: PlanArguments) -> Result<u8, Failure> {
    let flags = arguments.policy.to_config(arguments.tty)?;
    if let (true, Some(preset)) = (arguments.print, &flags.sandbox.preset) {
        return print(preset.value, &flags, arguments.policy.policy.is_some());
    }
    let (plan, settings) = block_on(plan(flags, arguments.policy.policy))?;
    let shown = if arguments.json { as_json(&plan, &settings) } else { as_text(&plan, &settings) };
    output::to_stdout(&shown)
}

/// The preset as it is, whatever this machine can hold. Other flags would not be in it, so they are refused.
fn print(preset: Preset, flags: &Config, policy_file: bool) -> Result<u8, Failure> {
    let mut others = flags.clone();
    others.sandbox.preset = None;
    if others != Config::default() || policy_file {
        return Err(Failure::usage(
            "--print shows the preset alone; leave the other policy flags out, and edit the file",
        ));
    }
    output::to_stdout(preset.toml())
}

async fn plan(flags: Config, policy_file: Option<PathBuf>) -> Result<(Plan, Settings), Failure> {
    let (engine, settings) = prepare(flags, Config::default(), policy_file, None).await?;
    let planned =
        engine.plan(&settings.policy).await.map_err(|refused| Failure::refused(refused, &engine.capabilities()));
    engine.close().await;
    Ok((planned?, settings))
}

fn as_json(plan: &Plan, settings: &Settings) -> String {
    json::line(&PlanObject {
        backend: plan.kind,
        isolation: plan.isolation,
        server: plan.policy.remote.server(plan.kind).ok(),
        enforcement: &plan.enforcement,
        policy: &plan.policy,
        sources: settings.sources.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        preset: settings.preset.as_ref().map(|preset| preset.value),
    })
}

fn as_text(plan: &Plan, settings: &Settings) -> String {
    let mut text = format!("{} box, isolation {}\n", plan.kind, plan.isolation);
    if let Ok(server) = plan.policy.remote.server(plan.kind) {
        text.push_str(&format!("made by {server}, which gets the files and the code\n"));
    }
    if let Some(preset) = &settings.preset {
        text.push_str(&format!("preset {} from {}\n", preset.value, preset.origin));
    }
    for source in &settings.sources {
        text.push_str(&format!("policy from {}\n", PrintablePath(source)));
    }
    text + "\n" + &output::printable(&report::enforcement_table(&plan.enforcement))
}
