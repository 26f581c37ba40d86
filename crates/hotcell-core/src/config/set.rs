//! Giving written values a meaning, key by key.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::Key;
use super::quantity::{BadQuantity, parse_count, parse_duration, parse_size};
use super::value::{Node, Written};
use super::{Bound, Config, ConfigError, KEYS, KeyInfo, Layer, Origin, Sourced};
use crate::policy::{BadCpus, Cpus, check_image, check_runtime};

impl Config {
    /// Sets one key from text, as a flag or a variable gives it. Lists get one more element; `env.set` takes
    /// `NAME=VALUE`.
    ///
    /// ```
    /// use hotcell_core::config::{Config, Origin};
    /// let mut flags = Config::default();
    /// flags.set("limits.memory", "64m", Origin::flag("--memory"))?;
    /// flags.set("filesystem.read", "/srv/data", Origin::flag("--read"))?;
    /// let error = flags.set("limits.timeout", "soon", Origin::flag("--timeout")).unwrap_err();
    /// assert!(error.to_string().starts_with("--timeout: "));
    /// # Ok::<(), hotcell_core::config::ConfigError>(())
    /// ```
    pub fn set(&mut self, key: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(info) = KEYS.iter().find(|info| info.name == key) else {
            let suggestion = crate::suggest::nearest(key, KEYS.iter().map(|info| info.name)).map(str::to_owned);
            return Err(ConfigError::UnknownKey { at: origin.into(), key: key.to_owned(), table: None, suggestion });
        };
        self.apply(info, &Written { node: Node::Bare(text.to_owned()), origin })
    }

    pub(super) fn apply(&mut self, info: &KeyInfo, value: &Written) -> Result<(), ConfigError> {
        match info.key {
            Key::Preset => {
                not_in_project(info, value, "it would grant what nobody but you can grant")?;
                self.sandbox.preset = Some(value.parsed(info)?);
            }
            Key::Mode | Key::SandboxBackend => self.set_mode(info, value)?,
            Key::Isolation => self.sandbox.isolation = Some(value.parsed(info)?),
            Key::Approximate => extend(&mut self.sandbox.approximate, info, value, Written::parsed)?,
            Key::Read => extend(&mut self.filesystem.read, info, value, path)?,
            Key::Write => extend(&mut self.filesystem.write, info, value, path)?,
            Key::Overlay => extend(&mut self.filesystem.overlay, info, value, path)?,
            Key::Deny => extend(&mut self.filesystem.deny, info, value, path)?,
            Key::Protect => extend(&mut self.filesystem.protect, info, value, path)?,
            Key::Unprotect => {
                not_in_project(info, value, "it would let the code change what your own programs run")?;
                extend(&mut self.filesystem.unprotect, info, value, path)?;
            }
            Key::Network => self.network.mode = Some(value.parsed(info)?),
            Key::Pass => extend(&mut self.env.pass, info, value, variable_name)?,
            Key::Set => self.set_variables(info, value)?,
            Key::Memory => self.limits.memory = Some(bound(info, value, size)?),
            Key::Cpus => self.limits.cpus = Some(bound(info, value, cpus)?),
            Key::CpuTime => self.limits.cpu_time = Some(bound(info, value, duration)?),
            Key::Processes => self.limits.processes = Some(bound(info, value, count)?),
            Key::OpenFiles => self.limits.open_files = Some(bound(info, value, count)?),
            Key::Disk => self.limits.disk = Some(bound(info, value, size)?),
            Key::Output => self.limits.output = Some(bound(info, value, size)?),
            Key::Timeout => self.limits.timeout = Some(bound(info, value, duration)?),
            Key::Cwd => self.process.cwd = Some(path(value, info)?),
            Key::User => {
                let text = value.text_or_integer(info)?;
                let user = text.parse().map_err(|error| value.bad_value(info, &text, error))?;
                self.process.user = Some(value.sourced(user));
            }
            Key::Image => self.container.image = Some(checked(value, info, check_image)?),
            Key::OciRuntime => {
                not_in_project(info, value, "it names a program that runs on your machine, outside every box")?;
                self.container.runtime = Some(checked(value, info, check_runtime)?);
            }
            Key::Pull => {
                not_in_project(info, value, "it decides what your machine fetches from others")?;
                self.container.pull = Some(value.parsed(info)?);
            }
            Key::Tty => self.process.tty = Some(value.sourced(value.boolean(info)?)),
            Key::Url
            | Key::Credential
            | Key::CredentialFile
            | Key::DataUrl
            | Key::Domain
            | Key::Template
            | Key::Snapshot
            | Key::Endpoints
            | Key::PlainHttp => self.set_remote(info, value)?,
            Key::Languages => self.set_languages(info, value)?,
        }
        Ok(())
    }

    /// `sandbox_backend` is another name for `sandbox.mode`; there, "none" means no other backend than the native one.
    fn set_mode(&mut self, info: &KeyInfo, value: &Written) -> Result<(), ConfigError> {
        let text = match value.text(info)? {
            "none" if info.key == Key::SandboxBackend => "native",
            text => text,
        };
        let mode = text.parse().map_err(|error| value.bad_value(info, text, error))?;
        if let Some(earlier) = &self.sandbox.mode
            && earlier.value != mode
        {
            return Err(ConfigError::Contradiction {
                at: value.origin.clone().into(),
                key: info.name.to_owned(),
                earlier: earlier.origin.clone().into(),
                detail: format!("one asks for {mode}, the other for {}", earlier.value),
            });
        }
        self.sandbox.mode = Some(value.sourced(mode));
        Ok(())
    }

    fn set_variables(&mut self, info: &KeyInfo, value: &Written) -> Result<(), ConfigError> {
        match &value.node {
            Node::Table(entries) => {
                for (name, entry) in entries {
                    let text = entry.text(info)?;
                    self.set_variable(info, entry, name, text)?;
                }
                Ok(())
            }
            Node::Bare(text) => match text.split_once('=') {
                Some((name, text)) => self.set_variable(info, value, name, text),
                None => Err(value.bad_value(info, text, "write NAME=VALUE")),
            },
            _ => Err(value.wrong_type(info)),
        }
    }

    fn set_variable(&mut self, info: &KeyInfo, at: &Written, name: &str, text: &str) -> Result<(), ConfigError> {
        check_variable_name(name).map_err(|reason| at.bad_value(info, name, reason))?;
        if text.contains('\0') {
            // The value may be a secret, so only the name is shown.
            return Err(at.bad_value(info, name, "its value contains a NUL byte"));
        }
        if name.starts_with("LD_") || name.starts_with("DYLD_") {
            not_in_project(info, at, "variables of the loader put code into every program")?;
        }
        self.env.set.insert(name.to_owned(), at.sourced(text.to_owned()));
        Ok(())
    }
}

impl Written {
    pub(super) fn sourced<T>(&self, value: T) -> Sourced<T> {
        Sourced::new(value, self.origin.clone())
    }

    pub(super) fn parsed<T: std::str::FromStr<Err: Display>>(&self, info: &KeyInfo) -> Result<Sourced<T>, ConfigError> {
        let text = self.text(info)?;
        text.parse().map(|value| self.sourced(value)).map_err(|error| self.bad_value(info, text, error))
    }
}

/// Why this is no name of a variable.
pub(crate) fn check_variable_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Err("a variable's name is not empty and has no `=` and no NUL byte")
    } else {
        Ok(())
    }
}

pub(super) fn not_in_project(info: &KeyInfo, value: &Written, why: &'static str) -> Result<(), ConfigError> {
    if value.origin.layer != Layer::Project {
        return Ok(());
    }
    Err(ConfigError::NotInProjectFile {
        at: value.origin.clone().into(),
        key: info.name.to_owned(),
        why,
        instead: "put it into your own file or pass it as a flag".to_owned(),
    })
}

fn extend<T>(
    list: &mut Vec<Sourced<T>>,
    info: &KeyInfo,
    value: &Written,
    read: impl Fn(&Written, &KeyInfo) -> Result<Sourced<T>, ConfigError>,
) -> Result<(), ConfigError> {
    for element in value.elements(info)? {
        list.push(read(element, info)?);
    }
    Ok(())
}

pub(super) fn path(value: &Written, info: &KeyInfo) -> Result<Sourced<PathBuf>, ConfigError> {
    let text = value.text(info)?;
    if text.is_empty() {
        return Err(value.bad_value(info, text, "a path is not empty; `.` is the root of the policy"));
    }
    if text.contains('\0') {
        return Err(value.bad_value(info, text, "a path has no NUL byte"));
    }
    Ok(value.sourced(PathBuf::from(text)))
}

pub(super) fn checked(
    value: &Written,
    info: &KeyInfo,
    check: fn(&str) -> Result<(), &'static str>,
) -> Result<Sourced<String>, ConfigError> {
    let text = value.text(info)?;
    check(text).map_err(|reason| value.bad_value(info, text, reason))?;
    Ok(value.sourced(text.to_owned()))
}

fn variable_name(value: &Written, info: &KeyInfo) -> Result<Sourced<String>, ConfigError> {
    let name = value.text(info)?;
    check_variable_name(name).map_err(|reason| value.bad_value(info, name, reason))?;
    Ok(value.sourced(name.to_owned()))
}

/// A limit, or "unlimited" where that is allowed.
fn bound<T>(
    info: &KeyInfo,
    value: &Written,
    read: impl Fn(&Written, &KeyInfo) -> Result<T, ConfigError>,
) -> Result<Sourced<Bound<T>>, ConfigError> {
    if let Node::Text(text) | Node::Bare(text) = &value.node
        && text == "unlimited"
    {
        not_in_project(info, value, "`unlimited` would loosen the limit")?;
        return Ok(value.sourced(Bound::Unlimited));
    }
    read(value, info).map(|limit| value.sourced(Bound::At(limit)))
}

fn size(value: &Written, info: &KeyInfo) -> Result<u64, ConfigError> {
    quantity(value, info, parse_size)
}

fn count(value: &Written, info: &KeyInfo) -> Result<u64, ConfigError> {
    quantity(value, info, parse_count)
}

fn duration(value: &Written, info: &KeyInfo) -> Result<Duration, ConfigError> {
    quantity(value, info, parse_duration)
}

/// Text or an integer; an integer means what it means as text.
fn quantity<T>(
    value: &Written,
    info: &KeyInfo,
    read: impl Fn(&str) -> Result<T, BadQuantity>,
) -> Result<T, ConfigError> {
    let (text, shown) = match &value.node {
        Node::Text(text) | Node::Bare(text) => (text.clone(), text),
        Node::Integer { value, shown } => (value.to_string(), shown),
        _ => return Err(value.wrong_type(info)),
    };
    read(&text).map_err(|error| value.bad_value(info, shown, error))
}

fn cpus(value: &Written, info: &KeyInfo) -> Result<Cpus, ConfigError> {
    let (number, shown) = match &value.node {
        Node::Integer { value, shown } => (*value as f64, shown.clone()),
        Node::Float(number) => (*number, number.to_string()),
        Node::Bare(text) => (text.trim().parse().unwrap_or(f64::NAN), text.clone()),
        _ => return Err(value.wrong_type(info)),
    };
    Cpus::from_f64(number).map_err(|error: BadCpus| value.bad_value(info, &shown, error))
}
