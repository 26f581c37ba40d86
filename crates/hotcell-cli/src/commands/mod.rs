//! One file per command.

pub(crate) mod completions;
pub(crate) mod doctor;
#[cfg(target_os = "linux")]
pub(crate) mod image;
#[cfg(target_os = "linux")]
mod image_build;
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

use hotcell::config::Config;
use hotcell::runtime::{Isolation, RuntimeChoice, RuntimeKind};
use hotcell::settings::{Request, Settings};
use hotcell::{Engine, EngineOptions, Progress};

use crate::failure::Failure;

/// Runs a command's future on this thread alone: most runs need no other.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error: io::Error| Failure::new("runtime", format!("could not start: {error}")))?;
    runtime.block_on(future)
}

/// Whether an image was asked for in so many words, and the box would be made without one.
fn has_no_use_for_image(request: &Request, settings: &Settings) -> bool {
    let asks_for_more = settings.policy.isolation.is_some_and(|asked| !Isolation::Process.satisfies(asked));
    request.flags.container.image.is_some() && is_native(settings.policy.runtime) && !asks_for_more
}

fn is_native(choice: RuntimeChoice) -> bool {
    matches!(choice, RuntimeChoice::Auto | RuntimeChoice::Kind(RuntimeKind::Native))
}

/// The settings, then the engine that they ask for.
async fn prepare_for(request: &Request, progress: Option<Progress>) -> Result<(Engine, Settings), Failure> {
    let settings = Settings::load(request)?;
    let options = EngineOptions::for_policy(&settings.policy).warm(0).progress(progress);
    match Engine::with_options(options).await {
        Ok(engine) => Ok((engine, settings)),
        Err(error) => Err(Failure::engine(error, &[]).hint("`hotcell doctor` says what this machine can do")),
    }
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
        return prepare_for(&request, progress).await;
    }
    // One box is made from one policy, so there is nothing to keep ready.
    let options = EngineOptions::default().warm(0).progress(progress);
    let (engine, settings) = tokio::join!(Engine::with_options(options), async { Settings::load(&request) });
    match (engine, settings) {
        (Ok(engine), Ok(settings)) if has_no_use_for_image(&request, &settings) => {
            engine.close().await;
            Err(Failure::usage("--image has no meaning for a native box; add --runtime docker, oci or gvisor"))
        }
        (Ok(engine), Ok(settings)) => Ok((engine, settings)),
        (Ok(engine), Err(error)) => {
            engine.close().await;
            Err(error.into())
        }
        // What the user wrote comes before what the machine cannot do.
        (Err(_), Err(error)) => Err(error.into()),
        (Err(error), Ok(_)) => Err(Failure::engine(error, &[]).hint("`hotcell doctor` says what this machine can do")),
    }
}
