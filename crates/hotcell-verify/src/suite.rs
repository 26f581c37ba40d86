//! All checks, in one sandbox after the other.

use std::collections::BTreeMap;

use hotcell_linux::landlock::Abi;

use crate::attempt::{Tried, attempt};
use crate::check::{Check, Need};
use crate::layer::Layer;
use crate::target::{Host, NotRun, Target};
use crate::verdict::Finding;
use crate::{checks, expect};

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// No check has such a name.
    #[error("no check is called `{}`, or has that in its name; `hotcell verify --list` shows all", .0.escape_default())]
    NoSuchCheck(String),
}

/// The checks to be tried, with what they do without a box: that is found out once.
#[derive(Debug, Default)]
pub struct Suite {
    checks: Vec<&'static Check>,
    controls: BTreeMap<&'static str, Result<Tried, NotRun>>,
}

impl Suite {
    /// All checks.
    pub fn new() -> Self {
        Self { checks: checks::all().collect(), controls: BTreeMap::new() }
    }

    /// Only the checks that one of these words means: a whole name, the beginning of one, or a part of what follows the
    /// group.
    pub fn filtered(filters: &[String]) -> Result<Self, VerifyError> {
        let mut suite = Self::new();
        if filters.is_empty() {
            return Ok(suite);
        }
        if let Some(unknown) = filters.iter().find(|filter| !suite.checks.iter().any(|check| means(filter, check))) {
            return Err(VerifyError::NoSuchCheck(unknown.clone()));
        }
        suite.checks.retain(|check| filters.iter().any(|filter| means(filter, check)));
        Ok(suite)
    }

    /// The checks.
    pub fn checks(&self) -> &[&'static Check] {
        &self.checks
    }

    /// Tries every check in `target`. `progress` hears of each before it is tried.
    pub async fn run(&mut self, target: &dyn Target, progress: impl FnMut(&Check)) -> Vec<Finding> {
        self.run_some(target, |_| true, progress).await
    }

    /// Tries the checks that are wanted.
    pub(crate) async fn run_some(
        &mut self,
        target: &dyn Target,
        wanted: impl Fn(&Check) -> bool,
        mut progress: impl FnMut(&Check),
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for check in self.checks.clone().into_iter().filter(|check| wanted(check)) {
            progress(check);
            let control = self.control(check).await;
            let missing = match missing(check) {
                Some(reason) => Some(reason),
                None => missing_inside(check, target).await,
            };
            let tried = match missing {
                Some(reason) => Err(NotRun::NotApplicable(reason)),
                None => attempt(check, target).await,
            };
            let mut finding = Finding::new(check, &control, &tried);
            if target.is_elsewhere() {
                // An error of another machine's kernel points to no layer of ours.
                finding.layers.retain(|layer| *layer == Layer::Supervisor);
            }
            finding.known_gap = expect::gap(target.name(), check.id, rustix::process::geteuid().is_root());
            findings.push(finding);
        }
        findings
    }

    async fn control(&mut self, check: &'static Check) -> Result<Tried, NotRun> {
        if let Some(known) = self.controls.get(check.id) {
            return known.clone();
        }
        let control = match missing(check) {
            Some(reason) => Err(NotRun::NotApplicable(reason)),
            None => attempt(check, &Host).await,
        };
        self.controls.insert(check.id, control.clone());
        control
    }
}

/// Whether a word of the user's means this check.
fn means(word: &str, check: &Check) -> bool {
    check.id.starts_with(word) || check.id.split_once('.').is_some_and(|(_, name)| name.contains(word))
}

/// What a check needs and the sandbox does not have, although this machine does.
async fn missing_inside(check: &Check, target: &dyn Target) -> Option<String> {
    if let Some(reason) = target.beyond(check) {
        return Some(reason);
    }
    for need in check.needs {
        match need {
            Need::Program(name) if !target.answers(&format!("command -v {name}")).await => {
                return Some(format!("{name} is not in the image"));
            }
            Need::UserName if !target.answers("id -un").await => {
                return Some("the image has no name for the user".to_owned());
            }
            Need::Helper if target.is_elsewhere() => {
                return Some("its boxes need no helper on this machine".to_owned());
            }
            Need::HostSystem if target.has_image() => return Some("what is there is the image's own".to_owned()),
            _ => {}
        }
    }
    None
}

/// What a check needs and this machine does not have.
fn missing(check: &Check) -> Option<String> {
    check.needs.iter().find_map(|need| match need {
        Need::X86_64 => (!cfg!(target_arch = "x86_64")).then(|| "it is about x86_64".to_owned()),
        Need::Root => (!rustix::process::geteuid().is_root())
            .then(|| "an ordinary user cannot do it without a box either".to_owned()),
        Need::Landlock(version) => (Abi::detect() < Abi(*version))
            .then(|| format!("only Landlock version {version} holds it, and this kernel has {}", Abi::detect().0)),
        Need::Address => {
            crate::arena::own_address().is_none().then(|| "this machine has no address but its loopback's".to_owned())
        }
        Need::HostSystem | Need::UserName | Need::Helper => None,
        Need::Program(name) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let there = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
            (!there).then(|| format!("{name} is not installed"))
        }
        Need::Device(path) => {
            let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
            opened.err().map(|error| format!("{path} cannot be opened without a box either: {error}"))
        }
    })
}
