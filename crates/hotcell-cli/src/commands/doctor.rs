//! `hotcell doctor`: what this machine can hold, why not more, and what would change it.

use hotcell::capability::{Capabilities, Capability};
use hotcell::doctor::{Diagnosis, Finding, State, examine};
use hotcell::plan::plan;
use hotcell::policy::Policy;
use hotcell::runtime::{RuntimeChoice, RuntimeKind};
use hotcell::settings::{RemoteRuntime, SettingsError};
use serde::Serialize;

use super::block_on;
use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use crate::{exit, json, output};

/// All that is said about servers where none is configured.
const NO_SERVER: &str = "No server is configured that would make boxes elsewhere; `hotcell doctor --runtime opensandbox` (or e2b, cube) \
                         asks one.\n";

/// Marks for good, limited and missing.
struct Marks([&'static str; 3]);

impl Marks {
    const UNICODE: Self = Self(["✓", "!", "✗"]);
    const ASCII: Self = Self(["+", "!", "x"]);

    /// By the character set that the user's locale asks for.
    fn for_locale() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(std::env::var_os)
            .find(|value| !value.is_empty())
            .map(|value| value.to_string_lossy().to_lowercase());
        match locale {
            Some(locale) if locale.contains("utf-8") || locale.contains("utf8") => Self::UNICODE,
            _ => Self::ASCII,
        }
    }
}

#[derive(Serialize)]
struct DiagnosisObject<'a> {
    version: &'static str,
    kernel: &'a str,
    user: &'a str,
    findings: Vec<FindingObject<'a>>,
    capabilities: &'a [Capabilities],
    default_policy: Verdict,
}

#[derive(Serialize)]
struct FindingObject<'a> {
    name: &'a str,
    state: &'static str,
    detail: &'a str,
    fix: Option<&'a str>,
}

/// Whether a box with the default policy can be made: a native one, or one of the remote runtime that is configured.
#[derive(Serialize)]
struct Verdict {
    runtime: RuntimeKind,
    possible: bool,
    why_not: Option<String>,
}

/// Prints the findings; the exit code says whether a box with the default policy can be made.
pub(crate) fn execute(arguments: &DoctorArguments) -> Result<u8, Failure> {
    let configured = arguments.runtime.load()?;
    let server = configured.as_ref().ok().and_then(Option::as_ref);
    let mut diagnosis = block_on(async { Ok(examine(server).await) })?;
    if let Err(error) = &configured {
        diagnosis.findings.push(unreadable(error));
    }
    let mut verdict = Verdict::of(&diagnosis, server);
    if let (Err(error), true) = (&configured, verdict.possible) {
        // Without them nothing is run, whatever could be.
        verdict =
            Verdict { possible: false, why_not: Some(format!("the settings cannot be read: {error}")), ..verdict };
    }
    let code = if verdict.possible { exit::SUCCESS } else { exit::INCOMPLETE };
    let shown = if arguments.json {
        as_json(&diagnosis, verdict)
    } else {
        output::printable(&as_text(&diagnosis, &verdict, &Marks::for_locale()))
    };
    Ok(output::to_stdout(&shown)?.max(code))
}

fn unreadable(error: &SettingsError) -> Finding {
    let fix = Some("correct them; until then nothing is run".to_owned());
    Finding { name: "settings".to_owned(), state: State::Missing, detail: error.to_string(), fix }
}

impl Verdict {
    /// Other local kinds of boxes are there for those who ask for them; this is about what one gets without asking more.
    fn of(diagnosis: &Diagnosis, configured: Option<&RemoteRuntime>) -> Self {
        let mut policy = Policy::default();
        let mut runtime = RuntimeKind::Native;
        if let Some(configured) = configured {
            runtime = configured.kind;
            policy.runtime = RuntimeChoice::Kind(runtime);
            policy.remote = configured.remote.clone();
        }
        let capabilities = diagnosis.capabilities.iter().find(|capabilities| capabilities.kind == runtime);
        let why_not = match (&diagnosis.remote_problem, capabilities) {
            (Some(problem), _) => Some(problem.clone()),
            (None, Some(capabilities)) => plan(&policy, capabilities).err().map(|refusal| refusal.to_string()),
            (None, None) => Some("it cannot be started; see above".to_owned()),
        };
        Self { runtime, possible: why_not.is_none(), why_not }
    }

    fn sentence(&self) -> String {
        let name = match self.runtime {
            RuntimeKind::Native => "A native box".to_owned(),
            kind => format!("A box of the configured runtime, {kind},"),
        };
        match &self.why_not {
            None => format!("{name} with the default policy can be made here.\n"),
            Some(why_not) => format!("{name} with the default policy cannot be made here: {why_not}\n"),
        }
    }
}

fn as_json(diagnosis: &Diagnosis, default_policy: Verdict) -> String {
    let findings = diagnosis.findings.iter().map(|finding| FindingObject {
        name: &finding.name,
        state: word(finding.state),
        detail: &finding.detail,
        fix: finding.fix.as_deref(),
    });
    json::line(&DiagnosisObject {
        version: env!("CARGO_PKG_VERSION"),
        kernel: &diagnosis.kernel,
        user: &diagnosis.user,
        findings: findings.collect(),
        capabilities: &diagnosis.capabilities,
        default_policy,
    })
}

fn as_text(diagnosis: &Diagnosis, verdict: &Verdict, marks: &Marks) -> String {
    let mut text = format!("Hotcell {} on {}, as {}\n\n", env!("CARGO_PKG_VERSION"), diagnosis.kernel, diagnosis.user);
    let width = diagnosis.findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    for finding in &diagnosis.findings {
        let mark = marks.0[position(finding.state)];
        text.push_str(&format!("{mark} {:<width$}  {}\n", finding.name, finding.detail));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("  {:<width$}  to change it: {fix}\n", ""));
        }
    }
    for capabilities in &diagnosis.capabilities {
        let rest = not_held_in_full(capabilities);
        if !rest.is_empty() {
            let kind = capabilities.kind;
            text.push_str(&format!("\nNot held in full by {kind} boxes here: {}.\n", rest.join(", ")));
        }
        capabilities.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    }
    text.push_str(&format!("\n{}", verdict.sentence()));
    if verdict.runtime == RuntimeKind::Native {
        text.push_str(NO_SERVER);
    }
    text
}

/// The controls that a policy may ask for in vain; the refusal says why and what would help.
fn not_held_in_full(capabilities: &Capabilities) -> Vec<String> {
    let controls = capabilities.controls.iter();
    let rest = controls.filter(|(_, capability)| !matches!(capability, Capability::Enforced { .. }));
    rest.map(|(control, capability)| format!("{control} ({})", capability.level())).collect()
}

fn position(state: State) -> usize {
    match state {
        State::Good => 0,
        State::Limited => 1,
        _ => 2,
    }
}

fn word(state: State) -> &'static str {
    ["good", "limited", "missing"][position(state)]
}
