//! Containers: which runtimes and engines there are, and what is known of them.

use hotcell_backends::oci::{OciBackend, Runtime, version};
use hotcell_backends::registry::StartOptions;
use hotcell_core::backend::SandboxBackend;
use hotcell_core::runtime::RuntimeKind;

use super::{Diagnosis, Finding, State, finding};

/// The runtimes that are looked for, and the kind of box that each makes.
const RUNTIMES: &[(&str, RuntimeKind)] = &[
    ("runc", RuntimeKind::Oci),
    ("crun", RuntimeKind::Oci),
    ("youki", RuntimeKind::Oci),
    ("runsc", RuntimeKind::Gvisor),
];

/// Adds what was found to the diagnosis.
pub(super) async fn examine(diagnosis: &mut Diagnosis) {
    for (name, _) in RUNTIMES {
        diagnosis.findings.push(runtime(name).await);
    }
    for kind in [RuntimeKind::Oci, RuntimeKind::Gvisor] {
        if let Ok(backend) = OciBackend::start(kind, StartOptions::warm(0)).await {
            diagnosis.capabilities.push(backend.probe().await);
        }
    }
}

async fn runtime(name: &str) -> Finding {
    let runtime = match Runtime::find(Some(name)) {
        Ok(runtime) => runtime,
        Err(missing) => return finding(name, State::Missing, "not installed", Some(missing.hint)),
    };
    let Some(version) = version::of(&runtime.program).await else {
        let detail = format!("{} does not tell its version", runtime.program.display());
        return finding(name, State::Limited, detail, None);
    };
    let detail = format!("{} ({})", runtime.program.display(), version.text);
    match version.known_escape(runtime.flavour) {
        None => finding(name, State::Good, detail, None),
        Some(escape) => {
            let detail = format!("{detail}: before {}, {} let code out", escape.fixed_in, escape.names);
            let fix =
                "update it, or make sure that your distribution has patched its version (most do, and keep the number)";
            finding(name, State::Limited, detail, Some(fix.to_owned()))
        }
    }
}
