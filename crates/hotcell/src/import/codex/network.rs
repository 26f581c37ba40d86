//! `[permissions.NAME.network]`: names there, all or nothing here.

use hotcell_core::policy::NetworkMode;

use super::super::tree::{Entry, Value};
use super::super::{ImportError, Importer};

const NO_RULES: &str = "the network is open or closed as a whole: there are no rules for names or methods yet";
const CLOSED: &str = "the network is closed, so it is about nothing";
pub(super) const BEHIND_PROXY: &str =
    "features.network_proxy lets through what its rules name: there are no rules for names or methods yet";
pub(super) const LEAVE_IT: &str =
    "leave it out to have no network; to open the whole network, set `mode` under [network] yourself";

/// The network of a chain of profiles, the chosen one first.
pub(super) fn read(importer: &mut Importer, top: &Entry<'_>, profiles: &[Entry<'_>]) -> Result<(), ImportError> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for profile in profiles {
        let Some(network) = profile.get("network")? else { continue };
        for entry in network.entries()? {
            let is_table = matches!(entry.node.value, Value::Table(_));
            if !is_table && entries.iter().any(|earlier| earlier.name == entry.name) {
                importer.report.always(&entry, "it has no effect: a profile that is made of this one says otherwise");
            } else {
                entries.push(entry);
            }
        }
    }
    let enabled = match entries.iter().find(|entry| entry.name == "enabled") {
        Some(enabled) => enabled.boolean()?,
        None => false,
    };
    let limited = match entries.iter().find(|entry| entry.name == "mode") {
        Some(mode) => mode.text()? != "full",
        None => false,
    };
    let names = entries.iter().any(|entry| ["domains", "mitm"].contains(&entry.name) && !entry.is_empty());
    // Behind a proxy, what no rule names is refused; so without rules nothing is let through.
    let proxied = proxy(top)?;
    let open = enabled && !limited && !names && !proxied;
    importer.draft.network = Some(if open { NetworkMode::Open } else { NetworkMode::Deny });
    for entry in &entries {
        match entry.name {
            "enabled" if enabled && proxied => importer.report.lost(entry, BEHIND_PROXY, LEAVE_IT),
            "enabled" => importer.report.carried(entry, &["network.mode"]),
            "mode" if limited && enabled => importer.report.lost(entry, NO_RULES, LEAVE_IT),
            "mode" => importer.report.always(entry, "a network that is open is open for everything"),
            "domains" | "mitm" if entry.is_empty() => importer.report.always(entry, "it names nothing"),
            "domains" | "mitm" if enabled => importer.report.lost(entry, NO_RULES, LEAVE_IT),
            "domains" | "mitm" => importer.report.always(entry, CLOSED),
            "unix_sockets" => sockets(importer, entry)?,
            "proxy_url" | "enable_socks5" | "socks_url" | "enable_socks5_udp" | "allow_upstream_proxy" => {
                importer.report.elsewhere(entry, "is about Codex's own proxy; Hotcell has none");
            }
            "allow_local_binding" if entry.boolean()? => importer.report.narrower(
                entry,
                &["network.mode"],
                "a closed box has a loopback of its own: programs in it reach each other, and nobody outside reaches them",
            ),
            "allow_local_binding" if open => importer.report.lost(
                entry,
                "with an open network, code can bind to ports of the host",
                "leave it out if that may be, or close the network",
            ),
            "allow_local_binding" => {
                importer.report.always(entry, "what binds to a port in the box is reached by nobody outside");
            }
            "dangerously_allow_non_loopback_proxy" | "dangerously_allow_all_unix_sockets" if entry.boolean()? => {
                importer.report.lost(entry, "it has no equal", "leave it out");
            }
            "dangerously_allow_non_loopback_proxy" | "dangerously_allow_all_unix_sockets" => {
                importer.report.always(entry, "it is never so");
            }
            _ => {}
        }
    }
    Ok(())
}

fn sockets(importer: &mut Importer, table: &Entry<'_>) -> Result<(), ImportError> {
    if table.is_empty() {
        importer.report.always(table, "it names nothing");
    }
    for entry in table.entries()? {
        match entry.text()? {
            "allow" => importer.report.lost(
                &entry,
                "sockets of the host cannot be reached from a box, except those in trees that it may write",
                "leave it out, or let the box write the directory that the socket is in",
            ),
            "deny" | "none" => importer
                .report
                .always(&entry, "sockets of the host are out of reach, unless they are in what may be written"),
            other => return Err(entry.bad_value(format!("is `{other}`, and can be \"allow\" or \"none\""))),
        }
    }
    Ok(())
}

/// Whether Codex would put its proxy between commands and the network.
pub(super) fn proxy(top: &Entry<'_>) -> Result<bool, ImportError> {
    let Some(features) = top.get("features")? else { return Ok(false) };
    let Some(proxy) = features.get("network_proxy")? else { return Ok(false) };
    match &proxy.node.value {
        Value::Boolean(on) => Ok(*on),
        // With details it is on, unless they say that it is not.
        _ => proxy.get("enabled")?.map_or(Ok(true), |enabled| enabled.boolean()),
    }
}
