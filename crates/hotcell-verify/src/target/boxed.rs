//! A box of Hotcell's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use hotcell::outcome::ViolationKind;
use hotcell::policy::NetworkMode;
use hotcell::runtime::RuntimeChoice;
use hotcell::{
    Capability, Control, Engine, EngineError, NoBackend, Policy, RuntimeKind, Sandbox, SandboxBackend, SandboxOutput,
    SpawnConfig, Status,
};
use hotcell_backends::e2b::E2bBackend;
use hotcell_backends::native::{Layers, NativeBackend};
use hotcell_backends::opensandbox::OpenSandboxBackend;
use hotcell_backends::registry::{self, StartOptions};

use super::{Job, MadeOf, NotRun, Ran, Target};
use crate::check::Check;
use crate::elsewhere;

/// Boxes of one backend, made anew for every attack: what the supervisor has open at the time of an attack is then open
/// when the backend starts, too.
#[derive(Debug)]
pub struct Boxed {
    name: String,
    kind: RuntimeKind,
    layers: Layers,
    made_of: MadeOf,
    /// What an image answered, as far as somebody asked.
    answers: Mutex<BTreeMap<String, bool>>,
}

/// How the reason begins where a box was refused: then there is nothing to attack.
pub(crate) const REFUSED: &str = "refused, nothing runs: ";

/// How a system call filter ends a process.
const SIGSYS: i32 = 31;

impl Boxed {
    /// Boxes of this backend, as everybody gets them.
    pub fn new(kind: RuntimeKind) -> Self {
        Self {
            name: kind.to_string(),
            kind,
            layers: Layers::ALL,
            made_of: MadeOf::default(),
            answers: Mutex::default(),
        }
    }

    /// With another image, OCI runtime or server than that of the backend.
    #[must_use]
    pub fn made_of(mut self, made_of: MadeOf) -> Self {
        self.made_of = made_of;
        self
    }

    /// Native boxes that lack layers; `name` says which.
    pub fn knocked_out(name: String, layers: Layers) -> Self {
        Self { name, kind: RuntimeKind::Native, layers, made_of: MadeOf::default(), answers: Mutex::default() }
    }

    /// An engine of its own.
    pub async fn engine(&self) -> Result<Engine, String> {
        let mut options = StartOptions::warm(0);
        options.oci_runtime = self.made_of.oci_runtime.clone();
        options.remote = self.made_of.remote.clone();
        let backend: Arc<dyn SandboxBackend> = match self.kind {
            RuntimeKind::Native => {
                Arc::new(NativeBackend::start_with(options, self.layers).await.map_err(|error| in_full(&error))?)
            }
            kind => registry::start(kind, options).await.map_err(|error| in_full(&error))?,
        };
        Engine::with_backends(vec![backend]).await.map_err(|error| in_full(&error))
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        // Nothing panics while it is held.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a box.
    async fn asks(&self, script: &str) -> Result<bool, String> {
        let engine = self.engine().await?;
        let command = SpawnConfig::new("/bin/sh").args(["-c", script]);
        let output = engine.run_with(&self.accept(Policy::default()), command).await;
        engine.close().await;
        output.map(|output| output.status().success()).map_err(|error| in_full(&error))
    }

    /// The policy as this box accepts it: one that lacks a layer wants to hear that this is known.
    pub fn accept(&self, mut policy: Policy) -> Policy {
        if self.layers != Layers::ALL {
            policy.approximate.extend(Control::ALL);
        }
        policy.container.image = self.made_of.image.clone();
        if self.kind.is_remote() {
            // Naming the runtime says that its server may be trusted with what isolates there.
            policy.runtime = RuntimeChoice::Kind(self.kind);
            policy.remote = self.made_of.remote.clone();
            if self.made_of.open_network {
                policy.network = NetworkMode::Open;
            }
        }
        policy
    }

    /// A box for host-side attacks, with this policy.
    pub async fn sandbox(&self, engine: &Engine, policy: Policy) -> Result<Box<dyn Sandbox>, String> {
        engine.create(&self.accept(policy)).await.map_err(|error| match error {
            EngineError::Create(error) => format!("{REFUSED}{}", in_full(&error)),
            EngineError::Refused(refused) => format!("{REFUSED}{}", first_reason(&refused)),
            error => in_full(&error),
        })
    }
}

#[async_trait]
impl Target for Boxed {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, job: &Job<'_>) -> Result<Ran, NotRun> {
        let policy = job.policy().map_err(|error| NotRun::Failed(in_full(&error)))?;
        let policy = self.accept(policy);
        let engine = self.engine().await.map_err(NotRun::Failed)?;
        if let Err(refusal) = engine.plan(&policy).await {
            engine.close().await;
            return Err(NotRun::NotApplicable(format!("{REFUSED}{}", first_reason(&refusal))));
        }
        let Some((program, arguments)) = job.command.split_first() else {
            return Err(NotRun::Failed("there is no command".into()));
        };
        let config = SpawnConfig::new(program).args(arguments.iter().cloned());
        let result = engine.run_with(&policy, config).await;
        engine.close().await;
        let output = result.map_err(|error| match error {
            EngineError::Create(error) => NotRun::NotApplicable(format!("{REFUSED}{}", in_full(&error))),
            error => NotRun::Failed(in_full(&error)),
        })?;
        // What was planned is not always what could be had in the end; the box says so itself.
        let report = &output.outcome.report.controls;
        let held = |control: Control| report.iter().find(|entry| entry.control == control);
        match job.check.control.and_then(held).map(|entry| (entry.control, &entry.actual)) {
            Some((control, actual)) if !matches!(actual, Capability::Enforced { .. }) => {
                Err(NotRun::NotApplicable(said_itself(control, actual)))
            }
            _ => Ok(ran(&output)),
        }
    }

    fn has_image(&self) -> bool {
        self.kind == RuntimeKind::Docker || self.kind.is_remote() || self.made_of.image.is_some()
    }

    fn is_elsewhere(&self) -> bool {
        self.kind.is_remote()
    }

    fn beyond(&self, check: &Check) -> Option<String> {
        let capabilities = match self.kind {
            RuntimeKind::Opensandbox => OpenSandboxBackend::capabilities(),
            RuntimeKind::E2b | RuntimeKind::Cube => E2bBackend::capabilities(self.kind),
            _ => return None,
        };
        elsewhere::beyond(check, &capabilities)
    }

    async fn answers(&self, script: &str) -> bool {
        if !self.has_image() {
            return true;
        }
        if let Some(known) = self.answers().get(script) {
            return *known;
        }
        let answer = self.asks(script).await.unwrap_or(false);
        self.answers().insert(script.to_owned(), answer);
        answer
    }

    fn boxed(&self) -> Option<&Boxed> {
        Some(self)
    }
}

/// Why a policy was refused, in one line.
fn first_reason(refused: &NoBackend) -> String {
    let rules = refused.refusals.iter().flat_map(|refusal| &refusal.rules);
    let why = rules.map(|rule| format!("{}: {}", rule.requested, rule.why)).next();
    why.unwrap_or_else(|| refused.to_string().replace('\n', " "))
}

/// What a box says about a control that it does not hold in full.
fn said_itself(control: Control, actual: &Capability) -> String {
    format!("the box says so itself: {control} is {actual}")
}

fn ran(output: &SandboxOutput) -> Ran {
    let mut text = String::from_utf8_lossy(&output.stdout.bytes()).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr.bytes()));
    let calls = output.outcome.violations.iter().filter(|violation| violation.kind == ViolationKind::Syscall);
    Ran {
        output: text,
        end: output.status().to_string(),
        ended_by_box: !matches!(output.status(), Status::Exited(_) | Status::Signaled(_))
            || output.status() == Status::Signaled(SIGSYS),
        refused_calls: calls.map(|violation| violation.what.clone()).collect(),
        group: None,
    }
}

/// An error with all its causes.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
