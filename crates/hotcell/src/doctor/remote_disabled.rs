//! A build without remote boxes.

use super::{Examined, State, finding};
use crate::settings::RemoteRuntime;

pub(super) async fn examine(runtime: &RemoteRuntime) -> Examined {
    let problem = format!("the `{}` backend is not part of this build", runtime.kind);
    let server = finding(&format!("{} server", runtime.kind), State::Missing, problem.clone(), None);
    Examined { findings: vec![server], boxes: Err(problem) }
}
