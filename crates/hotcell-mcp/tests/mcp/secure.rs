//! TLS, and where none is needed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hotcell_mcp::http::{HttpError, HttpOptions, HttpServer, Tls, Tokens};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::client::{Answer, Incoming, initialize, request};
use super::server::{FIRST, Server};

const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &str = include_str!("tls/key.pem");

/// Files of whoever runs the tests, who need not be the owner of the sources.
fn files() -> (TempDir, PathBuf, PathBuf) {
    let directory = TempDir::new().unwrap();
    let (certificate, key) = (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, CERTIFICATE).unwrap();
    std::fs::write(&key, KEY).unwrap();
    (directory, certificate, key)
}

fn tls() -> Tls {
    let (_directory, certificate, key) = files();
    Tls::load(&certificate, &key).unwrap()
}

#[test]
fn a_client_that_knows_the_certificate_is_served() {
    let secured = |options: &mut HttpOptions| options.tls = Some(tls());
    let Some(server) = Server::start("a_client_that_knows_the_certificate_is_served", secured) else { return };
    let address = server.address;
    let answer = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let host = format!("localhost:{}", address.port());
        let token = format!("Bearer {FIRST}");
        let headers = [
            ("Host", host.as_str()),
            ("Authorization", token.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        stream.write_all(&request("POST", "/mcp", &headers, &initialize("2025-11-25"))).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Answer::parse(&answer)
    });
    assert_eq!(answer.result()["protocolVersion"], "2025-11-25");
}

#[test]
fn a_handshake_that_does_not_come_is_not_waited_for() {
    let secured = |options: &mut HttpOptions| {
        options.tls = Some(tls());
        options.introduction = Duration::from_millis(300);
    };
    let Some(server) = Server::start("a_handshake_that_does_not_come_is_not_waited_for", secured) else { return };
    Incoming::of(server.address, b"").closed();
}

#[tokio::test]
async fn other_machines_need_tls_or_a_word_for_going_without() {
    let options = || HttpOptions::new(Tokens::parse(FIRST).unwrap());
    let public = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(HttpServer::bind(public, options()).await, Err(HttpError::Public(_))));
    let mut with_tls = options();
    with_tls.tls = Some(tls());
    assert!(HttpServer::bind(public, with_tls).await.unwrap().url().starts_with("https://"));
    let mut insecure = options();
    insecure.insecure = true;
    assert!(HttpServer::bind(public, insecure).await.is_ok());
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        match HttpServer::bind(loopback.parse().unwrap(), options()).await {
            Ok(_) => {}
            // A machine may have no IPv6.
            Err(error) => assert!(matches!(error, HttpError::Listen { .. }), "{error}"),
        }
    }
    let mut odd = options();
    odd.names = vec!["https://box.example".to_owned()];
    assert!(matches!(HttpServer::bind("127.0.0.1:0".parse().unwrap(), odd).await, Err(HttpError::Name(_))));
    let mut odd = options();
    odd.origins = vec!["*".to_owned()];
    assert!(matches!(HttpServer::bind("127.0.0.1:0".parse().unwrap(), odd).await, Err(HttpError::Origin(_))));
}

#[test]
fn a_certificate_that_is_none_is_said() {
    let (directory, _, key) = files();
    let error = Tls::load(&key, &key).unwrap_err();
    assert!(error.to_string().contains("cannot be used together"), "{error}");
    let error = Tls::load(&directory.path().join("absent.pem"), &key).unwrap_err();
    assert!(error.to_string().contains("absent.pem"), "{error}");
}
