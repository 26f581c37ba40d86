//! What is asked of a server and what is made of its answers, against one that answers by the path.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use hotcell_core::backend::SandboxId;
use hotcell_core::capability::Control;
use hotcell_core::plan::{Plan, plan};
use hotcell_core::policy::{NetworkMode, Policy, PolicyBuilder, PullPolicy};
use hotcell_core::runtime::RuntimeKind;
use hotcell_core::secret::Secret;
use hotcell_remote::http::{Address, PlainHttp};
use hotcell_remote::opensandbox::{Client, Via};
use serde_json::{Value, json};

use super::{lower, probe, remove_by_name};
use crate::owner::Owner;
use crate::remote;

/// A server that answers the calls whose paths contain a word, and keeps what it was asked.
struct Server {
    client: Client,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// In a body `ADDRESS` stands for where it listens.
    fn new(answers: Vec<(&'static str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (kept, own) = (Arc::clone(&asked), address.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let line = request(&stream);
                let found = answers.iter().find(|(word, _)| line.contains(word));
                let body = found.map(|(_, body)| body.to_string().replace("ADDRESS", &own)).unwrap_or_default();
                let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                kept.lock().unwrap().push(line);
                let _ = (&stream).write_all((head + &body).as_bytes());
            }
        });
        let address = Address::parse(&format!("http://{address}"), PlainHttp::LoopbackOnly).unwrap();
        Self { client: Client::new(address, None).unwrap(), asked }
    }

    fn deleted(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|line| line.starts_with("DELETE")).cloned().collect()
    }
}

/// Reads a request to its end; its first line.
fn request(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
    }
    lines.read_exact(&mut vec![0; length]).unwrap();
    first
}

fn planned(policy: PolicyBuilder) -> Plan {
    // Only a runtime that was named is trusted with what isolates.
    plan(&policy.runtime(RuntimeKind::Opensandbox).build().unwrap(), &probe::capabilities()).unwrap()
}

/// What becomes of a plan where the sidecar says this of itself.
async fn checked(says: Value, plan: &Plan) -> Result<(), String> {
    let server = Server::new(vec![("/endpoints/18080", json!({ "endpoint": "ADDRESS/side" })), ("/side/policy", says)]);
    let token = Secret::new("token".to_owned());
    let held = lower::check_network(&server.client, "a1", Via::Direct, &token, plan).await;
    held.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_network_is_one_that_the_sidecar_holds_by_addresses() {
    let deny = || planned(Policy::builder());
    let says = |status: &str, mode: &str, action: &str, rules: Value| json!({ "status": status, "enforcementMode": mode, "policy": { "defaultAction": action, "egress": rules } });
    let good = says("ok", "dns+nft", "deny", json!([]));
    assert_eq!(checked(good, &deny()).await, Ok(()));
    let names = says("ok", "dns", "deny", json!([]));
    for (bad, word) in [
        (names.clone(), "filters names only"),
        (says("ok", "", "deny", json!([])), "does not say"),
        (json!({}), "does not say"),
        (says("ok", "dns+nft", "allow", json!([])), "something else"),
        (says("ok", "dns+nft", "deny", json!([{ "action": "allow", "target": "a.b" }])), "something else"),
        (says("degraded", "dns+nft", "deny", json!([])), "something else"),
        (json!({ "status": "ok", "enforcementMode": "dns+nft" }), "something else"),
        (json!("nonsense"), "does not say"),
    ] {
        let refused = checked(bad.clone(), &deny()).await.unwrap_err();
        assert!(refused.contains(word) && refused.contains("no network"), "{bad}: {refused}");
    }
    // Somebody who said so gets what the server has.
    assert_eq!(checked(names.clone(), &planned(Policy::builder().approximate(Control::Network))).await, Ok(()));
    assert_eq!(checked(names, &planned(Policy::builder().network(NetworkMode::Open))).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_sidecar_holds_no_network() {
    let server = Server::new(Vec::new());
    let (token, plan) = (Secret::new("token".to_owned()), planned(Policy::builder()));
    let error = lower::check_network(&server.client, "a1", Via::Direct, &token, &plan).await.unwrap_err();
    assert!(error.to_string().contains("does not say"), "{error}");
}

#[test]
fn an_image_that_is_not_to_be_fetched_is_not_named_to_a_server() {
    let (owner, id) = (Owner::current().unwrap(), SandboxId::new("opensandbox-1-1").unwrap());
    let new = |policy: PolicyBuilder| lower::new_sandbox(&planned(policy), &owner, &id);
    let image = || Policy::builder().image("somebody/image:1");
    let error = new(image().pull(PullPolicy::Never)).unwrap_err().to_string();
    assert!(error.contains("is not to be fetched") && error.contains("--pull missing"), "{error}");
    new(image().pull(PullPolicy::Missing)).unwrap();
    // Without a name there is nothing that anybody forbade.
    new(Policy::builder().pull(PullPolicy::Never)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_this_process_made_is_removed_by_its_name() {
    let (owner, id) = (Owner::current().unwrap(), SandboxId::new("opensandbox-1-1").unwrap());
    let own = remote::labels(&owner, &id);
    let sandbox = |name: &str, labels: &dyn Fn(&mut std::collections::BTreeMap<String, String>)| {
        let mut metadata = own.clone();
        labels(&mut metadata);
        json!({ "id": name, "status": { "state": "Running" }, "createdAt": "2026-01-01T00:00:00Z", "metadata": metadata })
    };
    // The name and the machine are the same: two containers on one machine, say.
    let other = Owner::of_another_boot().short_label();
    let items = [
        sandbox("mine", &|_| {}),
        sandbox("other-process", &|labels| drop(labels.insert("hotcell.owner".into(), other.clone()))),
        sandbox("other-machine", &|labels| drop(labels.insert("hotcell.host".into(), "elsewhere".into()))),
        sandbox("other-box", &|labels| drop(labels.insert("hotcell.box".into(), "opensandbox-1-2".into()))),
        sandbox("nobodys", &|labels| labels.clear()),
    ];
    let page = json!({ "page": 1, "pageSize": 100, "totalItems": 5, "totalPages": 1, "hasNextPage": false });
    let server =
        Server::new(vec![("DELETE", json!({})), ("GET /v1/sandboxes?", json!({ "items": items, "pagination": page }))]);
    remove_by_name(&server.client, &owner, &id).await.unwrap();
    assert_eq!(server.deleted(), ["DELETE /v1/sandboxes/mine HTTP/1.1\r\n"]);
}
