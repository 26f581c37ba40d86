//! Names inside a writable tree that steer programs on the host, and are therefore not writable from the box.
//!
//! A name is relative to the top of every writable tree. The list holds what a program on the host *runs* or takes
//! orders from without asking, when somebody later works in that tree: not what merely is part of the project.
//! Build files (`Makefile`, `package.json`, `build.rs`) run code too, but changing them is ordinary work; whoever
//! builds what a stranger wrote should build it in a box.

/// A protected name and why it is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName {
    /// Relative to the top of a writable tree.
    pub name: &'static str,
    /// What it could make the host do.
    pub why: &'static str,
}

const fn entry(name: &'static str, why: &'static str) -> ProtectedName {
    ProtectedName { name, why }
}

/// The built-in list.
pub const DEFAULT_PROTECTED: &[ProtectedName] = &[
    entry(".git/hooks", "git runs these programs"),
    entry(".git/config", "names programs that git runs: core.fsmonitor, core.hooksPath, aliases, filters"),
    entry(".git/config.worktree", "read by git like .git/config"),
    entry(".git/info/attributes", "assigns filters, which are programs, to files"),
    entry(".git/modules", "the repositories of submodules, with hooks and configuration of their own"),
    entry(".git/worktrees", "says which directories belong to the repository, each with its own configuration"),
    entry(".git/commondir", "would move hooks and configuration elsewhere"),
    entry(".gitmodules", "tells git where submodules come from and how to update them"),
    entry(".gitconfig", "git's configuration, where the tree is a home directory"),
    entry(".bashrc", "run by every interactive bash"),
    entry(".bash_profile", "run by bash at login"),
    entry(".bash_login", "run by bash at login"),
    entry(".bash_logout", "run by bash at logout"),
    entry(".profile", "run by shells at login"),
    entry(".zshrc", "run by every interactive zsh"),
    entry(".zshenv", "run by every zsh"),
    entry(".zprofile", "run by zsh at login"),
    entry(".zlogin", "run by zsh at login"),
    entry(".envrc", "run by direnv on entering the directory"),
    entry(".vscode", "tasks and settings name programs that the editor runs"),
    entry(".idea", "run configurations name programs that the editor runs"),
    entry(".zed", "settings and tasks name programs that the editor runs"),
    entry(".mcp.json", "names servers that coding agents start"),
    entry(".claude", "settings, hooks and instructions of a coding agent"),
    entry(".codex", "settings and instructions of a coding agent"),
    entry(".cursor", "settings and instructions of a coding agent"),
    entry(".hotcell", "settings of Hotcell itself"),
    entry("hotcell.toml", "the policy of the next run"),
    entry(".ripgreprc", "can name a program that ripgrep runs for every file"),
    entry(".npmrc", "can name programs that npm runs and the registry it trusts"),
    entry(".pre-commit-config.yaml", "names programs that run at every commit"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::DEFAULT_PROTECTED;

    #[test]
    fn names_are_unique_relative_and_explained() {
        let names: BTreeSet<_> = DEFAULT_PROTECTED.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), DEFAULT_PROTECTED.len());
        for entry in DEFAULT_PROTECTED {
            assert!(!entry.name.starts_with('/') && !entry.name.contains("..") && !entry.why.is_empty());
        }
    }
}
