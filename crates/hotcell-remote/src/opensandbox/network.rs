//! What a sandbox may reach, as far as the server's egress sidecar holds it.

/// What a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// What happens to what no rule names.
    pub default: Action,
    /// Rules, the first that matches counts.
    pub egress: Vec<Rule>,
}

impl NetworkPolicy {
    /// Nothing may be reached.
    pub fn deny_all() -> Self {
        Self { default: Action::Deny, egress: Vec::new() }
    }

    /// Only these names (or `*.name`) may be reached.
    pub fn allow_only<I: IntoIterator<Item = S>, S: Into<String>>(targets: I) -> Self {
        let egress = targets.into_iter().map(|target| Rule { action: Action::Allow, target: target.into() }).collect();
        Self { default: Action::Deny, egress }
    }
}

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It may be made.
    Allow,
    /// It may not.
    Deny,
}

impl Action {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// A rule about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// A name, or `*.` and a name.
    pub target: String,
}

/// What a server says of the policy that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkStatus {
    /// The policy; none if the server says none.
    pub policy: Option<NetworkPolicy>,
    /// How it says to enforce it: `dns`, `dns+nft`, or nothing.
    pub enforcement: String,
    /// `ok`, or what is wrong.
    pub status: String,
    /// Why, in words.
    pub reason: String,
}
