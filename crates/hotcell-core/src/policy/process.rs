//! How commands start.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How commands start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessPolicy {
    /// The working directory; none leaves it to the backend, which uses the workspace.
    #[serde(serialize_with = "crate::serialize::optional_path")]
    pub cwd: Option<PathBuf>,
    /// The user inside the box; none means [`BoxUser::default`] where the backend can arrange it.
    pub user: Option<BoxUser>,
    /// Whether commands may have a terminal.
    pub tty: bool,
}

/// The user that the code sees itself as. It says nothing about rights on the host: there are none either way.
///
/// ```
/// use hotcell_core::policy::BoxUser;
/// assert_eq!("root".parse::<BoxUser>()?.uid(), 0);
/// assert_eq!("hotcell".parse::<BoxUser>()?.uid(), 1000);
/// assert_eq!("1234".parse::<BoxUser>()?.uid(), 1234);
/// # Ok::<(), hotcell_core::policy::BadUser>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoxUser(u32);

/// A user that cannot exist in a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the user in the box is \"hotcell\" (uid 1000), \"root\" (uid 0 inside only) or a number from 0 to 65533")]
pub struct BadUser;

impl BoxUser {
    /// uid 0 inside the box, nothing outside.
    pub const ROOT: Self = Self(0);
    /// The ordinary user, uid 1000.
    pub const HOTCELL: Self = Self(1000);
    /// 65534 is what the kernel shows for ids that are not mapped.
    const MAX: u32 = 65_533;

    /// By number.
    pub fn from_uid(uid: u32) -> Result<Self, BadUser> {
        if uid <= Self::MAX { Ok(Self(uid)) } else { Err(BadUser) }
    }

    /// The number, for user and group alike.
    pub fn uid(self) -> u32 {
        self.0
    }

    /// Whether it is root inside.
    pub fn is_root(self) -> bool {
        self == Self::ROOT
    }
}

impl Default for BoxUser {
    fn default() -> Self {
        Self::HOTCELL
    }
}

impl FromStr for BoxUser {
    type Err = BadUser;

    fn from_str(text: &str) -> Result<Self, BadUser> {
        match text {
            "root" => Ok(Self::ROOT),
            "hotcell" => Ok(Self::HOTCELL),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map_err(|_| BadUser).and_then(Self::from_uid)
            }
            _ => Err(BadUser),
        }
    }
}

impl fmt::Display for BoxUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ROOT => f.write_str("root"),
            Self::HOTCELL => f.write_str("hotcell"),
            Self(uid) => write!(f, "{uid}"),
        }
    }
}

impl Serialize for BoxUser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_out_of_range_are_refused() {
        for bad in ["", "65534", "-1", "+1", "99999999999", "nobody", "1000 "] {
            assert_eq!(bad.parse::<BoxUser>(), Err(BadUser), "{bad}");
        }
        assert_eq!("65533".parse::<BoxUser>().unwrap().uid(), 65533);
    }
}
