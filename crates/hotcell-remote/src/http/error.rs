//! Why a call failed.

use std::time::Duration;

use hotcell_core::text::Printable;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not {operation}: {server} {why}")]
#[non_exhaustive]
pub struct CallError {
    /// What was tried, as a verb.
    pub operation: &'static str,
    /// The server's product and where it is; never a key.
    pub server: String,
    /// What happened.
    pub why: Why,
}

/// What happened to a call; the subject is the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Nobody listens there, or the name does not exist.
    #[error("cannot be reached: {reason}")]
    Unreachable {
        /// What the system said.
        reason: String,
    },
    /// It took too long.
    #[error("did not answer within {} s", .waited.as_secs_f32())]
    TooSlow {
        /// How long it was waited for.
        waited: Duration,
    },
    /// It answered that it does not do it.
    #[error("answered {status}{}", said(.message))]
    Answered {
        /// The HTTP status.
        status: u16,
        /// What it said, shortened.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It wants the call to go elsewhere. Keys and code are not taken along.
    #[error("redirects to `{}`, which is not followed; name the address that is meant", Printable(.to))]
    Redirected {
        /// Where to.
        to: String,
    },
    /// The answer is larger than any sensible one.
    #[error("sent more than {limit} bytes")]
    TooLarge {
        /// The most that is taken.
        limit: u64,
    },
    /// The answer is not what the protocol says.
    #[error("answered something else than its protocol says: {what}")]
    Garbled {
        /// What is wrong with it.
        what: String,
    },
    /// The connection ended in the middle.
    #[error("broke the connection: {reason}")]
    Broken {
        /// What the system said.
        reason: String,
    },
    /// The request cannot be made.
    #[error("cannot be asked that: {reason}")]
    Impossible {
        /// Why.
        reason: String,
    },
    /// This server has no such ability.
    #[error("cannot {what}")]
    Unsupported {
        /// What was asked for.
        what: String,
    },
}

impl Why {
    /// The same with other words, where there are any of the server's or the system's.
    pub(super) fn mapped(mut self, words: impl Fn(String) -> String) -> Self {
        match &mut self {
            Self::Answered { message: text, .. }
            | Self::Redirected { to: text }
            | Self::Garbled { what: text }
            | Self::Broken { reason: text }
            | Self::Unreachable { reason: text }
            | Self::Impossible { reason: text }
            | Self::Unsupported { what: text } => *text = words(std::mem::take(text)),
            Self::TooSlow { .. } | Self::TooLarge { .. } => {}
        }
        self
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", Printable(message)) }
}

impl CallError {
    /// The HTTP status, if the server answered with one that is no success.
    pub fn status(&self) -> Option<u16> {
        match self.why {
            Why::Answered { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the server says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match &self.why {
            Why::Unreachable { .. } => "start the server, or correct its address (`sandbox_url`)",
            Why::TooSlow { .. } | Why::Broken { .. } => "look at the server and the network between, and try again",
            Why::Answered { status: 401 | 403, .. } => "check the key (`sandbox_api_key`) and what it may do",
            Why::Answered { status: 404 | 405, .. } => "check the address (`sandbox_url`) and the server's version",
            Why::Answered { status: 429, .. } => "the server wants fewer calls: wait, or raise its limits",
            Why::Answered { status: 500.., .. } => "look at the server's log",
            Why::Answered { .. } => "the server does not accept the request; look at what it says",
            Why::Redirected { .. } => "set `sandbox_url` to the address that is meant",
            Why::TooLarge { .. } | Why::Garbled { .. } => {
                "check that the address is that of such a server, and its version"
            }
            Why::Impossible { .. } => "change the request",
            Why::Unsupported { .. } => "use a server that can, or do without",
        }
    }
}
