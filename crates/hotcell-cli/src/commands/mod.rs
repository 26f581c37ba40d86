//! One file per command.

pub(crate) mod code;
pub(crate) mod completions;
pub(crate) mod doctor;
#[cfg(target_os = "linux")]
pub(crate) mod image;
#[cfg(target_os = "linux")]
mod image_build;
pub(crate) mod import;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod plan;
#[cfg(target_os = "linux")]
pub(crate) mod prune;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod shell;
#[cfg(target_os = "linux")]
pub(crate) mod verify;

use std::future::Future;
use std::io;
use std::path::PathBuf;

use hotcell::config::{Bound, Config, Layer, Origin, RemoteConfig, Sourced};
use hotcell::presets::Preset;
use hotcell::runtime::{Isolation, RuntimeChoice, RuntimeKind};
use hotcell::settings::{Request, Settings};
use hotcell::{Engine, EngineError, EngineOptions, Progress};

use crate::failure::Failure;

/// Runs a command's future on this thread alone: most runs need no other.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error: io::Error| Failure::new("runtime", format!("could not start: {error}")))?;
    runtime.block_on(future)
}

/// A person is there to end it. Files, variables and flags can still set a limit.
fn without_time_limit() -> Config {
    let mut defaults = Config::default();
    defaults.limits.timeout = Some(Sourced::new(Bound::Unlimited, Origin::layer(Layer::Default)));
    defaults
}

/// Where nobody says anything, the current directory is an overlay: nothing that code writes reaches the user's files.
fn over_the_workspace(mut defaults: Config) -> Config {
    defaults.sandbox.preset = Some(Sourced::new(Preset::WorkspaceOverlay, Origin::layer(Layer::Default)));
    defaults
}

/// Refuses what was asked for in so many words and would not be used: people would think that it was.
fn check_flags(request: &Request, settings: &Settings) -> Result<(), Failure> {
    let asks_for_more = settings.policy.isolation.is_some_and(|asked| !Isolation::Process.satisfies(asked));
    if request.flags.container.image.is_some() && is_native(settings.policy.runtime) && !asks_for_more {
        return Err(Failure::usage("--image has no meaning for a native box; add --runtime docker, oci or gvisor"));
    }
    let is_remote = matches!(settings.policy.runtime, RuntimeChoice::Kind(kind) if kind.is_remote());
    if request.flags.remote != RemoteConfig::default() && !is_remote {
        let flags = "--sandbox-url, --sandbox-key-file, --template, --snapshot and --plain-http";
        let message = format!("{flags} have no meaning for a local box; add --runtime opensandbox, e2b or cube");
        return Err(Failure::usage(&message));
    }
    Ok(())
}

fn is_native(choice: RuntimeChoice) -> bool {
    matches!(choice, RuntimeChoice::Auto | RuntimeChoice::Kind(RuntimeKind::Native))
}

/// The engine that the settings ask for.
async fn engine_for(settings: &Settings, progress: Option<Progress>) -> Result<Engine, Failure> {
    let options = EngineOptions::for_policy(&settings.policy).warm(0).progress(progress);
    Engine::with_options(options).await.map_err(not_started)
}

fn not_started(error: EngineError) -> Failure {
    Failure::engine(error, &[]).hint("`hotcell doctor` says what this machine can do")
}

/// The engine and the settings, made at the same time: files are read while the engine's helper starts.
async fn prepare(
    flags: Config,
    defaults: Config,
    policy: Option<PathBuf>,
    progress: Option<Progress>,
) -> Result<(Engine, Settings), Failure> {
    let mut request = Request::of_this_process()?;
    request.flags = flags;
    request.defaults = defaults;
    request.policy_file = policy;
    if request.flags.sandbox.mode.as_ref().is_some_and(|mode| !is_native(mode.value)) {
        let settings = Settings::load(&request)?;
        check_flags(&request, &settings)?;
        return Ok((engine_for(&settings, progress).await?, settings));
    }
    // One box is made from one policy, so there is nothing to keep ready.
    let options = EngineOptions::default().warm(0).progress(progress.clone());
    let (engine, settings) = tokio::join!(Engine::with_options(options), async { Settings::load(&request) });
    let settings = settings.map_err(Failure::from).and_then(|settings| {
        check_flags(&request, &settings)?;
        Ok(settings)
    });
    match (engine, settings) {
        (Ok(engine), Ok(settings)) if is_native(settings.policy.runtime) => Ok((engine, settings)),
        (Err(error), Ok(settings)) if is_native(settings.policy.runtime) => Err(not_started(error)),
        // A file or a variable asks for another kind of box: whether native ones can be made here does not matter.
        (engine, settings) => {
            if let Ok(engine) = engine {
                engine.close().await;
            }
            // What the user wrote comes before what the machine cannot do.
            let settings = settings?;
            Ok((engine_for(&settings, progress).await?, settings))
        }
    }
}
