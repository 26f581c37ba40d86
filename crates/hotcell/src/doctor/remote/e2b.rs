//! A server of E2B's API.

use hotcell_core::policy::RemotePolicy;
use hotcell_core::runtime::RuntimeKind;
use hotcell_remote::e2b::{Client, Data, Filter, Flavour, Options, Template};
use hotcell_remote::http::{Address, CallError, Why};

use super::{Answers, Finding, Problem, State, finding, in_time, parse, patience, with_key};

const ONLY_SEEN_BY_CREATING: &str = "which version of `create` the server has, and of envd in its boxes, is only seen when one \
                                     is made; both versions of `create` are spoken";
const ONLY_FIRST_VERSION: &str = "the first version of `create` is spoken, the only one that CubeSandbox has; the version of envd \
                                  is only seen in a box";

/// Asks for everything at the same time.
pub(super) async fn ask(kind: RuntimeKind, address: Address, remote: &RemotePolicy) -> Result<Answers, Problem> {
    let patience = patience(&address);
    let data = match (&remote.data_url, &remote.domain) {
        (Some(url), _) => Data::Url(parse(url, remote)?),
        (None, Some(domain)) => Data::Domain(domain.clone()),
        // No sandbox is talked to.
        (None, None) => Data::Url(address.clone()),
    };
    let mut options = Options::new(address, data);
    options.api_key.clone_from(&remote.api_key);
    options.flavour = if kind == RuntimeKind::Cube { Flavour::Cube } else { Flavour::E2b };
    let client = Client::new(options).map_err(|error| Problem::of(&error, remote))?.within(patience);
    let one = Filter::new(1);
    let (listed, templates) = tokio::join!(in_time(patience, client.list(&one)), in_time(patience, client.templates()));
    match listed {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(Problem::of(&error, remote)),
        None => return Err(Problem::silent(client.address(), patience)),
    }
    let detail = format!("at {}, which answers and {}", client.address(), with_key(remote));
    let versions = if kind == RuntimeKind::Cube { ONLY_FIRST_VERSION } else { ONLY_SEEN_BY_CREATING };
    let more =
        vec![template(remote.template.as_deref(), templates), finding("its abilities", State::Good, versions, None)];
    Ok(Answers { detail, more })
}

/// Whether the template that boxes are made of is there.
fn template(wanted: Option<&str>, listed: Option<Result<Vec<Template>, CallError>>) -> Finding {
    let name = "its templates";
    let of = wanted.map(|wanted| format!("boxes are made of `{wanted}`; ")).unwrap_or_default();
    let is =
        |wanted: &str, template: &Template| template.id == wanted || template.names.iter().any(|name| name == wanted);
    match (wanted, listed) {
        (Some(wanted), Some(Ok(listed))) if !listed.iter().any(|template| is(wanted, template)) => {
            let detail = format!("{of}it is not among the {} that are this key's own", listed.len());
            let fix = "name one that is there; a public template of somebody else is not listed and may be right";
            finding(name, State::Limited, detail, Some(fix.to_owned()))
        }
        (_, Some(Ok(listed))) => finding(name, State::Good, format!("{of}{} are this key's own", listed.len()), None),
        (_, Some(Err(CallError { why: Why::Unsupported { .. }, .. }))) => {
            finding(name, State::Good, format!("{of}the server does not list them"), None)
        }
        (_, Some(Err(error))) => {
            finding(name, State::Limited, format!("{of}not known: the server {}", error.why), None)
        }
        (_, None) => finding(name, State::Limited, format!("{of}not known: the server did not answer in time"), None),
    }
}
