//! `hotcell mcp`: a box and its tools for an agent that speaks the Model Context Protocol.
//!
//! stdout belongs to the protocol; whatever there is to say besides goes to stderr.

mod arguments;
mod http;
mod snippet;
mod stop;
mod token_file;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use hotcell::Engine;
use hotcell::config::{Bound, Config, Layer, Origin, Sourced};
use hotcell::settings::Settings;
use hotcell::text::PrintablePath;
use hotcell::tools::{OpenError, ToolboxOptions};
use hotcell_mcp::{Host, stdio};
use tokio::runtime::Runtime;

use super::{over_the_workspace, prepare, without_time_limit};
use crate::failure::Failure;
use crate::{exit, output};
pub(crate) use arguments::{EXAMPLES, McpArguments};
use snippet::Client;

/// Serves until the client is gone or a signal comes.
pub(crate) fn execute(arguments: McpArguments) -> Result<u8, Failure> {
    if let Some(workspace) = &arguments.workspace {
        enter(workspace)?;
    }
    let runtime = Runtime::new().map_err(|error| Failure::new("runtime", format!("could not start: {error}")))?;
    let done = match arguments.print_config {
        Some(client) => runtime.block_on(describe(client, arguments)),
        None => runtime.block_on(serve(arguments)),
    };
    // A read of stdin that is not over would hold up an ordinary end.
    runtime.shutdown_background();
    done
}

/// Prints how a client finds the server, if there could be one: what cannot be served is refused as it would be then.
async fn describe(client: Client, arguments: McpArguments) -> Result<u8, Failure> {
    let way = snippet::way(client, &arguments)?;
    if let Some(address) = arguments.http.http {
        http::check(address, &arguments.http)?;
    }
    let http = arguments.http.clone();
    host(arguments).await?.close().await;
    snippet::print(client, &way, &http)
}

async fn serve(arguments: McpArguments) -> Result<u8, Failure> {
    let stop = stop::on_signals()?;
    let server = match arguments.http.http {
        Some(address) => Some(http::bind(address, &arguments.http).await?),
        None => None,
    };
    let host = Arc::new(host(arguments).await?);
    let served = match server {
        Some(server) => {
            server.serve(Arc::clone(&host), stop).await;
            Ok(())
        }
        None => {
            if io::stdin().is_terminal() {
                output::message(
                    "waiting for a client on stdin; `hotcell mcp --print-config NAME` says how one is told of this",
                );
            }
            let (input, output) = stdio::streams();
            stdio::serve(Arc::clone(&host), input, output, stop).await
        }
    };
    // Whatever happened, nothing stays behind.
    host.close().await;
    served.map(|()| exit::SUCCESS).map_err(|error| Failure::new("mcp", error))
}

/// The engine and what boxes are made of, or why there can be none.
async fn host(arguments: McpArguments) -> Result<Host, Failure> {
    let flags = arguments.policy.to_config(false)?;
    let (engine, settings) = prepare(flags, defaults(), arguments.policy.policy, None).await?;
    let options = options(&settings, arguments.tools)?;
    planned(engine, options).await
}

async fn planned(engine: Engine, options: ToolboxOptions) -> Result<Host, Failure> {
    let kept = engine.clone();
    match Host::new(engine, options).await {
        Ok(host) => Ok(host),
        Err(error) => {
            let failure = match error {
                OpenError::Engine(error) => Failure::engine(error, &kept.capabilities()),
                other => Failure::new("tools", other),
            };
            kept.close().await;
            Err(failure)
        }
    }
}

fn options(settings: &Settings, tools: Option<Vec<String>>) -> Result<ToolboxOptions, Failure> {
    let workspace = match &settings.policy.process.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir().map_err(|error| Failure::new("workspace", error))?,
    };
    let mut options = ToolboxOptions::new(settings.policy.clone(), workspace);
    let languages = settings.languages.iter();
    options.languages = languages.fold(options.languages, |all, (name, command)| all.with(name, command.clone()));
    options.tools = tools;
    Ok(options)
}

/// Calls have a time limit of their own; contexts and background processes live as long as the connection, and both limits would
/// count from their start.
fn defaults() -> Config {
    let mut defaults = over_the_workspace(without_time_limit());
    defaults.limits.cpu_time = Some(Sourced::new(Bound::Unlimited, Origin::layer(Layer::Default)));
    defaults
}

/// As if the command had been started there.
fn enter(workspace: &Path) -> Result<(), Failure> {
    std::env::set_current_dir(workspace).map_err(|error| {
        Failure::new("workspace", format!("cannot use `{}` as the workspace: {error}", PrintablePath(workspace)))
            .hint("name a directory that exists")
    })
}
