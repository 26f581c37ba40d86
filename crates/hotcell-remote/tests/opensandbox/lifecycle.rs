//! The lifecycle API: what is asked, what is understood, and where keys go.

use std::time::{Duration, SystemTime};

use hotcell_core::secret::Secret;
use hotcell_remote::http::Why;
use hotcell_remote::opensandbox::{
    Action, Client, Filter, ImageAuth, NetworkPolicy, NewSandbox, Rule, Source, State, Via, Volume, VolumeSource,
};
use serde_json::{Value, json};

use crate::player::{Play, Player};

const KEY: &str = "the-key-of-the-server";

fn client(player: &Player) -> Client {
    Client::new(player.address(), Some(&Secret::new(KEY.to_owned()))).unwrap()
}

fn sandbox(state: &str) -> Value {
    json!({ "id": "a1", "status": { "state": state }, "createdAt": "2026-11-16T06:40:52Z", "entrypoint": ["x"] })
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn first_line(request: &str) -> &str {
    request.lines().next().unwrap()
}

#[tokio::test]
async fn a_sandbox_is_asked_for_in_the_servers_words() {
    let answer = json!({
        "id": "a1", "status": { "state": "Pending", "reason": "R", "message": "M", "lastTransitionAt": "x" },
        "createdAt": "2026-11-16T06:40:52.5Z", "expiresAt": "2026-11-16T06:50:52+00:00", "metadata": { "m": "v" },
        "entrypoint": ["tail"], "somethingNew": [1],
    });
    let player = Player::one(Play::answer(202, &answer.to_string()));
    let mut new = NewSandbox::image("python:3.12");
    let auth = ImageAuth { username: "u".to_owned(), password: Secret::new("p".to_owned()) };
    new.source = Source::Image { uri: "python:3.12".to_owned(), auth: Some(auth) };
    new.timeout = Some(Duration::from_millis(299_500));
    new.env.insert("A".to_owned(), "1".to_owned());
    new.metadata.insert("m".to_owned(), "v".to_owned());
    new.network_policy = Some(NetworkPolicy::allow_only(["files.example"]));
    let mut volume = Volume::new("v", "/mnt", VolumeSource::HostPath("/srv".to_owned()));
    volume.read_only = true;
    new.volumes.push(volume);
    new.extensions.insert("poolRef".to_owned(), "p".to_owned());
    let made = client(&player).create(&new).await.unwrap();
    assert_eq!((made.id.as_str(), &made.status.state), ("a1", &State::Pending));
    assert_eq!((made.status.reason.as_str(), made.status.message.as_str()), ("R", "M"));
    assert_eq!(
        made.expires_at.unwrap().duration_since(made.created_at.unwrap()).unwrap(),
        Duration::from_millis(599_500)
    );

    let request = &player.requests()[0];
    assert_eq!(first_line(request), "POST /v1/sandboxes HTTP/1.1");
    assert!(request.contains(&format!("open-sandbox-api-key: {KEY}\r\n")), "{request}");
    let expected = json!({
        "image": { "uri": "python:3.12", "auth": { "username": "u", "password": "p" } }, "timeout": 300,
        "resourceLimits": { "cpu": "1", "memory": "2Gi" }, "env": { "A": "1" }, "metadata": { "m": "v" },
        "entrypoint": ["tail", "-f", "/dev/null"],
        "networkPolicy": { "defaultAction": "deny", "egress": [{ "action": "allow", "target": "files.example" }] },
        "volumes": [{ "name": "v", "mountPath": "/mnt", "readOnly": true, "host": { "path": "/srv" } }],
        "extensions": { "poolRef": "p" },
    });
    assert_eq!(body(request), expected);
    assert!(!format!("{new:?}").contains("\"p\")"), "{new:?}");
}

#[tokio::test]
async fn nothing_may_be_reached_is_said_in_so_many_words() {
    let player = Player::one(Play::answer(202, &sandbox("Pending").to_string()));
    let mut new = NewSandbox::new(Source::Snapshot("s1".to_owned()));
    new.network_policy = Some(NetworkPolicy::deny_all());
    new.timeout = None;
    client(&player).create(&new).await.unwrap();
    let expected = json!({ "snapshotId": "s1", "networkPolicy": { "defaultAction": "deny", "egress": [] } });
    assert_eq!(body(&player.requests()[0]), expected);
}

#[tokio::test]
async fn making_a_sandbox_is_not_repeated() {
    for broken in [Play::answer(503, ""), Play::Bytes(Vec::new())] {
        let player = Player::one(broken);
        client(&player).create(&NewSandbox::image("x")).await.unwrap_err();
        assert_eq!(player.connections(), 1);
    }
}

#[tokio::test]
async fn lists_are_read_to_their_end_and_no_further() {
    let page = |ids: &[&str], more: bool| {
        let items: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "status": { "state": "Running" } })).collect();
        Play::answer(200, &json!({ "items": items, "pagination": { "hasNextPage": more } }).to_string())
    };
    let player = Player::of(vec![page(&["a", "b"], true), page(&["c"], false)]);
    let mut filter = Filter { states: vec![State::Running, State::Paused], ..Filter::default() };
    filter.metadata.insert("hotcell.owner".to_owned(), "a&b=c%d e".to_owned());
    filter.metadata.insert("z".to_owned(), "1".to_owned());
    let found = client(&player).list(&filter).await.unwrap();
    assert_eq!(found.iter().map(|sandbox| sandbox.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let requests = player.requests();
    let query = "pageSize=200&state=Running&state=Paused&metadata=hotcell.owner%3Da%2526b%253Dc%2525d%2Be%26z%3D1";
    assert_eq!(first_line(&requests[0]), format!("GET /v1/sandboxes?page=1&{query} HTTP/1.1"));
    assert_eq!(first_line(&requests[1]), format!("GET /v1/sandboxes?page=2&{query} HTTP/1.1"));

    let endless = Player::one(page(&["a"], true));
    let error = client(&endless).list(&Filter::default()).await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
    assert_eq!(endless.connections(), 50);
}

#[tokio::test]
async fn what_is_gone_is_as_good_as_removed_and_nothing_else_is() {
    for (status, good) in [(204, true), (404, true), (401, false), (409, false), (500, false)] {
        let player = Player::one(Play::answer(status, ""));
        assert_eq!(client(&player).delete("a/../b").await.is_ok(), good, "{status}");
        assert_eq!(client(&player).delete_snapshot("s").await.is_ok(), good, "{status}");
        assert_eq!(first_line(&player.requests()[0]), "DELETE /v1/sandboxes/a%2F..%2Fb HTTP/1.1");
    }
}

#[tokio::test]
async fn the_rest_of_the_api_is_understood() {
    let snapshot = json!({ "id": "s", "sandboxId": "a1", "name": "n", "status": { "state": "Creating" }, "createdAt": "2026-11-16T06:40:52Z" });
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_811_252);
    let policy = json!({ "status": "ok", "mode": "enforcing", "enforcementMode": "dns", "policy": { "defaultAction": "allow", "egress": [{ "action": "deny", "target": "a" }] } });
    let player = Player::of(vec![
        Play::answer(200, r#"{"status":"healthy"}"#),
        Play::answer(200, r#"{"version":"1.1.1"}"#),
        Play::answer(200, r#"{"expiresAt":"2026-11-16T06:40:52Z"}"#),
        Play::answer(202, ""),
        Play::answer(202, ""),
        Play::answer(202, &snapshot.to_string()),
        Play::answer(200, &json!({ "items": [snapshot], "pagination": { "hasNextPage": false } }).to_string()),
        Play::answer(200, &policy.to_string()),
        Play::answer(200, "{}"),
    ]);
    let client = client(&player);
    client.health().await.unwrap();
    assert_eq!(client.version().await.unwrap(), "1.1.1");
    assert_eq!(client.renew("a1", until).await.unwrap(), until);
    client.pause("a1").await.unwrap();
    client.resume("a1").await.unwrap();
    assert_eq!(client.snapshot("a1", Some("n")).await.unwrap().state, "Creating");
    assert_eq!(client.snapshots(Some("a1")).await.unwrap()[0].name.as_deref(), Some("n"));
    let status = client.network_policy("a1").await.unwrap();
    let rule = Rule { action: Action::Deny, target: "a".to_owned() };
    assert_eq!(status.policy, Some(NetworkPolicy { default: Action::Allow, egress: vec![rule] }));
    client.set_network_policy("a1", &NetworkPolicy::deny_all()).await.unwrap();
    let requests = player.requests();
    let lines: Vec<&str> = requests.iter().map(|request| first_line(request).trim_end_matches(" HTTP/1.1")).collect();
    assert_eq!(
        lines,
        [
            "GET /health",
            "GET /version",
            "POST /v1/sandboxes/a1/renew-expiration",
            "POST /v1/sandboxes/a1/pause",
            "POST /v1/sandboxes/a1/resume",
            "POST /v1/sandboxes/a1/snapshots",
            "GET /v1/snapshots?page=1&pageSize=200&sandboxId=a1",
            "GET /v1/sandboxes/a1/networkpolicy",
            "PUT /v1/sandboxes/a1/networkpolicy",
        ]
    );
    assert_eq!(body(&requests[2]), json!({ "expiresAt": "2026-11-16T06:40:52Z" }));
    // Where no key is needed, none is shown.
    assert!(!requests[0].contains(KEY) && !requests[1].contains(KEY) && requests[2].contains(KEY));
}

#[tokio::test]
async fn the_key_goes_to_the_servers_own_origin_and_nowhere_else() {
    let sandbox = Player::one(Play::answer(200, ""));
    let endpoint = |place: &str| {
        Play::answer(200, &json!({ "endpoint": place, "headers": { "OpenSandbox-Secure-Access": "s3" } }).to_string())
    };

    // At an address of its own, the sandbox hears the endpoint's header and not the server's key.
    let server = Player::one(endpoint(&format!("{}/proxy/44772", sandbox.place())));
    let direct = client(&server).endpoint("a1", 44772, Via::Direct).await.unwrap();
    assert!(!format!("{direct:?}").contains("s3"), "{direct:?}");
    let token = Secret::new("t0ken".to_owned());
    client(&server).execd(&direct, Some(&token)).unwrap().ping().await.unwrap();
    let heard = &sandbox.requests()[0];
    assert_eq!(first_line(heard), "GET /proxy/44772/ping HTTP/1.1");
    assert!(heard.contains("opensandbox-secure-access: s3\r\n") && heard.contains("x-execd-access-token: t0ken\r\n"));
    assert!(!heard.contains(KEY), "{heard}");
    assert_eq!(first_line(&server.requests()[0]), "GET /v1/sandboxes/a1/endpoints/44772 HTTP/1.1");

    // Through a proxy that is somewhere else, nothing is sent at all.
    let elsewhere = client(&server).endpoint("a1", 44772, Via::ServerProxy).await.unwrap();
    let error = client(&server).execd(&elsewhere, None).unwrap_err();
    assert!(error.to_string().contains("key is not sent"), "{error}");
    assert!(server.requests()[1].contains("?use_server_proxy=true "));
    assert_eq!(sandbox.connections(), 1);

    // Through the server itself, the key goes along.
    let place = "127.0.0.1:1/v1/sandboxes/a1/proxy/44772".to_owned();
    let server = Player::of(vec![endpoint(&place), Play::answer(200, "")]);
    let mut through = client(&server).endpoint("a1", 44772, Via::ServerProxy).await.unwrap();
    through.address = server.address().given(&place.replace("127.0.0.1:1", &server.place())).unwrap();
    client(&server).execd(&through, None).unwrap().ping().await.unwrap();
    assert!(server.requests()[1].contains(KEY));
    assert_eq!(first_line(&server.requests()[1]), "GET /v1/sandboxes/a1/proxy/44772/ping HTTP/1.1");
}

#[tokio::test]
async fn an_endpoint_on_another_machine_is_not_reached_in_plain_text() {
    for place in ["10.0.0.1:44772", "http://example.org", "user:pw@127.0.0.1:1", ""] {
        let server = Player::one(Play::answer(200, &json!({ "endpoint": place }).to_string()));
        let error = client(&server).endpoint("a1", 44772, Via::Direct).await.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
        assert!(!error.to_string().contains("pw"), "{error}");
    }
}

#[tokio::test]
async fn a_server_does_not_choose_how_requests_are_carried() {
    let endpoint =
        |name: &str| Play::answer(200, &json!({ "endpoint": "127.0.0.1:1", "headers": { name: "x" } }).to_string());
    for name in
        ["Host", "connection", "Content-Length", "TRANSFER-ENCODING", "proxy-authorization", "Sec-WebSocket-Key"]
    {
        let server = Player::one(endpoint(name));
        let error = client(&server).endpoint("a1", 44772, Via::Direct).await.unwrap_err();
        assert!(matches!(error.why, Why::Garbled { .. }), "{name}: {error}");
    }
    let server = Player::one(endpoint("OPENSANDBOX-EGRESS-AUTH"));
    client(&server).endpoint("a1", 18080, Via::Direct).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_is_waited_for_until_it_answers() {
    let execd = Player::of(vec![Play::Bytes(Vec::new()), Play::answer(502, "Bad Gateway"), Play::answer(200, "")]);
    let running = || Play::answer(200, &sandbox("Running").to_string());
    let endpoint = || Play::answer(200, &json!({ "endpoint": execd.place() }).to_string());
    let server = Player::of(vec![
        Play::answer(200, &sandbox("Pending").to_string()),
        running(),
        Play::answer(404, r#"{"code":"X","message":"no endpoint yet"}"#),
        running(),
        endpoint(),
        running(),
        endpoint(),
        running(),
        endpoint(),
    ]);
    let ready = client(&server).ready("a1", Via::Direct, None, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ready.address(), &execd.address());
    assert_eq!((execd.connections(), server.connections()), (3, 9));
}

#[tokio::test]
async fn a_sandbox_that_will_not_run_is_an_error_at_once() {
    for state in ["Failed", "Terminated", "Stopping", "Paused"] {
        let mut answer = sandbox(state);
        answer["status"]["reason"] = json!("IMAGE_PULL_FAILED");
        answer["status"]["message"] = json!("no such image \u{1b}[31m");
        let server = Player::one(Play::answer(200, &answer.to_string()));
        let error = client(&server).ready("a1", Via::Direct, None, Duration::from_secs(60)).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(state) && text.contains("IMAGE_PULL_FAILED") && text.contains("no such image"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!(server.connections(), 1);
    }
    let server = Player::one(Play::answer(401, r#"{"code":"MISSING_API_KEY","message":"no key"}"#));
    let error = client(&server).ready("a1", Via::Direct, None, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.status(), Some(401));
}

#[tokio::test]
async fn waiting_has_an_end() {
    let pending = Player::one(Play::answer(200, &sandbox("Pending").to_string()));
    let error = client(&pending).ready("a1", Via::Direct, None, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error.why, Why::TooSlow { .. }), "{error}");
}

#[tokio::test]
async fn what_stood_in_the_way_says_more_than_that_time_is_up() {
    let place = { Player::one(Play::answer(200, "")).place() };
    let endpoint = Play::answer(200, &json!({ "endpoint": place }).to_string());
    let running = Play::answer(200, &sandbox("Running").to_string());
    // The first time may be too short to look at all.
    for (last, seconds) in [(false, 0.1), (false, 1.0), (true, 20.0)] {
        let server = Player::of([running.clone(), endpoint.clone()].into_iter().cycle().take(400).collect());
        let waiting = client(&server).ready("a1", Via::Direct, None, Duration::from_secs_f32(seconds)).await;
        match waiting.unwrap_err().why {
            Why::Unreachable { .. } => return,
            why => assert!(!last && matches!(why, Why::TooSlow { .. }), "{why}"),
        }
    }
}
