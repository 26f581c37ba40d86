//! Keys and addresses do not belong in recordings.

/// Headers whose values are keys, or say where somebody is.
const HEADERS: &[&str] = &[
    "open-sandbox-client-ip",
    "open-sandbox-api-key",
    "opensandbox-secure-access",
    "opensandbox-egress-auth",
    "x-api-key",
    "x-access-token",
    "x-execd-access-token",
    "e2b-traffic-access-token",
    "authorization",
];

/// Names in JSON whose values are keys.
const NAMES: &[&str] =
    &["envdAccessToken", "trafficAccessToken", "accessToken", "OPENSANDBOX-EGRESS-AUTH", "OpenSandbox-Secure-Access"];

/// The same bytes, as many of them, with an `x` for each character of a key.
pub(super) fn piece(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(colon) = bytes.iter().position(|byte| *byte == b':')
        && let Some(name) = bytes.get(..colon)
        && HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header.as_bytes()))
    {
        let value = bytes.iter_mut().skip(colon + 1).skip_while(|byte| **byte == b' ');
        value.take_while(|byte| **byte != b'\r').for_each(|byte| *byte = b'x');
    }
    for name in NAMES {
        let mark = format!("\"{name}\"");
        let mut from = 0;
        while let Some(found) = find(bytes.get(from..).unwrap_or_default(), mark.as_bytes()) {
            from += found + mark.len();
            let mut rest = bytes.iter_mut().skip(from).skip_while(|byte| [b':', b' '].contains(byte));
            if rest.next().is_some_and(|byte| *byte == b'"') {
                rest.take_while(|byte| **byte != b'"').for_each(|byte| *byte = b'x');
            }
        }
    }
    bytes
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::piece;

    #[test]
    fn keys_are_gone_and_lengths_are_not() {
        assert_eq!(piece(b"X-API-Key: secret\r\n"), b"X-API-Key: xxxxxx\r\n");
        assert_eq!(piece(br#"{"envdAccessToken": "abc","a":"b"}"#), br#"{"envdAccessToken": "xxx","a":"b"}"#);
        assert_eq!(piece(b"Content-Length: 5\r\n"), b"Content-Length: 5\r\n");
    }
}
