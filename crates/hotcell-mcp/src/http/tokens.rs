//! The secrets that clients show.

use std::fmt;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The shortest token that is accepted.
const SHORTEST: usize = 16;
/// The longest.
const LONGEST: usize = 512;
/// The most tokens of one server.
const MOST: usize = 1000;

/// Who may connect: one secret for each client.
#[derive(Clone)]
pub struct Tokens {
    secrets: Vec<String>,
}

/// What is wrong with tokens; never which they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// There is none.
    #[error("there is no token in it; write one on a line, or leave the file out and one is made")]
    None,
    /// There are too many.
    #[error("there are more than {MOST} tokens in it")]
    TooMany,
    /// One cannot be sent in a header, or is too short to be a secret.
    #[error("line {line}: a token has {SHORTEST} to {LONGEST} characters, all of them of ASCII and visible")]
    Unfit {
        /// Which line.
        line: usize,
    },
    /// Two clients would be one.
    #[error("line {line}: this token is there twice")]
    Twice {
        /// Which line.
        line: usize,
    },
    /// The kernel gave no random bytes.
    #[error("no random bytes for a token: {0}")]
    Random(getrandom::Error),
}

impl Tokens {
    /// A new one, of 256 random bits.
    pub fn generate() -> Result<(Self, String), TokenError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((Self { secrets: vec![secret.clone()] }, secret))
    }

    /// One on each line; empty lines and lines with `#` at their beginning count for nothing.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let mut secrets: Vec<String> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let secret = line.trim();
            if secret.is_empty() || secret.starts_with('#') {
                continue;
            }
            let line = index + 1;
            if !(SHORTEST..=LONGEST).contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(TokenError::Unfit { line });
            }
            if secrets.iter().any(|known| known == secret) {
                return Err(TokenError::Twice { line });
            }
            if secrets.len() == MOST {
                return Err(TokenError::TooMany);
            }
            secrets.push(secret.to_owned());
        }
        if secrets.is_empty() { Err(TokenError::None) } else { Ok(Self { secrets }) }
    }

    /// Whose token this is. All are looked at, each in constant time, so that the time tells nothing but a length.
    pub(super) fn owner(&self, shown: &[u8]) -> Option<Owner> {
        let mut found = Choice::from(0);
        let mut owner = 0_u32;
        for (index, secret) in (0_u32..).zip(&self.secrets) {
            let same = secret.as_bytes().ct_eq(shown);
            owner.conditional_assign(&index, same);
            found |= same;
        }
        bool::from(found).then_some(Owner(owner))
    }
}

/// Secrets are not for logs.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.secrets.len()).finish()
    }
}

/// One of the clients, by its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_an_owner_and_nothing_else_does() {
        let tokens = Tokens::parse("# mine\nfirst-secret-0123456\n\nsecond-secret-012345\n").unwrap();
        let first = tokens.owner(b"first-secret-0123456").unwrap();
        let second = tokens.owner(b"second-secret-012345").unwrap();
        assert_ne!(first, second);
        for wrong in ["", "first-secret-012345", "first-secret-01234567", "# mine", "Second-secret-012345"] {
            assert_eq!(tokens.owner(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert!(matches!(Tokens::parse("\n# nothing\n"), Err(TokenError::None)));
        assert!(matches!(Tokens::parse("ok-ok-ok-ok-ok-ok\nshort\n"), Err(TokenError::Unfit { line: 2 })));
        assert!(matches!(Tokens::parse("with a space in it 123"), Err(TokenError::Unfit { line: 1 })));
        assert!(matches!(
            Tokens::parse("same-same-same-same\nsame-same-same-same"),
            Err(TokenError::Twice { line: 2 })
        ));
        let (tokens, secret) = Tokens::generate().unwrap();
        assert_eq!(secret.len(), 64);
        assert!(tokens.owner(secret.as_bytes()).is_some());
        assert_ne!(Tokens::generate().unwrap().1, secret);
        assert!(!format!("{tokens:?}").contains(&secret));
    }
}
