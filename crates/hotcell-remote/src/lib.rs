//! Clients of remote sandbox servers.
//!
//! - [`http`]: calls with rules that hold for every server: keys stay with their origin, https is verified, plain http is for
//!   this machine, every call has a deadline, every answer a largest size, and nothing is repeated that could happen twice.
//! - [`opensandbox`]: OpenSandbox, its lifecycle API and the `execd` in each sandbox.
//! - [`e2b`]: E2B and what speaks its API, the control plane, the `envd` in each sandbox and the code interpreter.
//!
//! What a server says is not trusted: it can end a call with an error, and do nothing else to the program that made it.

pub mod e2b;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod http;
pub mod opensandbox;
mod random;
mod websocket;

pub use random::unique;
