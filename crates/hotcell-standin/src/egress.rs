//! OpenSandbox's egress sidecar, as much of it as it takes to deny everything.
//!
//! The sandbox shares this container's network. Denied is what the default route leads to: it is taken away, so names and
//! addresses beyond the engine's own bridge cannot be reached. The real one decides by name and address, with a DNS
//! proxy and nftables; rules that allow something are therefore refused here. In the mode `dns`, in which the real one
//! filters names alone, addresses stay within reach here too.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, sendto, socket};
use serde_json::{Value, json};

use crate::{listen, reply};

const PORT: u16 = 18080;
const TOKEN_HEADER: &str = "opensandbox-egress-auth";

/// What the server tells it.
const RULES: &str = "OPENSANDBOX_EGRESS_RULES";
const MODE: &str = "OPENSANDBOX_EGRESS_MODE";
const TOKEN: &str = "OPENSANDBOX_EGRESS_TOKEN";

#[derive(Debug, Clone)]
struct Egress {
    token: String,
    mode: String,
    policy: Value,
}

pub(crate) async fn run() -> Result<()> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let policy: Value = serde_json::from_str(&variable(RULES)?).context("the rules are not JSON")?;
    let (token, mode) = (variable(TOKEN)?, variable(MODE)?);
    let denies = policy["defaultAction"] == "deny";
    if policy["egress"].as_array().is_some_and(|rules| !rules.is_empty()) {
        bail!("this stand-in can deny everything or nothing, and there are rules");
    }
    let listener = listen::in_container(SocketAddr::new(listen::EVERYWHERE, PORT), TOKEN).await?;
    if denies && mode == "dns+nft" {
        forget_default_route(AddressFamily::INET)?;
        forget_default_route(AddressFamily::INET6)?;
    }
    let router = Router::new()
        .route("/healthz", get(|| async { reply::with_type(StatusCode::OK, "text/plain; charset=utf-8", "ok") }))
        .route("/policy", get(policy_status))
        .with_state(Egress { token, mode, policy });
    listen::serve(listener, router, false).await
}

async fn policy_status(State(egress): State<Egress>, headers: HeaderMap) -> Response {
    if headers.get(TOKEN_HEADER).is_none_or(|token| token.as_bytes() != egress.token.as_bytes()) {
        return reply::with_type(StatusCode::UNAUTHORIZED, "text/plain; charset=utf-8", "unauthorized\n");
    }
    let mode = if egress.policy["defaultAction"] == "deny" { "deny_all" } else { "allow_all" };
    let status = json!({ "status": "ok", "mode": mode, "enforcementMode": egress.mode, "policy": egress.policy });
    reply::json(StatusCode::OK, &status)
}

/// Takes the default route of a family away; one that is not there is not missed.
fn forget_default_route(family: AddressFamily) -> Result<()> {
    // Routes are what this family is about when nobody says otherwise.
    let routes = socket(AddressFamily::NETLINK, SocketType::RAW, None).context("cannot talk to the kernel")?;
    let request = delete_default_route(family);
    sendto(&routes, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).context("cannot ask the kernel")?;
    let mut answer = [0; 256];
    let (length, _) = recv(&routes, &mut answer[..], RecvFlags::empty()).context("the kernel does not answer")?;
    // struct nlmsghdr (16 bytes), then a negative error number.
    let error = answer[..length].get(16..20).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(i32::from_ne_bytes);
    // No such route, or no routes of this family at all.
    let not_there = [Errno::SRCH, Errno::NOENT].map(Errno::raw_os_error);
    match error.map(i32::wrapping_neg) {
        Some(error) if error == 0 || not_there.contains(&error) => Ok(()),
        Some(error) => bail!("the default route stays: {}", std::io::Error::from_raw_os_error(error)),
        None => bail!("the kernel's answer is too short"),
    }
}

/// `struct nlmsghdr` and `struct rtmsg` that ask for the removal of the main table's default route.
fn delete_default_route(family: AddressFamily) -> Vec<u8> {
    const LENGTH: u32 = 28;
    const DELETE_ROUTE: u16 = 25;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const MAIN_TABLE: u8 = 254;
    const ANY_SCOPE: u8 = 255;
    let mut message = LENGTH.to_ne_bytes().to_vec();
    message.extend(DELETE_ROUTE.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Number of the request, and who asks: the kernel knows.
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    // Family, lengths of destination and source, type of service, table, protocol, scope, type, and flags.
    message.extend([family.as_raw() as u8, 0, 0, 0, MAIN_TABLE, 0, ANY_SCOPE, 0, 0, 0, 0, 0]);
    message
}
