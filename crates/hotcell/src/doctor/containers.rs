//! Containers: which runtimes and engines there are, and what is known of them. All are asked at the same time.

use std::time::Duration;

use hotcell_backends::docker::{self, Answer, ConnectError, EngineFacts};
use hotcell_backends::oci::version::{self, Product, Version};
use hotcell_backends::oci::{Flavour, OciBackend, Runtime};
use hotcell_backends::registry::StartOptions;
use hotcell_core::backend::SandboxBackend;
use hotcell_core::capability::Capabilities;
use hotcell_core::runtime::RuntimeKind;

use super::{Diagnosis, Finding, State, finding};

/// The runtimes that are looked for.
const RUNTIMES: [&str; 4] = ["runc", "crun", "youki", "runsc"];

/// How long an engine may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(2);

const NO_ENGINE: &str = "`--runtime docker` needs one: install Docker (`apt install docker.io`) or Podman (`apt install podman`, \
                         `systemctl enable --now podman.socket`), or name one with DOCKER_HOST; other runtimes need none";
const UPDATE: &str =
    "update it, or make sure that your distribution has patched its version (most do, and keep the number)";

/// Adds what was found to the diagnosis.
pub(super) async fn examine(diagnosis: &mut Diagnosis) {
    let runtimes = RUNTIMES.map(|name| tokio::spawn(runtime(name)));
    let boxes = [RuntimeKind::Oci, RuntimeKind::Gvisor].map(|kind| tokio::spawn(boxes_of(kind)));
    let (findings, docker) = engines().await;
    for runtime in runtimes {
        diagnosis.findings.extend(runtime.await);
    }
    diagnosis.findings.extend(findings);
    for capabilities in boxes {
        diagnosis.capabilities.extend(capabilities.await.ok().flatten());
    }
    diagnosis.capabilities.extend(docker);
}

async fn boxes_of(kind: RuntimeKind) -> Option<Capabilities> {
    let backend = OciBackend::start(kind, StartOptions::warm(0)).await.ok()?;
    Some(backend.probe().await)
}

async fn runtime(name: &'static str) -> Finding {
    let runtime = match Runtime::find(Some(name)) {
        Ok(runtime) => runtime,
        Err(missing) => return finding(name, State::Missing, "not installed", Some(missing.hint)),
    };
    let version = tokio::time::timeout(PATIENCE, version::of(&runtime.program)).await.ok().flatten();
    let Some(version) = version else {
        let detail = format!("{} does not tell its version", runtime.program.display());
        return finding(name, State::Limited, detail, None);
    };
    let detail = format!("{} ({})", runtime.program.display(), version.text);
    judged(name, detail, &version, Product::Runtime(runtime.flavour))
}

/// A finding about a version, with what is known of it.
fn judged(name: &str, detail: String, version: &Version, product: Product) -> Finding {
    match version.known_escape(product) {
        None => finding(name, State::Good, detail, None),
        Some(escape) => {
            let detail = format!("{detail}: before {}, {} let code out", escape.fixed_in, escape.names);
            finding(name, State::Limited, detail, Some(UPDATE.to_owned()))
        }
    }
}

/// What there is of engines, and what boxes of the one that would be used can hold.
async fn engines() -> (Vec<Finding>, Option<Capabilities>) {
    let asked = match docker::survey(PATIENCE).await {
        Ok(asked) => asked,
        Err(error) => return (vec![unusable(&error)], None),
    };
    let (mut findings, mut capabilities) = (Vec::new(), None);
    let mut looked_at = Vec::new();
    for engine in asked {
        match engine.answer {
            Answer::Given(found) => {
                findings.extend(engine_findings(&engine.address, &found.facts));
                capabilities.get_or_insert(found.capabilities);
            }
            Answer::NotThere => looked_at.push(engine.address),
            Answer::Failed(reason) => {
                let detail = format!("{}: {reason}", engine.address);
                findings.push(finding("container engine", State::Missing, detail, Some(NO_ENGINE.to_owned())));
            }
        }
    }
    if findings.is_empty() {
        let detail = format!("none at {}", looked_at.join(", "));
        findings.push(finding("container engine", State::Missing, detail, Some(NO_ENGINE.to_owned())));
    }
    (findings, capabilities)
}

fn unusable(error: &ConnectError) -> Finding {
    finding("container engine", State::Missing, error.to_string(), Some(NO_ENGINE.to_owned()))
}

/// The engine, and those of its programs of which something is known.
fn engine_findings(address: &str, engine: &EngineFacts) -> Vec<Finding> {
    let product = if engine.podman { Product::Podman } else { Product::Docker };
    let mut findings = vec![match Version::parse(&engine.version) {
        Some(version) => judged(engine.name(), describe(address, engine), &version, product),
        None => finding(engine.name(), State::Limited, describe(address, engine), None),
    }];
    for (name, said) in &engine.components {
        let Some((product, version)) = product_of(name).zip(Version::parse(said)) else { continue };
        let found = judged(&format!("{} of {}", short(name), engine.name()), version.text.clone(), &version, product);
        findings.extend(Some(found).filter(|found| found.state != State::Good));
    }
    findings
}

fn describe(address: &str, engine: &EngineFacts) -> String {
    let cgroups = match engine.cgroup_version {
        Some(version) => format!("cgroup v{version} ({})", engine.cgroup_driver),
        None => "no cgroups".to_owned(),
    };
    let rights = match (engine.rootless, engine.remaps_users) {
        (true, _) => "rootless",
        (false, true) => "as root, with users mapped",
        (false, false) => "as root",
    };
    format!(
        "{} at {address}, {rights}; API {}, OCI runtimes {} (default {}), {cgroups}, storage {}",
        engine.version,
        engine.api,
        engine.runtime_names(),
        engine.default_runtime,
        engine.storage
    )
}

/// What an engine calls its programs: Docker by their names, Podman the runtime as `OCI Runtime (crun)`.
fn product_of(component: &str) -> Option<Product> {
    match short(component) {
        "containerd" => Some(Product::Containerd),
        "runc" => Some(Product::Runtime(Flavour::Runc)),
        "crun" => Some(Product::Runtime(Flavour::Crun)),
        "youki" => Some(Product::Runtime(Flavour::Youki)),
        _ => None,
    }
}

fn short(component: &str) -> &str {
    component.strip_prefix("OCI Runtime (").and_then(|rest| rest.strip_suffix(')')).unwrap_or(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_escapes_are_told_with_what_to_make_of_it() {
        let judge = |said: &str, product| judged("x", said.to_owned(), &Version::parse(said).unwrap(), product);
        for (said, product, fixed_in) in [
            ("20.10.24+dfsg1", Product::Docker, Some("24.0.9")),
            ("25.0.1", Product::Docker, Some("25.0.2")),
            ("25.0.2", Product::Docker, None),
            ("28.3.0", Product::Docker, None),
            ("1.4.2", Product::Containerd, Some("1.4.3")),
            ("1.6.20~ds1", Product::Containerd, None),
            ("v2.1.0", Product::Containerd, None),
            ("4.3.1", Product::Podman, Some("5.7.1")),
            ("1.1.5+ds1", Product::Runtime(Flavour::Runc), Some("1.2.8")),
        ] {
            let found = judge(said, product);
            match fixed_in {
                None => assert_eq!(found.state, State::Good, "{found:?}"),
                Some(fixed_in) => {
                    assert_eq!(found.state, State::Limited, "{found:?}");
                    assert!(found.detail.contains(fixed_in) && found.detail.contains("CVE-"), "{found:?}");
                    assert!(found.fix.unwrap().contains("distribution"));
                }
            }
        }
    }

    #[test]
    fn programs_of_engines_are_known_by_what_engines_call_them() {
        assert_eq!(product_of("OCI Runtime (crun)"), Some(Product::Runtime(Flavour::Crun)));
        assert_eq!(product_of("runc"), Some(Product::Runtime(Flavour::Runc)));
        assert_eq!(product_of("docker-init"), None);
    }
}
