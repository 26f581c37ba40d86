//! E2B, and everything that speaks its API.
//!
//! Three servers make one sandbox: the control plane ([`Client`]) creates it, the `envd` inside ([`Envd`]) runs commands and
//! holds files, and in templates that have one a code interpreter ([`CodeInterpreter`]) runs cells of code.
//!
//! ```no_run
//! use std::time::Duration;
//! use hotcell_core::secret::Secret;
//! use hotcell_remote::e2b::{Client, Command, Data, Event, NewSandbox, Options};
//! use hotcell_remote::http::{Address, PlainHttp};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let api = Address::parse("https://api.e2b.app", PlainHttp::LoopbackOnly)?;
//! let mut options = Options::new(api, Data::Domain("e2b.app".to_owned()));
//! options.api_key = Some(Secret::new("e2b_…".to_owned()));
//! let client = Client::new(options)?;
//! let sandbox = client.create(&NewSandbox::new("base", Duration::from_secs(300))).await?;
//! let mut running = client.envd(&sandbox)?.start(&Command::new("/bin/sh", ["-c", "echo hi"])).await?;
//! while let Some(event) = running.next().await? {
//!     if let Event::End(end) = event {
//!         assert_eq!(end.exit_code, 0);
//!     }
//! }
//! client.delete(sandbox.id()).await?;
//! # Ok(())
//! # }
//! ```

mod client;
mod connect;
mod control;
mod envd;
mod id;
mod interpreter;
mod options;
mod reach;
mod sandbox;
mod version;
mod wire;

pub use client::Client;
pub use control::{LogEntry, Metric, Snapshot, Template};
pub use envd::{
    Change, ChangeKind, Command, Download, End, Entry, EntryKind, Envd, Event, Input, Process, Resources, Running,
    Selector, Signal, SignedUrl, TerminalSize, Watcher,
};
pub use id::{IdError, SandboxId};
pub use interpreter::{Cell, CodeInterpreter, Context, Execution, Output, Rich};
pub use options::{Data, Flavour, Options};
pub use sandbox::{Details, Filter, NetworkRules, NewSandbox, Sandbox, State};
pub use version::EnvdVersion;
