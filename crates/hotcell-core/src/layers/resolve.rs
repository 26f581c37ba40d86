//! The layers, merged key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::filesystem::filesystem;
use super::paths::within_project;
use super::preset::{check_held, with_preset};
use super::project::loosens;
use super::remote::resolve_remote;
use super::{Context, Layers, PolicyError};
use crate::capability::Control;
use crate::config::quantity::{BadQuantity, check_count, check_duration, check_size, show_duration, show_size};
use crate::config::{Bound, Config, Layer, LimitsConfig, Sourced, check_variable_name};
use crate::policy::{
    BoxUser, ContainerPolicy, EnvPolicy, Limit, Limits, NetworkMode, Policy, ProcessPolicy, PullPolicy, check_image,
    check_runtime,
};
use crate::runtime::{Isolation, RuntimeChoice};
use crate::text::Printable;

/// Makes one policy of the layers, or says which of them is wrong, where and how.
///
/// ```
/// use hotcell_core::config::{Config, Layer};
/// use hotcell_core::layers::{Context, Layers, resolve};
///
/// let context = Context { root: "/srv/project".into(), home: None };
/// let project = Config::parse("[limits]\nmemory = \"8g\"\n", "hotcell.toml", Layer::Project)?;
/// let layers = Layers { project: Some(project), ..Layers::default() };
/// let error = resolve(&layers, &context).unwrap_err().to_string();
/// assert!(error.starts_with("hotcell.toml:2: a project file can only tighten"), "{error}");
/// assert!(error.ends_with("or pass --memory 8g"), "{error}");
/// # Ok::<(), hotcell_core::config::ConfigError>(())
/// ```
pub fn resolve(layers: &Layers, context: &Context) -> Result<Policy, PolicyError> {
    check_held(layers)?;
    let expanded = with_preset(layers);
    let layers = expanded.as_ref().unwrap_or(layers);
    Ok(Policy {
        runtime: resolve_runtime(layers)?,
        isolation: isolation(layers)?,
        filesystem: filesystem(layers, context)?,
        network: network(layers)?,
        env: environment(layers)?,
        limits: limits(layers)?,
        process: process(layers, context)?,
        container: container(layers)?,
        remote: resolve_remote(layers)?,
        approximate: approximate(layers)?,
    })
}

/// What each group of layers says about one key.
pub(super) struct Said<'a, T> {
    /// The user's file, else the caller's defaults.
    pub(super) base: Option<&'a Sourced<T>>,
    project: Option<&'a Sourced<T>>,
    /// Flags, else the environment: they win, and what the project says does not matter.
    pub(super) last: Option<&'a Sourced<T>>,
}

impl<'a, T> Said<'a, T> {
    pub(super) fn by(layers: &'a Layers, pick: impl Fn(&'a Config) -> &'a Option<Sourced<T>>) -> Self {
        let user = layers.user.as_ref().and_then(|config| pick(config).as_ref());
        Self {
            base: user.or(pick(&layers.defaults).as_ref()),
            project: layers.project.as_ref().and_then(|config| pick(config).as_ref()),
            last: pick(&layers.flags).as_ref().or(pick(&layers.environment).as_ref()),
        }
    }
}

/// Which backend the layers choose: some of what a layer is made from depends on it.
pub fn resolve_runtime(layers: &Layers) -> Result<RuntimeChoice, PolicyError> {
    let said = Said::by(layers, |config| &config.sandbox.mode);
    let base = said.base.map_or(RuntimeChoice::Auto, |base| base.value);
    match (said.last, said.project) {
        (Some(last), _) => Ok(last.value),
        (None, Some(project)) if !project.value.is_at_most(base) => {
            let asked = format!("the runtime {}", project.value);
            let allowed = match project.value {
                RuntimeChoice::Kind(kind) if kind.is_remote() => {
                    "it would send files and code to another machine".to_owned()
                }
                _ => format!("it can be weaker than {base}"),
            };
            Err(loosens(&project.origin, "sandbox.mode", asked, allowed, &format!("\"{}\"", project.value)))
        }
        (None, Some(project)) => Ok(project.value),
        (None, None) => Ok(base),
    }
}

/// The languages that the layers add, and the command that runs a file in each. A project adds none.
pub fn resolve_languages(layers: &Layers) -> BTreeMap<String, Vec<String>> {
    let all = own_layers(layers).flat_map(|config| &config.languages);
    all.map(|(name, command)| (name.clone(), command.value.clone())).collect()
}

fn isolation(layers: &Layers) -> Result<Option<Isolation>, PolicyError> {
    let said = Said::by(layers, |config| &config.sandbox.isolation);
    match (said.last, said.project, said.base) {
        (Some(last), _, _) => Ok(Some(last.value)),
        (None, Some(project), Some(base)) if !project.value.satisfies(base.value) => Err(loosens(
            &project.origin,
            "sandbox.isolation",
            format!("isolation {}", project.value),
            format!("{} is asked for", base.value),
            &format!("\"{}\"", project.value),
        )),
        (None, project, base) => Ok(project.or(base).map(|said| said.value)),
    }
}

fn network(layers: &Layers) -> Result<NetworkMode, PolicyError> {
    let said = Said::by(layers, |config| &config.network.mode);
    let base = said.base.map_or(NetworkMode::Deny, |base| base.value);
    match (said.last, said.project) {
        (Some(last), _) => Ok(last.value),
        (None, Some(project)) if project.value > base => Err(loosens(
            &project.origin,
            "network.mode",
            "an open network".to_owned(),
            "the network is denied".to_owned(),
            "\"open\"",
        )),
        (None, Some(project)) => Ok(project.value),
        (None, None) => Ok(base),
    }
}

fn approximate(layers: &Layers) -> Result<BTreeSet<Control>, PolicyError> {
    let own = own_layers(layers).flat_map(|config| &config.sandbox.approximate);
    let accepted: BTreeSet<Control> = own.map(|control| control.value).collect();
    let project = layers.project.iter().flat_map(|config| &config.sandbox.approximate);
    for control in project {
        if !accepted.contains(&control.value) {
            return Err(loosens(
                &control.origin,
                "sandbox.approximate",
                format!("an approximation of {}", control.value),
                "it has to be enforced".to_owned(),
                &format!("\"{}\"", control.value),
            ));
        }
    }
    Ok(accepted)
}

/// All layers but the project's, in order.
pub(super) fn own_layers(layers: &Layers) -> impl Iterator<Item = &Config> {
    [Some(&layers.defaults), layers.user.as_ref(), Some(&layers.environment), Some(&layers.flags)].into_iter().flatten()
}

fn environment(layers: &Layers) -> Result<EnvPolicy, PolicyError> {
    let mut pass = EnvPolicy::default().pass;
    pass.extend(own_layers(layers).flat_map(|config| &config.env.pass).map(|name| name.value.clone()));
    for name in layers.project.iter().flat_map(|config| &config.env.pass) {
        if !pass.contains(&name.value) {
            let shown = Printable(&name.value).to_string();
            let asked = format!("the variable {shown} of the host");
            let allowed = "it is not passed".to_owned();
            return Err(loosens(&name.origin, "env.pass", asked, allowed, &format!("\"{shown}\"")));
        }
    }
    let in_order = [
        Some(&layers.defaults),
        layers.user.as_ref(),
        layers.project.as_ref(),
        Some(&layers.environment),
        Some(&layers.flags),
    ];
    let mut set = BTreeMap::new();
    for config in in_order.into_iter().flatten() {
        check_variables(config)?;
        set.extend(config.env.set.iter().map(|(name, text)| (name.clone(), text.value.clone())));
    }
    Ok(EnvPolicy { pass, set })
}

/// The variables of one layer: possible, and not both passed and set.
fn check_variables(config: &Config) -> Result<(), PolicyError> {
    let set = config.env.set.iter().map(|(name, text)| (name, &text.origin, "env.set"));
    let pass = config.env.pass.iter().map(|name| (&name.value, &name.origin, "env.pass"));
    for (name, at, key) in set.chain(pass) {
        check_variable_name(name).map_err(|reason| PolicyError::BadValue {
            at: at.clone().into(),
            key: key.to_owned(),
            reason: format!("cannot name `{}`: {reason}", Printable(name)),
        })?;
    }
    for (name, text) in &config.env.set {
        if text.value.contains('\0') {
            return Err(PolicyError::BadValue {
                at: text.origin.clone().into(),
                key: "env.set".to_owned(),
                reason: format!("gives `{}` a value with a NUL byte", Printable(name)),
            });
        }
        if let Some(passed) = config.env.pass.iter().find(|passed| passed.value == *name) {
            return Err(PolicyError::Contradiction {
                at: text.origin.clone().into(),
                key: "env.set",
                earlier: passed.origin.clone().into(),
                earlier_key: "env.pass",
                name: name.clone(),
            });
        }
    }
    Ok(())
}

fn process(layers: &Layers, context: &Context) -> Result<ProcessPolicy, PolicyError> {
    let cwd = Said::by(layers, |config| &config.process.cwd);
    let cwd = cwd.last.or(cwd.project).or(cwd.base);
    Ok(ProcessPolicy {
        cwd: cwd.map(|written| within_project(written, "process.cwd", context)).transpose()?,
        user: user(layers)?,
        tty: tty(layers)?,
    })
}

fn container(layers: &Layers) -> Result<ContainerPolicy, PolicyError> {
    let image = Said::by(layers, |config| &config.container.image);
    let image = image.last.or(image.project).or(image.base);
    let runtime = Said::by(layers, |config| &config.container.runtime);
    let pull = Said::by(layers, |config| &config.container.pull);
    for (said, key, check) in [
        (image, "container.image", check_image as fn(&str) -> Result<(), &'static str>),
        (runtime.last.or(runtime.base), "container.runtime", check_runtime),
    ] {
        let Some(said) = said else { continue };
        check(&said.value).map_err(|reason| PolicyError::BadValue {
            at: said.origin.clone().into(),
            key: key.to_owned(),
            reason: format!("cannot be `{}`: {reason}", Printable(&said.value)),
        })?;
    }
    // What a project names is used if it is here. To fetch it is for the user to decide.
    let from_project = image.is_some_and(|image| image.origin.layer == Layer::Project);
    let unsaid = if from_project { PullPolicy::Never } else { PullPolicy::default() };
    Ok(ContainerPolicy {
        image: image.map(|image| image.value.clone()),
        runtime: runtime.last.or(runtime.base).map(|runtime| runtime.value.clone()),
        pull: pull.last.or(pull.base).map_or(unsaid, |pull| pull.value),
    })
}

fn user(layers: &Layers) -> Result<Option<BoxUser>, PolicyError> {
    let said = Said::by(layers, |config| &config.process.user);
    let base_is_root = said.base.is_some_and(|base| base.value.is_root());
    match (said.last, said.project) {
        (None, Some(project)) if project.value.is_root() && !base_is_root => Err(loosens(
            &project.origin,
            "process.user",
            "root in the box".to_owned(),
            "the code runs as an ordinary user".to_owned(),
            "\"root\"",
        )),
        (last, project) => Ok(last.or(project).or(said.base).map(|user| user.value)),
    }
}

fn tty(layers: &Layers) -> Result<bool, PolicyError> {
    let said = Said::by(layers, |config| &config.process.tty);
    let base = said.base.is_some_and(|base| base.value);
    match (said.last, said.project) {
        (None, Some(project)) if project.value && !base => Err(loosens(
            &project.origin,
            "process.tty",
            "a terminal".to_owned(),
            "the code has none".to_owned(),
            "true",
        )),
        (last, project) => Ok(last.or(project).map_or(base, |tty| tty.value)),
    }
}

fn limits(layers: &Layers) -> Result<Limits, PolicyError> {
    let preset = Limits::default();
    let size =
        LimitKind { check: check_size, show: |bytes: &u64| show_size(*bytes), write: |bytes: &u64| write_size(*bytes) };
    let count = LimitKind { check: check_count, show: u64::to_string, write: u64::to_string };
    let time = LimitKind {
        check: check_duration,
        show: |time: &Duration| show_duration(*time),
        write: |time: &Duration| format!("\"{}\"", show_duration(*time).replace(' ', "")),
    };
    let cpus = LimitKind { check: Ok, show: ToString::to_string, write: ToString::to_string };
    Ok(Limits {
        memory: limit(layers, "limits.memory", preset.memory, &size, |limits| &limits.memory)?,
        cpus: limit(layers, "limits.cpus", preset.cpus, &cpus, |limits| &limits.cpus)?,
        cpu_time: limit(layers, "limits.cpu_time", preset.cpu_time, &time, |limits| &limits.cpu_time)?,
        processes: limit(layers, "limits.processes", preset.processes, &count, |limits| &limits.processes)?,
        open_files: limit(layers, "limits.open_files", preset.open_files, &count, |limits| &limits.open_files)?,
        disk: limit(layers, "limits.disk", preset.disk, &size, |limits| &limits.disk)?,
        output: limit(layers, "limits.output", preset.output, &size, |limits| &limits.output)?,
        timeout: limit(layers, "limits.timeout", preset.timeout, &time, |limits| &limits.timeout)?,
    })
}

/// How one kind of limit is checked, shown to people and written in a file.
struct LimitKind<T> {
    check: fn(T) -> Result<T, BadQuantity>,
    show: fn(&T) -> String,
    write: fn(&T) -> String,
}

/// A size as a file has it: `"8g"`, or a number of bytes.
fn write_size(bytes: u64) -> String {
    match show_size(bytes).split_once(' ') {
        Some((number, unit)) if unit.ends_with("iB") => format!("\"{number}{}\"", unit[..1].to_lowercase()),
        _ => bytes.to_string(),
    }
}

fn limit<T: Ord + Copy>(
    layers: &Layers,
    key: &str,
    preset: Limit<T>,
    kind: &LimitKind<T>,
    pick: impl Fn(&LimitsConfig) -> &Option<Sourced<Bound<T>>>,
) -> Result<Limit<T>, PolicyError> {
    let said = Said::by(layers, |config| pick(&config.limits));
    let read = |said: &Sourced<Bound<T>>| -> Result<Limit<T>, PolicyError> {
        let value = said.value.value().map(kind.check).transpose().map_err(|error| PolicyError::BadValue {
            at: said.origin.clone().into(),
            key: key.to_owned(),
            reason: format!("is not possible: {error}"),
        })?;
        let explicit = said.origin.layer != Layer::Default;
        Ok(Limit { value, explicit, origin: said.origin.clone() })
    };
    let base = said.base.map(read).transpose()?.unwrap_or(preset);
    match (said.last, said.project) {
        (Some(last), _) => read(last),
        (None, Some(project)) => {
            let limit = read(project)?;
            match (&limit.value, &base.value) {
                (asked, Some(allowed)) if !limit.is_at_most(&base) => {
                    let asked_shown = asked.as_ref().map_or("no limit".to_owned(), kind.show);
                    let written = asked.as_ref().map_or("\"unlimited\"".to_owned(), kind.write);
                    let allowed = format!("{} is the limit ({})", (kind.show)(allowed), base.origin);
                    Err(loosens(&project.origin, key, asked_shown, allowed, &written))
                }
                _ => Ok(limit),
            }
        }
        (None, None) => Ok(base),
    }
}
