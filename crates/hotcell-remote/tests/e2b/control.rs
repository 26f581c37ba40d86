//! The control plane: what is asked, and what is made of the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_core::secret::Secret;
use hotcell_remote::e2b::{Client, Data, Filter, Flavour, NetworkRules, NewSandbox, Options, SandboxId, State};
use hotcell_remote::http::{Address, CallError, PlainHttp, Why};
use serde_json::json;

use crate::player::{Play, Player, answer, created};

fn new() -> NewSandbox {
    NewSandbox::new("base", Duration::from_millis(60_001))
}

fn id() -> SandboxId {
    "i1".parse().unwrap()
}

fn lines(player: &Player) -> Vec<String> {
    player.heard().iter().map(|heard| heard.line().to_owned()).collect()
}

#[tokio::test]
async fn a_sandbox_is_asked_for_with_everything_that_was_said() {
    let player = Player::new([created("0.6.4")]).await;
    let mut new = new();
    new.metadata.insert("hotcell.owner".to_owned(), "a/b".to_owned());
    new.env.insert("A".to_owned(), "1".to_owned());
    new.network.internet = Some(false);
    new.network.allow_out = vec!["api.example".to_owned()];
    let sandbox = player.client().create(&new).await.unwrap();
    assert_eq!(
        (sandbox.id(), sandbox.template(), sandbox.envd_version().to_string().as_str()),
        (&id(), "base", "0.6.4")
    );
    let heard = &player.heard()[0];
    assert_eq!(heard.line(), "POST /v2/sandboxes");
    assert_eq!(heard.header("x-api-key"), Some("hunter2"));
    let expected = json!({
        "templateID": "base", "timeout": 61, "autoPause": false, "allow_internet_access": false,
        "network": { "allowOut": ["api.example"] }, "metadata": { "hotcell.owner": "a/b" }, "envVars": { "A": "1" },
    });
    assert_eq!(heard.json(), expected);
}

#[tokio::test]
async fn the_older_call_is_made_where_the_newer_one_is_not_there_and_remembered() {
    for missing in ["404 Not Found", "405 Method Not Allowed"] {
        let player = Player::new([answer(missing, "", ""), created("0.6.4")]).await;
        let client = player.client();
        client.create(&new()).await.unwrap();
        client.clone().create(&new()).await.unwrap();
        assert_eq!(lines(&player), ["POST /v2/sandboxes", "POST /sandboxes", "POST /sandboxes"]);
        // The newer call is always so.
        assert_eq!(player.heard()[1].json()["secure"], true);
        assert_eq!(player.heard()[0].json().get("secure"), None);
        client.connect(&id(), Duration::from_secs(1)).await.unwrap();
        assert_eq!(lines(&player)[3], "POST /sandboxes/i1/connect");
    }
}

#[tokio::test]
async fn no_other_failure_leads_to_the_older_call() {
    for status in ["400 Bad", "401 Unauthorized", "403 Forbidden", "409 Conflict", "500 Error", "501 Not Implemented"] {
        let player = Player::new([answer(status, "", "")]).await;
        player.client().create(&new()).await.unwrap_err();
        assert_eq!(lines(&player), ["POST /v2/sandboxes"], "{status}");
    }
    // A server that has the newer call is not asked for the older one when a template is not there.
    let player = Player::new([created("0.6.4"), answer("404 Not Found", "", r#"{"message":"no template"}"#)]).await;
    let client = player.client();
    client.create(&new()).await.unwrap();
    assert!(client.create(&new()).await.unwrap_err().is_not_found());
    assert!(client.connect(&id(), Duration::from_secs(1)).await.unwrap_err().is_not_found());
    assert_eq!(lines(&player), ["POST /v2/sandboxes", "POST /v2/sandboxes", "POST /v2/sandboxes/i1/connect"]);
}

#[tokio::test]
async fn what_is_not_there_in_either_version_is_not_remembered_as_the_older() {
    let gone = || answer("404 Not Found", "", r#"{"code":404,"message":"no template"}"#);
    let player = Player::new([gone(), gone(), created("0.6.4")]).await;
    let client = player.client();
    let error = client.create(&new()).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("no template"), "{error}");
    client.create(&new()).await.unwrap();
    assert_eq!(lines(&player), ["POST /v2/sandboxes", "POST /sandboxes", "POST /v2/sandboxes"]);
}

#[tokio::test]
async fn a_sandbox_is_asked_for_again_only_by_the_same_name() {
    let busy = || answer("503 Busy", "retry-after: 0\r\n", "");
    let player = Player::new([busy(), Play::Cut(Vec::new()), created("0.6.4")]).await;
    player.client().create(&new()).await.unwrap();
    let heard = player.heard();
    let keys: Vec<&str> = heard.iter().filter_map(|heard| heard.header("idempotency-key")).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys[0].len() == 32 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let other = Player::new([created("0.6.4")]).await;
    other.client().create(&new()).await.unwrap();
    assert_ne!(other.heard()[0].header("idempotency-key"), Some(keys[0]));
    // The older call knows no such name: twice would be two sandboxes.
    let player = Player::new([answer("405 No", "", ""), busy(), created("0.6.4")]).await;
    assert_eq!(player.client().create(&new()).await.unwrap_err().status(), Some(503));
    assert_eq!(player.heard().len(), 2);
}

#[tokio::test]
async fn cube_is_asked_for_nothing_that_it_has_not() {
    let player = Player::new([created("0.1.0"), answer("405 No", "", "")]).await;
    let mut options = player.options();
    options.flavour = Flavour::Cube;
    let client = Client::new(options).unwrap();
    client.create(&new()).await.unwrap();
    assert_eq!(lines(&player), ["POST /sandboxes"]);
    let unsupported = |error: CallError| {
        assert!(matches!(error.why, Why::Unsupported { .. }) && error.server.starts_with("CubeSandbox"), "{error}");
    };
    unsupported(client.refresh(&id(), Duration::from_secs(1)).await.unwrap_err());
    unsupported(client.metrics(&id()).await.unwrap_err());
    unsupported(client.logs(&id(), 10).await.unwrap_err());
    assert_eq!(player.heard().len(), 1);
    // Older ones have not even that.
    unsupported(client.pause(&id()).await.unwrap_err());
    unsupported(client.set_timeout(&id(), Duration::from_secs(1)).await.unwrap_err());
    unsupported(client.snapshot(&id(), None).await.unwrap_err());
    unsupported(client.set_network(&id(), &NetworkRules::default()).await.unwrap_err());
    assert_eq!(player.heard().len(), 5);
}

#[tokio::test]
async fn a_call_that_is_not_there_is_told_from_a_sandbox_that_is_not_there() {
    for (body, supported) in [
        ("", false),
        ("404 page not found\n", false),
        (r#"{"detail":"Not Found"}"#, false),
        (r#"{"code":404,"message":"sandbox i1 not found"}"#, true),
    ] {
        let player = Player::new([answer("404 Not Found", "", body)]).await;
        let error = player.client().pause(&id()).await.unwrap_err();
        assert_eq!(error.is_not_found(), supported, "{body}");
        assert_eq!(matches!(error.why, Why::Unsupported { .. }), !supported, "{body}");
    }
}

#[tokio::test]
async fn ids_that_would_lead_elsewhere_are_refused_wherever_they_come_from() {
    for bad in ["../x", "x.evil.example", "evil.example/", "a@evil.example", "", "A", "x#", "x:80", "x\\u0000"] {
        let body = format!(r#"{{"sandboxID":"{bad}","templateID":"base","envdVersion":"0.6.4"}}"#);
        let player = Player::new([answer("200 OK", "", &body)]).await;
        let client = player.client();
        let garbled = |error: CallError| assert!(matches!(error.why, Why::Garbled { .. }), "{bad}: {error}");
        garbled(client.create(&new()).await.unwrap_err());
        garbled(client.connect(&id(), Duration::from_secs(1)).await.unwrap_err());
        garbled(client.get(&id()).await.unwrap_err());
        let player = Player::new([answer("200 OK", "", format!("[{body}]"))]).await;
        garbled(player.client().list(&Filter::new(10)).await.unwrap_err());
    }
    // Another sandbox than was asked for.
    let body = r#"{"sandboxID":"i2","templateID":"base","envdVersion":"0.6.4"}"#;
    let player = Player::new([answer("200 OK", "", body)]).await;
    let error = player.client().connect(&id(), Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
}

async fn sandbox_at(domain: &str, data: &str, flavour: Flavour) -> Result<String, CallError> {
    let domain = serde_json::to_string(domain).unwrap();
    let body = format!(r#"{{"sandboxID":"i1","templateID":"b","envdVersion":"0.6.4","domain":{domain}}}"#);
    let player = Player::new([answer("201 Created", "", body)]).await;
    let address = Address::parse(&player.url, PlainHttp::Allowed).unwrap();
    let mut options = Options::new(address, Data::Domain(data.to_owned()));
    options.flavour = flavour;
    options.api_key = Some(Secret::new("hunter2".to_owned()));
    let client = Client::new(options).unwrap();
    let sandbox = client.create(&new()).await.unwrap();
    Ok(format!("{:?}", client.envd(&sandbox)?))
}

#[tokio::test]
async fn a_sandbox_is_reached_by_its_name_below_a_domain_and_nowhere_else() {
    for (named, configured, address) in [
        ("", "sbx.example", "http://49983-i1.sbx.example"),
        ("", "sbx.example:8080", "http://49983-i1.sbx.example:8080"),
        ("", "http://sbx.example", "http://49983-i1.sbx.example"),
        ("other.example", "sbx.example", "http://49983-i1.other.example"),
    ] {
        let shown = sandbox_at(named, configured, Flavour::E2b).await.unwrap();
        assert!(shown.contains(&format!("Address({address})")), "{shown}");
    }
    for bad in [
        "evil.example/path",
        "x@evil.example",
        "evil.example?",
        "evil.example#",
        "evil.example:99999",
        "evil.example:80:80",
        "evil example",
        ".evil.example",
        "evil.example\\",
        "ftp://evil.example",
        "http://evil.example",
        "[::1]",
        "\u{202e}",
    ] {
        let error = sandbox_at(bad, "sbx.example", Flavour::E2b).await.unwrap_err();
        assert!(matches!(error.why, Why::Impossible { .. }), "{bad}: {error}");
    }
}

#[tokio::test]
async fn the_key_stays_with_the_control_plane() {
    let at = |named, flavour| sandbox_at(named, "sbx.example", flavour);
    assert!(!at("", Flavour::E2b).await.unwrap().contains("x-api-key"));
    // CubeSandbox's proxy wants it, but only where the user said that it is.
    assert!(at("", Flavour::Cube).await.unwrap().contains("x-api-key"));
    assert!(!at("evil.example", Flavour::Cube).await.unwrap().contains("x-api-key"));
}

#[tokio::test]
async fn nothing_secret_is_shown() {
    let player = Player::new([created("0.6.4")]).await;
    let client = player.client();
    let sandbox = client.create(&new()).await.unwrap();
    let envd = client.envd(&sandbox).unwrap();
    let interpreter = client.interpreter(&sandbox).unwrap();
    let shown = format!("{:?} {client:?} {sandbox:?} {envd:?} {interpreter:?}", player.options());
    assert!(!shown.contains("hunter"), "{shown}");
}

#[tokio::test]
async fn a_list_has_pages_and_an_end() {
    let page = |ids: std::ops::Range<u32>, next: &str| {
        let listed: Vec<String> = ids
            .map(|number| {
                let owner = if number % 2 == 0 { "me" } else { "you" };
                format!(
                    r#"{{"sandboxID":"i{number}","templateID":"b","state":"paused","metadata":{{"owner":"{owner}"}}}}"#
                )
            })
            .collect();
        answer("200 OK", &format!("x-next-token: {next}\r\n"), format!("[{}]", listed.join(",")))
    };
    let player = Player::new([page(0..3, "t+1="), page(3..5, "t2"), page(5..6, "")]).await;
    let mut filter = Filter::new(1000);
    filter.metadata = BTreeMap::from([("owner".to_owned(), "me".to_owned())]);
    let found = player.client().list(&filter).await.unwrap();
    // The server is not trusted to know the filter.
    let ids: Vec<&str> = found.iter().map(|details| details.id.as_str()).collect();
    assert_eq!(ids, ["i0", "i2", "i4"]);
    assert!(found.iter().all(|details| details.state == State::Paused));
    assert_eq!(
        lines(&player),
        [
            "GET /v2/sandboxes?limit=100&metadata=owner%3Dme",
            "GET /v2/sandboxes?limit=100&metadata=owner%3Dme&nextToken=t%2B1%3D",
            "GET /v2/sandboxes?limit=100&metadata=owner%3Dme&nextToken=t2",
        ]
    );
    // No more than was asked for.
    let player = Player::new([page(0..3, "t")]).await;
    assert_eq!(player.client().list(&Filter::new(2)).await.unwrap().len(), 2);
    assert_eq!(lines(&player), ["GET /v2/sandboxes?limit=2"]);
    // A list that goes round and round.
    let player = Player::new([page(0..1, "t")]).await;
    let error = player.client().list(&Filter::new(usize::MAX)).await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
    assert_eq!(player.heard().len(), 2);
    // A list that never ends, with nothing in it.
    let player = Player::new((0..1200).map(|number| page(0..0, &number.to_string()))).await;
    let error = player.client().list(&Filter::new(1)).await.unwrap_err();
    assert!(matches!(error.why, Why::Garbled { .. }), "{error}");
    assert_eq!(player.heard().len(), 1000);
    // Before there were pages.
    let player = Player::new([answer("405 No", "", ""), page(0..1, "")]).await;
    assert_eq!(player.client().list(&Filter::new(5)).await.unwrap().len(), 1);
    assert_eq!(lines(&player)[1], "GET /sandboxes?limit=5");
}

#[tokio::test]
async fn what_a_sandbox_has_is_told() {
    let body = r#"{"sandboxID":"i1","templateID":"b","clientID":"c","startedAt":"2026-01-01T00:00:00Z","endAt":"2026-01-01T01:00:00Z",
        "cpuCount":2,"memoryMB":512,"diskSizeMB":1024,"state":"running","metadata":{"a":"b"},"envdVersion":"0.6.4"}"#;
    let player = Player::new([answer("200 OK", "", body)]).await;
    let details = player.client().get(&id()).await.unwrap();
    assert_eq!((details.cpus, details.memory_mib, details.disk_mib), (Some(2), Some(512), Some(1024)));
    assert_eq!((details.state, details.metadata["a"].as_str()), (State::Running, "b"));
    assert_eq!(lines(&player), ["GET /sandboxes/i1"]);
}

#[tokio::test]
async fn a_sandbox_that_is_gone_is_removed() {
    let player = Player::new([answer("404 Not Found", "", r#"{"message":"gone"}"#)]).await;
    player.client().delete(&id()).await.unwrap();
    assert_eq!(lines(&player), ["DELETE /sandboxes/i1"]);
    let player = Player::new([answer("500 Error", "", "")]).await;
    player.client().delete(&id()).await.unwrap_err();
}

#[tokio::test]
async fn the_rest_of_the_control_plane_is_asked_as_its_specification_says() {
    let nothing = || answer("204 No Content", "", "");
    let player = Player::new([
        nothing(),
        nothing(),
        nothing(),
        nothing(),
        answer("201 Created", "", r#"{"snapshotID":"team/s:default","names":["s"]}"#),
        answer("200 OK", "", r#"[{"snapshotID":"s1","names":[]}]"#),
        nothing(),
        nothing(),
        answer("200 OK", "", r#"[{"timestampUnix":7,"cpuCount":2,"cpuUsedPct":12.5,"memUsed":1,"memTotal":2}]"#),
        answer("200 OK", "", r#"{"logs":[{"timestamp":"t","level":"info","message":"m","fields":{}}]}"#),
        nothing(),
    ])
    .await;
    let client = player.client();
    client.set_timeout(&id(), Duration::from_secs(9)).await.unwrap();
    client.refresh(&id(), Duration::from_secs(9)).await.unwrap();
    client.pause(&id()).await.unwrap();
    client.resume(&id(), Duration::from_secs(9)).await.unwrap();
    let snapshot = client.snapshot(&id(), Some("s")).await.unwrap();
    assert_eq!(client.snapshots(Some(&id())).await.unwrap()[0].id, "s1");
    client.delete_snapshot(&snapshot.id).await.unwrap();
    let mut rules = NetworkRules::default();
    (rules.internet, rules.deny_out) = (Some(false), vec!["0.0.0.0/0".to_owned()]);
    client.set_network(&id(), &rules).await.unwrap();
    assert_eq!(client.metrics(&id()).await.unwrap()[0].cpu_used_pct, 12.5);
    assert_eq!(client.logs(&id(), 5).await.unwrap()[0].message, "m");
    client.health().await.unwrap();
    let heard = player.heard();
    let asked: Vec<(&str, String)> =
        heard.iter().map(|heard| (heard.line(), String::from_utf8(heard.body.clone()).unwrap())).collect();
    let expected = [
        ("POST /sandboxes/i1/timeout", r#"{"timeout":9}"#),
        ("POST /sandboxes/i1/refreshes", r#"{"duration":9}"#),
        ("POST /sandboxes/i1/pause", "{}"),
        ("POST /sandboxes/i1/resume", r#"{"timeout":9}"#),
        ("POST /sandboxes/i1/snapshots", r#"{"name":"s"}"#),
        ("GET /snapshots?limit=100&sandboxID=i1", ""),
        ("DELETE /templates/team%2Fs:default", ""),
        ("PUT /sandboxes/i1/network", r#"{"denyOut":["0.0.0.0/0"],"allow_internet_access":false}"#),
        ("GET /sandboxes/i1/metrics", ""),
        ("GET /v2/sandboxes/i1/logs?limit=5", ""),
        ("GET /health", ""),
    ];
    for ((line, body), (wanted_line, wanted_body)) in asked.iter().zip(expected) {
        assert_eq!((*line, body.as_str()), (wanted_line, wanted_body));
    }
    assert_eq!(asked.len(), expected.len());
    // One connection is enough for all of it.
    assert_eq!(player.connections(), 1);
}
