//! Comparing policies, and combining two so that neither is exceeded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{
    Access, ContainerPolicy, EnvPolicy, FilesystemPolicy, Limit, Limits, PathRule, Policy, ProcessPolicy, RemotePolicy,
};
use crate::runtime::{Isolation, RuntimeChoice};

impl Policy {
    /// What both policies grant: a child's policy within its parent's.
    ///
    /// The result grants no more than either. What is no grant (the values of variables, the working directory) is the
    /// child's.
    ///
    /// ```
    /// use hotcell_core::policy::{Access, Policy};
    /// let parent = Policy::builder().write("/srv/app").build()?;
    /// let child = Policy::builder().write("/srv/app/cache").read("/etc/secret").build()?;
    /// let both = parent.narrow(&child);
    /// assert_eq!(both.filesystem.access("/srv/app/cache".as_ref()), Access::Write);
    /// assert_eq!(both.filesystem.access("/srv/app".as_ref()), Access::Deny);
    /// assert_eq!(both.filesystem.access("/etc/secret".as_ref()), Access::Deny);
    /// assert!(both.is_at_most(&parent) && both.is_at_most(&child));
    /// # Ok::<(), hotcell_core::layers::PolicyError>(())
    /// ```
    pub fn narrow(&self, child: &Policy) -> Policy {
        Policy {
            runtime: if child.runtime.is_at_most(self.runtime) { child.runtime } else { self.runtime },
            isolation: stricter_isolation(self.isolation, child.isolation),
            filesystem: self.filesystem.narrow(&child.filesystem),
            network: self.network.min(child.network),
            env: EnvPolicy {
                pass: self.env.pass.intersection(&child.env.pass).cloned().collect(),
                set: child.env.set.clone(),
            },
            limits: self.limits.narrow(&child.limits),
            process: ProcessPolicy {
                cwd: child.process.cwd.clone().or_else(|| self.process.cwd.clone()),
                user: match (self.process.user, child.process.user) {
                    (parent, Some(user)) if user.is_root() && !parent.is_some_and(|user| user.is_root()) => parent,
                    (parent, user) => user.or(parent.filter(|user| !user.is_root())),
                },
                tty: self.process.tty && child.process.tty,
            },
            container: ContainerPolicy {
                image: child.container.image.clone().or_else(|| self.container.image.clone()),
                // A program of the host's: never the child's choice.
                runtime: self.container.runtime.clone(),
                pull: self.container.pull.min(child.container.pull),
            },
            remote: RemotePolicy {
                template: child.remote.template.clone().or_else(|| self.remote.template.clone()),
                snapshot: child.remote.snapshot.clone().or_else(|| self.remote.snapshot.clone()),
                // Where files and code are sent: never the child's choice.
                ..self.remote.clone()
            },
            approximate: self.approximate.intersection(&child.approximate).copied().collect(),
        }
    }

    /// Whether this policy grants no more than the other.
    pub fn is_at_most(&self, other: &Policy) -> bool {
        let is_root = |policy: &Policy| policy.process.user.is_some_and(|user| user.is_root());
        let isolated = match (self.isolation, other.isolation) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(mine), Some(theirs)) => mine.satisfies(theirs),
        };
        isolated
            && self.runtime.is_at_most(other.runtime)
            && self.filesystem.is_at_most(&other.filesystem)
            && self.network <= other.network
            && self.env.pass.is_subset(&other.env.pass)
            && self.limits.is_at_most(&other.limits)
            && (!is_root(self) || is_root(other))
            && (!self.process.tty || other.process.tty)
            && self.container.runtime == other.container.runtime
            && self.container.pull <= other.container.pull
            && (!leaves_this_machine(self) || self.remote.same_server(&other.remote))
            && self.approximate.is_subset(&other.approximate)
    }
}

fn leaves_this_machine(policy: &Policy) -> bool {
    matches!(policy.runtime, RuntimeChoice::Kind(kind) if kind.is_remote())
}

/// The parent's where the two cannot be compared: it is the bound.
fn stricter_isolation(parent: Option<Isolation>, child: Option<Isolation>) -> Option<Isolation> {
    match (parent, child) {
        (Some(parent), Some(child)) if child.satisfies(parent) => Some(child),
        (parent, child) => parent.or(child),
    }
}

impl FilesystemPolicy {
    fn narrow(&self, child: &Self) -> Self {
        let mut both = Self {
            rules: Vec::new(),
            protect: all_of(&self.protect, &child.protect),
            protect_paths: all_of(&self.protect_paths, &child.protect_paths),
        };
        let mut rules: Vec<&PathRule> = self.rules.iter().chain(&child.rules).collect();
        rules.sort_by_key(|rule| rule.path.components().count());
        for PathRule { path, .. } in rules {
            let access = self.effective_access(path).min(child.effective_access(path));
            let deciding = [child, self].into_iter().filter(|files| files.effective_access(path) == access);
            let Some(source) = deciding.filter_map(|files| files.nearest_rule(path)).next() else {
                // One of the two has no rule here or above: nothing is granted and nothing needs to be denied.
                continue;
            };
            let denied_anyway = both.nearest_rule(path).is_none_or(|above| above.access == Access::Deny);
            if access == Access::Deny && denied_anyway && !self.denies(path) && !child.denies(path) {
                continue;
            }
            both.insert(PathRule { path: path.clone(), access, origin: source.origin.clone() });
        }
        both
    }

    /// Whether a rule denies exactly this path. It matters even where nothing is granted: the path may be in a system
    /// directory.
    fn denies(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.path == path && rule.access == Access::Deny)
    }

    fn is_at_most(&self, other: &Self) -> bool {
        // Access changes only at rules and at protected paths, so it is enough to look there.
        let rules = self.rules.iter().chain(&other.rules).map(|rule| rule.path.clone());
        let protected =
            self.protected_paths().into_iter().chain(other.protected_paths()).map(|protected| protected.path);
        let grants_no_more =
            rules.chain(protected).all(|path| self.effective_access(&path) <= other.effective_access(&path));
        // Without a rule, a path in a system directory can be read; only a rule denies that.
        let denied = |path: &Path| self.nearest_rule(path).is_some_and(|rule| rule.access == Access::Deny);
        let mut denials = other.rules.iter().filter(|rule| rule.access == Access::Deny);
        grants_no_more && denials.all(|rule| denied(&rule.path))
    }
}

/// What is in either list, sorted, once.
fn all_of(some: &[PathBuf], others: &[PathBuf]) -> Vec<PathBuf> {
    some.iter().chain(others).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

impl Limits {
    fn narrow(&self, child: &Self) -> Self {
        Self {
            memory: self.memory.narrow(&child.memory),
            cpus: self.cpus.narrow(&child.cpus),
            cpu_time: self.cpu_time.narrow(&child.cpu_time),
            processes: self.processes.narrow(&child.processes),
            open_files: self.open_files.narrow(&child.open_files),
            disk: self.disk.narrow(&child.disk),
            output: self.output.narrow(&child.output),
            timeout: self.timeout.narrow(&child.timeout),
        }
    }

    /// Whether each of these limits allows no more than the other's.
    pub fn is_at_most(&self, other: &Self) -> bool {
        self.memory.is_at_most(&other.memory)
            && self.cpus.is_at_most(&other.cpus)
            && self.cpu_time.is_at_most(&other.cpu_time)
            && self.processes.is_at_most(&other.processes)
            && self.open_files.is_at_most(&other.open_files)
            && self.disk.is_at_most(&other.disk)
            && self.output.is_at_most(&other.output)
            && self.timeout.is_at_most(&other.timeout)
    }
}

impl<T: Ord + Clone> Limit<T> {
    /// The lower of the two. If either was asked for, the result was: it may not be held less well than that one.
    fn narrow(&self, child: &Self) -> Self {
        let lower = if child.is_at_most(self) { child } else { self };
        let asked_for = |limit: &Self| limit.explicit && limit.value.is_some();
        Self { explicit: lower.explicit || asked_for(self) || asked_for(child), ..lower.clone() }
    }
}
