//! Every way to run a command in a remote sandbox that is compared.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use hotcell::policy::NetworkMode;
use hotcell::{Engine, EngineOptions, Policy, RuntimeKind};

use super::Place;
use super::raw::{Calls, E2bRaw, OpensandboxRaw};
use crate::bench::boxes::Kept;
use crate::bench::latency::{self, Candidate, Pace, Row};

pub(super) const E2B: &str = "e2b";
pub(super) const E2B_RAW: &str = "e2b-raw";
pub(super) const E2B_BARE: &str = "e2b-bare";
pub(super) const OPENSANDBOX: &str = "opensandbox";
pub(super) const OPENSANDBOX_RAW: &str = "opensandbox-raw";
pub(super) const OPENSANDBOX_BARE: &str = "opensandbox-bare";

/// What is run.
pub(super) const PROGRAM: &str = "/usr/bin/true";

/// Measures every variant, interleaved.
pub(super) fn measure(e2b: &Place, opensandbox: &Place, image: &str, rounds: usize) -> Result<Vec<Row>> {
    let program = Path::new(PROGRAM);
    // A runtime of one thread, as the `hotcell` command has.
    let runtime = Rc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
    let at = |kind, place: &Place| Policy::builder().runtime(kind).sandbox_url(&place.url).sandbox_api_key(&place.key);
    let e2b_policy = at(RuntimeKind::E2b, e2b).sandbox_data_url(&e2b.url).build()?;
    // The tests' server is asked for what it can do.
    let opensandbox_policy =
        at(RuntimeKind::Opensandbox, opensandbox).image(image).network(NetworkMode::Open).build()?;
    let kept = |policy: &Policy| -> Result<(Engine, Kept)> {
        let engine = runtime.block_on(Engine::with_options(EngineOptions::for_policy(policy)))?;
        let kept = Kept::new(&runtime, &engine, policy, program)?;
        Ok((engine, kept))
    };
    let (e2b_engine, e2b_kept) = kept(&e2b_policy)?;
    let (opensandbox_engine, opensandbox_kept) = kept(&opensandbox_policy)?;
    let candidates = vec![
        Candidate { name: E2B, about: "library: a command in a kept E2B box", variant: Ok(Box::new(e2b_kept)) },
        Candidate {
            name: E2B_RAW,
            about: "the same calls by hand",
            variant: Ok(Box::new(E2bRaw::new(e2b, Calls::Same)?)),
        },
        Candidate {
            name: E2B_BARE,
            about: "one call by hand: the program alone",
            variant: Ok(Box::new(E2bRaw::new(e2b, Calls::Bare)?)),
        },
        Candidate {
            name: OPENSANDBOX,
            about: "library: a command in a kept OpenSandbox box",
            variant: Ok(Box::new(opensandbox_kept)),
        },
        Candidate {
            name: OPENSANDBOX_RAW,
            about: "the same calls by hand",
            variant: Ok(Box::new(OpensandboxRaw::new(opensandbox, image, Calls::Same)?)),
        },
        Candidate {
            name: OPENSANDBOX_BARE,
            about: "one call by hand: the program alone",
            variant: Ok(Box::new(OpensandboxRaw::new(opensandbox, image, Calls::Bare)?)),
        },
    ];
    let pace = Pace { rounds, warm_up: 5, pause: Duration::from_millis(10) };
    let rows = latency::measure(candidates, pace, &[E2B, OPENSANDBOX]);
    runtime.block_on(e2b_engine.close());
    runtime.block_on(opensandbox_engine.close());
    rows
}
