//! `network`: a list of names there; all or nothing here, so it is closed or an error.

use hotcell_core::policy::NetworkMode;

use super::super::report::{NO_SOCKETS_THERE, SOCKETS};
use super::super::tree::Entry;
use super::super::{ImportError, Importer};
use super::off;

const NONE_THERE: &str = "there is no network that it could be about";
const NO_RULES: &str = "the network is open or closed as a whole: there are no rules for names yet";
const NO_PROXY: &str = "Hotcell sends nothing through a proxy";
const LEAVE_IT: &str =
    "leave it out to have no network; to open the whole network, set `mode` under [network] yourself";

pub(super) fn read(importer: &mut Importer, network: Option<&Entry<'_>>) -> Result<(), ImportError> {
    let entries = network.map(Entry::entries).transpose()?.unwrap_or_default();
    let writes = importer.draft.writes_anything();
    if writes && !entries.iter().any(|entry| entry.name == "allowUnixSockets") {
        importer.report.unsaid_loss("network.allowUnixSockets", SOCKETS, NO_SOCKETS_THERE);
    }
    for entry in entries {
        match entry.name {
            "allowedDomains" => {
                importer.draft.network = Some(NetworkMode::Deny);
                if entry.elements()?.is_empty() {
                    importer.report.carried(&entry, &["network.mode"]);
                } else {
                    importer.report.lost(&entry, NO_RULES, LEAVE_IT);
                }
            }
            "deniedDomains" | "deniedResolvedAddresses" => {
                entry.elements()?;
                importer.report.always(&entry, "the network is closed, for these too");
            }
            "deniedDomainReasons" if entry.is_empty() => importer.report.always(&entry, NONE_THERE),
            "deniedDomainReasons" => importer.report.lost(
                &entry,
                "Hotcell says in its own words why something is refused",
                "leave it out, or tell the model in its instructions",
            ),
            "strictAllowlist" if !entry.boolean()? => {
                importer.report.narrower(&entry, &["network.mode"], "nobody is asked: what is not allowed is refused");
            }
            "strictAllowlist" => importer.report.always(&entry, "what is not allowed is refused, and nobody is asked"),
            "allowUnixSockets" if entry.is_empty() && writes => {
                importer.report.lost(&entry, SOCKETS, NO_SOCKETS_THERE);
            }
            "allowUnixSockets" | "allowMachLookup" if entry.is_empty() => {
                importer.report.always(&entry, "nothing outside of the box can be reached through one");
            }
            "allowUnixSockets" => importer.report.lost(
                &entry,
                "sockets of the host cannot be reached from a box, except those in trees that it may write",
                "leave it out, or let the box write the directory that the socket is in",
            ),
            "allowMachLookup" => importer.report.lost(&entry, "it is for macOS alone", "leave it out"),
            "allowAllUnixSockets" => {
                off(
                    importer,
                    &entry,
                    "sockets of the host are out of reach, unless they are in what may be written",
                    "it has no equal",
                )?;
            }
            "allowLocalBinding" if entry.boolean()? => importer.report.narrower(
                &entry,
                &["network.mode"],
                "the box has a loopback of its own: programs in it reach each other, and nobody outside reaches them",
            ),
            "allowLocalBinding" => {
                importer.report.always(&entry, "what binds to a port in the box is reached by nobody outside");
            }
            "refuseOpaqueTunnels" | "requireHostMatch" | "ambiguousRequestTarget" | "stripResponseHeaders" => {
                importer.report.always(&entry, NONE_THERE);
            }
            "allowPlaintextHeaderSet" => off(importer, &entry, NONE_THERE, "it has no equal")?,
            "httpProxyPort" | "socksProxyPort" | "mitmProxy" | "parentProxy" | "tlsTerminate" if entry.is_empty() => {
                importer.report.always(&entry, NO_PROXY);
            }
            "httpProxyPort" | "socksProxyPort" | "mitmProxy" | "parentProxy" | "tlsTerminate" => {
                importer.report.lost(&entry, NO_PROXY, LEAVE_IT);
            }
            _ => {}
        }
    }
    Ok(())
}
