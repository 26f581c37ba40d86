//! Names in a workspace that steer programs on the host.

use crate::arena::Arena;
use crate::check::Group::Filesystem;
use crate::check::{Check, check};
use hotcell::policy::PolicyBuilder;

fn write_workspace(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.write(arena.workspace())
}

pub(super) const CHECKS: &[Check] = &[
    check("filesystem.git-hooks", Filesystem, "plant a Git hook in a writable repository, and change one")
        .safe("hooks stay as they were")
        .cves(&["CVE-2026-26268"])
        .grant(write_workspace)
        .intruder(&["put", "{workspace}/.git/hooks/pre-commit", "{workspace}/.git/hooks/sample"]),
    check("filesystem.git-configuration", Filesystem, "change the files that tell Git which programs to run")
        .safe("they stay as they were, and missing ones stay missing")
        .grant(write_workspace)
        .intruder(&[
            "put",
            "{workspace}/.git/config",
            "{workspace}/.git/config.worktree",
            "{workspace}/.git/info/attributes",
            "{workspace}/.gitmodules",
        ]),
    check(
        "filesystem.git-directories",
        Filesystem,
        "point Git at another directory, and plant submodules and worktrees",
    )
    .safe("missing ones stay missing")
    .cves(&["CVE-2026-55607", "CVE-2026-40068"])
    .grant(write_workspace)
    .intruder(&[
        "put",
        "{workspace}/.git/commondir",
        "{workspace}/.git/modules/x/config",
        "{workspace}/.git/worktrees/x/gitdir",
    ]),
    check("filesystem.git-replaced", Filesystem, "put another directory in the place of .git")
        .safe(".git stays where it is")
        .grant(write_workspace)
        .intruder(&["replace-directory", "{workspace}/.git", "config"]),
    check(
        "filesystem.git-hooks-replaced",
        Filesystem,
        "put a directory, and a symbolic link, in the place of .git/hooks",
    )
    .safe(".git/hooks stays where it is")
    .grant(write_workspace)
    .shell(
        "i={program}/intruder; $i replace-directory {workspace}/.git/hooks pre-commit; \
             $i replace-by-link {workspace}/.git/hooks {workspace}; $i remove {workspace}/.git/hooks/sample",
    ),
    check("filesystem.git-linked", Filesystem, "write to .git/config under another name")
        .safe("it can be given no other name")
        .grant(write_workspace)
        .intruder(&["link-and-write", "{workspace}/.git/config", "{workspace}/innocent"]),
    check("filesystem.git-made", Filesystem, "make a repository with hooks in a workspace that is none")
        .safe("no repository appears, and nothing is left in its place")
        .grant(|policy, arena| policy.write(arena.workspace().join("fresh")))
        .intruder(&["put", "{fresh}/.git/hooks/pre-commit", "{fresh}/.git/config"]),
    check("filesystem.git-made-by-rename", Filesystem, "prepare a repository elsewhere and move it into its place")
        .safe("no repository appears, and nothing is left in its place")
        .grant(|policy, arena| policy.write(arena.workspace().join("fresh")))
        .intruder(&["replace-directory", "{fresh}/.git", "config"]),
    check("filesystem.agent-settings", Filesystem, "plant settings of coding agents where there are none")
        .safe("missing ones stay missing, and nothing is left in their place")
        .cves(&["CVE-2026-25725"])
        .grant(write_workspace)
        .intruder(&[
            "put",
            "{workspace}/.claude/settings.json",
            "{workspace}/.mcp.json",
            "{workspace}/.codex/config.toml",
            "{workspace}/.cursor/mcp.json",
        ]),
    check("filesystem.editor-settings", Filesystem, "plant tasks that editors run where there are none")
        .safe("missing ones stay missing, and nothing is left in their place")
        .grant(write_workspace)
        .intruder(&["put", "{workspace}/.vscode/tasks.json", "{workspace}/.idea/workspace.xml"]),
    check(
        "filesystem.shell-start-files",
        Filesystem,
        "plant files that shells and build tools run where there are none",
    )
    .safe("missing ones stay missing, and nothing is left in their place")
    .grant(write_workspace)
    .intruder(&[
        "put",
        "{workspace}/.envrc",
        "{workspace}/.bashrc",
        "{workspace}/.profile",
        "{workspace}/.npmrc",
        "{workspace}/.pre-commit-config.yaml",
    ]),
    check("filesystem.own-policy", Filesystem, "write the policy of the next run")
        .safe("it stays missing, and nothing is left in its place")
        .grant(write_workspace)
        .intruder(&["put", "{workspace}/hotcell.toml", "{workspace}/.hotcell/policy.toml"]),
    check("filesystem.protected-by-link", Filesystem, "put symbolic links in the place of protected names")
        .safe("missing ones stay missing, and nothing is left in their place")
        .grant(write_workspace)
        .shell(
            "for name in .claude .vscode .envrc .git/modules; do \
             {program}/intruder replace-by-link {workspace}/$name {workspace}/file; done",
        ),
];
