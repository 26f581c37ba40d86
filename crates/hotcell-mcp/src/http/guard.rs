//! Who is let in: everything about a request that is decided before its body is read.
//!
//! A page in a browser can send requests to this machine. It cannot read the token, so it gets no further than that; the checks of
//! `Host`, `Origin` and `Content-Type` stand beside the token, not in its place.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode};

use super::names::Names;
use super::tokens::{Owner, Tokens};

/// Where the protocol is served.
pub(super) const PATH: &str = "/mcp";

/// Why a request is not let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

/// Who is let in.
#[derive(Debug)]
pub(super) struct Guard {
    tokens: Tokens,
    names: Names,
    origins: Vec<String>,
}

impl Guard {
    /// For a server of these names; `origins` are those of pages that may call it.
    pub(super) fn new(tokens: Tokens, names: Names, origins: &[String]) -> Self {
        Self { tokens, names, origins: origins.iter().map(|origin| origin.to_ascii_lowercase()).collect() }
    }

    /// Who asks, if they may.
    pub(super) fn check(&self, request: &Parts) -> Result<Owner, Refusal> {
        self.check_host(request)?;
        self.check_origin(&request.headers)?;
        if request.method == Method::OPTIONS {
            // What a browser asks before it lets a page call another site. The answer is that it may not.
            return Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why: "pages may not call this" });
        }
        let owner = self.check_token(&request.headers)?;
        if request.uri.path() != PATH {
            return Err(Refusal { status: StatusCode::NOT_FOUND, why: "the protocol is served at /mcp" });
        }
        match request.method {
            Method::POST => check_content_type(&request.headers)?,
            Method::GET | Method::DELETE => {}
            _ => return Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why: "use POST, GET or DELETE" }),
        }
        Ok(owner)
    }

    /// A page whose name was made to point here says its own name.
    fn check_host(&self, request: &Parts) -> Result<(), Refusal> {
        let refused = Refusal { status: StatusCode::FORBIDDEN, why: "this server does not have that name" };
        let host = only(&request.headers, &HOST)
            .ok_or(Refusal { status: StatusCode::BAD_REQUEST, why: "the request needs one Host header" })?;
        let target = request.uri.authority().map(Authority::as_str);
        match self.names.know(host) && target.is_none_or(|target| self.names.know(target)) {
            true => Ok(()),
            false => Err(refused),
        }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let refused = Refusal { status: StatusCode::FORBIDDEN, why: "pages of that origin may not call this server" };
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        match only(headers, &ORIGIN) {
            Some(origin) if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) => Ok(()),
            _ => Err(refused),
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<Owner, Refusal> {
        let refused = |why| Refusal { status: StatusCode::UNAUTHORIZED, why };
        let shown = only(headers, &AUTHORIZATION).and_then(|value| value.split_once(' '));
        let Some(("Bearer" | "bearer", token)) = shown else {
            return Err(refused("a token is needed: Authorization: Bearer TOKEN"));
        };
        self.tokens.owner(token.trim().as_bytes()).ok_or_else(|| refused("that token is not known"))
    }
}

/// A page can send text without being asked about it, but not JSON.
fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = only(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next());
    match kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        true => Ok(()),
        false => {
            Err(Refusal { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, why: "the body has to be application/json" })
        }
    }
}

/// The value of a header that is there once; two of them mean that somebody wants to be understood in two ways.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "a-token-of-the-tests";

    fn guard(address: &str, names: &[&str], origins: &[&str]) -> Guard {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let names = Names::new(address.parse().unwrap(), &owned(names), false).unwrap();
        Guard::new(Tokens::parse(TOKEN).unwrap(), names, &owned(origins))
    }

    fn ask(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        guard.check(&parts).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    fn with(host: &str, more: &[(&'static str, &'static str)]) -> u16 {
        let guard = guard("127.0.0.1:7000", &["box.example"], &["https://app.example"]);
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![("host", host), ("content-type", "application/json"), ("authorization", &bearer)];
        headers.extend(more);
        ask(&guard, "POST", "/mcp", &headers)
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        for host in ["localhost:7000", "box.example:7000", "box.example"] {
            assert_eq!(with(host, &[]), 200, "{host}");
        }
        for host in ["evil.test", "evil.test:7000", "localhost:7001"] {
            assert_eq!(with(host, &[]), 403, "{host}");
        }
        assert_eq!(with("localhost:7000", &[("host", "evil.test")]), 400);
        let guard = guard("127.0.0.1:80", &[], &[]);
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(ask(&guard, "GET", "/mcp", &[("host", "localhost"), ("authorization", &bearer)]), 200);
        let absolute = "http://evil.test/mcp";
        assert_eq!(ask(&guard, "GET", absolute, &[("host", "localhost"), ("authorization", &bearer)]), 403);
    }

    #[test]
    fn only_pages_that_were_named_may_call() {
        assert_eq!(with("localhost:7000", &[("origin", "https://app.example")]), 200);
        for origin in
            ["https://evil.test", "null", "http://app.example", "https://app.example:8443", "http://localhost:7000"]
        {
            assert_eq!(with("localhost:7000", &[("origin", origin)]), 403, "{origin}");
        }
        let two = [("origin", "https://app.example"), ("origin", "https://evil.test")];
        assert_eq!(with("localhost:7000", &two), 403);
    }

    #[test]
    fn nothing_goes_without_a_token() {
        let guard = guard("127.0.0.1:7000", &[], &[]);
        let ask = |authorization: Option<&str>| {
            let mut headers = vec![("host", "localhost:7000"), ("content-type", "application/json")];
            headers.extend(authorization.map(|value| ("authorization", value)));
            ask(&guard, "POST", "/mcp", &headers)
        };
        assert_eq!(ask(Some(&format!("Bearer {TOKEN}"))), 200);
        for wrong in [None, Some("Bearer"), Some("Bearer "), Some("Bearer wrong"), Some("Basic YTpi"), Some(TOKEN)] {
            assert_eq!(ask(wrong), 401, "{wrong:?}");
        }
    }

    #[test]
    fn a_form_of_a_page_is_no_request() {
        let guard = guard("127.0.0.1:7000", &[], &[]);
        let bearer = format!("Bearer {TOKEN}");
        let ask = |kind: &str| {
            let headers = [("host", "localhost:7000"), ("authorization", bearer.as_str()), ("content-type", kind)];
            ask(&guard, "POST", "/mcp", &headers)
        };
        assert_eq!(ask("application/json; charset=utf-8"), 200);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
        {
            assert_eq!(ask(kind), 415, "{kind}");
        }
    }

    #[test]
    fn a_browser_that_asks_first_is_told_no() {
        let guard = guard("127.0.0.1:7000", &[], &["https://app.example"]);
        let headers = [("host", "localhost:7000"), ("origin", "https://app.example")];
        assert_eq!(ask(&guard, "OPTIONS", "/mcp", &headers), 405);
    }
}
