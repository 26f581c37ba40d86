//! Addresses of files that need no other key.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hotcell_core::secret::Secret;
use sha2::{Digest, Sha256};

use super::Envd;
use crate::http::{CallError, Why};

/// What an address is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedUrl {
    /// To download a file.
    Read,
    /// To upload one.
    Write,
}

impl Envd {
    /// The address of a file, signed: who has it may read or write that file, until it expires if it does. It works by name
    /// of the sandbox's host; with one address for all sandboxes the headers that say which one are still needed.
    pub fn signed_url(
        &self,
        good_for: SignedUrl,
        path: &str,
        expires: Option<SystemTime>,
    ) -> Result<Secret<String>, CallError> {
        let operation = "sign the file's address";
        let Some(token) = &self.token else {
            let what = "sign addresses: the sandbox has no token".to_owned();
            return Err(self.server.failed(operation, Why::Unsupported { what }));
        };
        let user = self.user();
        let expires = expires.map(|time| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let mut url = self.server.address().join(&["files"]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("path", path);
            if let Some(user) = user {
                query.append_pair("username", user);
            }
            query.append_pair("signature", &signature(good_for, path, user.unwrap_or_default(), token, expires));
            if let Some(expires) = expires {
                query.append_pair("signature_expiration", &expires.to_string());
            }
        }
        Ok(Secret::new(url.into()))
    }
}

fn signature(good_for: SignedUrl, path: &str, user: &str, token: &Secret<String>, expires: Option<u64>) -> String {
    let operation = match good_for {
        SignedUrl::Read => "read",
        SignedUrl::Write => "write",
    };
    let mut text = format!("{path}:{operation}:{user}:{}", token.expose());
    if let Some(expires) = expires {
        text = format!("{text}:{expires}");
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
}
