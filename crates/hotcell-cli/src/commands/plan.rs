//! `hotcell plan`: what would be enforced, without running anything.

use std::path::PathBuf;

use hotcell::config::Config;
use hotcell::plan::{Enforcement, Plan};
use hotcell::policy::Policy;
use hotcell::runtime::{Isolation, RuntimeKind};
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
}

/// Prints the plan, or the refusal.
pub(crate) fn execute(arguments: PlanArguments) -> Result<u8, Failure> {
    let flags = arguments.policy.to_config(arguments.tty)?;
    let (plan, sources) = block_on(plan(flags, arguments.policy.policy))?;
    let shown = if arguments.json { as_json(&plan, &sources) } else { as_text(&plan, &sources) };
    output::to_stdout(&shown)
}

async fn plan(flags: Config, policy_file: Option<PathBuf>) -> Result<(Plan, Vec<PathBuf>), Failure> {
    let (engine, settings) = prepare(flags, Config::default(), policy_file, None).await?;
    let planned =
        engine.plan(&settings.policy).await.map_err(|refused| Failure::refused(refused, &engine.capabilities()));
    engine.close().await;
    Ok((planned?, settings.sources))
}

fn as_json(plan: &Plan, sources: &[PathBuf]) -> String {
    json::line(&PlanObject {
        backend: plan.kind,
        isolation: plan.isolation,
        server: plan.policy.remote.server(plan.kind).ok(),
        enforcement: &plan.enforcement,
        policy: &plan.policy,
        sources: sources.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
    })
}

fn as_text(plan: &Plan, sources: &[PathBuf]) -> String {
    let mut text = format!("{} box, isolation {}\n", plan.kind, plan.isolation);
    if let Ok(server) = plan.policy.remote.server(plan.kind) {
        text.push_str(&format!("made by {server}, which gets the files and the code\n"));
    }
    for source in sources {
        text.push_str(&format!("policy from {}\n", PrintablePath(source)));
    }
    text + "\n" + &output::printable(&report::enforcement_table(&plan.enforcement))
}
