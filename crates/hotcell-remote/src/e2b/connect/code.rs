//! What goes wrong, in the words of the protocol.

use serde::Deserialize;

use crate::http::Why;

/// The last message of a stream.
#[derive(Deserialize)]
struct Last {
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    #[serde(default)]
    message: String,
}

/// The most of a message that is repeated.
const MOST: usize = 500;

/// What the last message of a stream says: nothing if all is well.
pub(super) fn last_word(message: &[u8]) -> Result<(), Why> {
    let garbled = |what: &str| Why::Garbled { what: format!("the last message of a stream: {what}") };
    if !message.trim_ascii_start().starts_with(b"{") {
        return Err(garbled("it is no object"));
    }
    let last: Last = serde_json::from_slice(message).map_err(|error| garbled(&error.to_string()))?;
    match last.error {
        None => Ok(()),
        Some(Failure { code, message }) => {
            let text = if message.is_empty() { code.clone() } else { format!("{message} ({code})") };
            let message = text.chars().take(MOST).collect();
            Err(Why::Answered { status: status(&code), message, retry_after: None })
        }
    }
}

/// The HTTP status that the same failure has in a call with one answer.
fn status(code: &str) -> u16 {
    match code {
        "canceled" => 499,
        "invalid_argument" | "failed_precondition" | "out_of_range" => 400,
        "deadline_exceeded" => 504,
        "not_found" => 404,
        "already_exists" | "aborted" => 409,
        "permission_denied" => 403,
        "resource_exhausted" => 429,
        "unimplemented" => 501,
        "unavailable" => 503,
        "unauthenticated" => 401,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_success_only_if_it_names_no_error() {
        last_word(b"{}").unwrap();
        last_word(br#"{"metadata":{"a":["b"]}}"#).unwrap();
        assert!(matches!(
            last_word(br#"{"error":{"code":"not_found","message":"no process 7"}}"#),
            Err(Why::Answered { status: 404, message, .. }) if message == "no process 7 (not_found)"
        ));
        assert!(matches!(last_word(br#"{"error":{"code":"new"}}"#), Err(Why::Answered { status: 500, .. })));
        for bad in [&b""[..], b"[]", b"{", b"\xff", br#"{"error":{}}"#, br#"{"error":"x"}"#] {
            assert!(matches!(last_word(bad), Err(Why::Garbled { .. })), "{bad:?}");
        }
    }
}
