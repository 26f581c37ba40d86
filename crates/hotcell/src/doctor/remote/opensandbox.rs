//! An OpenSandbox server.

use std::collections::BTreeMap;

use hotcell_core::policy::RemotePolicy;
use hotcell_remote::http::{Address, CallError};
use hotcell_remote::opensandbox::{Client, Filter};

use super::{Answers, Problem, State, finding, in_time, patience, with_key};

/// A label that no sandbox has: the list of those that have it is the cheapest call that wants the key.
const NOBODY: (&str, &str) = ("hotcell.owner", "nobody");

const ONLY_SEEN_IN_A_BOX: &str = "only a box shows which version of execd the server puts into it, and whether it can be kept \
                                  off the network: on Docker that needs `egress.image` in the server's configuration, and is \
                                  an error when the box is made otherwise";

/// Asks for everything at the same time.
pub(super) async fn ask(address: Address, remote: &RemotePolicy) -> Result<Answers, Problem> {
    let patience = patience(&address);
    let client = Client::new(address, remote.api_key.as_ref()).map_err(|error| Problem::of(&error, remote))?;
    let client = client.within(patience);
    let nobodys = Filter { states: Vec::new(), metadata: BTreeMap::from([(NOBODY.0.to_owned(), NOBODY.1.to_owned())]) };
    let (version, listed, snapshots, pools) = tokio::join!(
        in_time(patience, client.version()),
        in_time(patience, client.list(&nobodys)),
        in_time(patience, client.snapshots(None)),
        in_time(patience, client.pools()),
    );
    match listed {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(Problem::of(&error, remote)),
        None => return Err(Problem::silent(client.address(), patience)),
    }
    let version = match version {
        Some(Ok(version)) => format!("version {version}"),
        _ => "of unknown version".to_owned(),
    };
    let detail = format!("{version} at {}, which answers and {}", client.address(), with_key(remote));
    let snapshots = ability("snapshots", snapshots.map(|answer| answer.map(|found| found.len())));
    let pools = ability("pools", pools.map(|answer| answer.map(|found| found.len())));
    let abilities = format!("{snapshots}; {pools}; {ONLY_SEEN_IN_A_BOX}");
    Ok(Answers { detail, more: vec![finding("its abilities", State::Good, abilities, None)] })
}

/// What the server has of something that not every server can do.
fn ability(what: &str, counted: Option<Result<usize, CallError>>) -> String {
    match counted {
        Some(Ok(count)) => format!("{what}: {count}"),
        Some(Err(error)) if matches!(error.status(), Some(404 | 405 | 501)) => format!("no {what}"),
        Some(Err(error)) => format!("{what}: not known, the server {}", error.why),
        None => format!("{what}: not known, the server did not answer in time"),
    }
}
