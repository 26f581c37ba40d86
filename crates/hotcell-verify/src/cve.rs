//! Known vulnerabilities of sandboxes like this one, and which check shows that it does not have them.
//!
//! For a vulnerability of the kernel the check shows that the code it was in cannot be reached from a box.

/// A vulnerability that somebody had.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Its number, or a name where it has none.
    pub id: &'static str,
    /// Who had it.
    pub product: &'static str,
    /// What happened.
    pub what: &'static str,
    /// The checks that show that it cannot happen here.
    pub checks: &'static [&'static str],
    /// Why it cannot be shown, where Hotcell has nothing that it could happen to.
    pub absent: Option<&'static str>,
}

const fn held(id: &'static str, product: &'static str, what: &'static str, checks: &'static [&'static str]) -> Record {
    Record { id, product, what, checks, absent: None }
}

const fn absent(id: &'static str, product: &'static str, what: &'static str, why: &'static str) -> Record {
    Record { id, product, what, checks: &[], absent: Some(why) }
}

/// All of them: agents and their sandboxes, container runtimes, then the kernel.
pub const RECORDS: &[Record] = &[
    held(
        "CVE-2026-25725",
        "Claude Code",
        "a settings file was unprotected as long as it did not exist, so the sandbox could write one",
        &["filesystem.agent-settings", "filesystem.git-made", "filesystem.editor-settings"],
    ),
    held(
        "CVE-2026-39861",
        "Claude Code",
        "a symbolic link made inside was followed by a tool outside",
        &[
            "supervisor.read-through-link",
            "supervisor.write-through-link",
            "supervisor.swapped-link",
            "supervisor.commit-through-link",
        ],
    ),
    held(
        "CVE-2026-55607",
        "Claude Code",
        "git worktrees moved what counted as the repository",
        &["filesystem.git-linked", "filesystem.git-directories"],
    ),
    held(
        "CVE-2026-40068",
        "Claude Code",
        "a git commondir file moved what counted as the repository",
        &["filesystem.git-linked", "filesystem.git-directories"],
    ),
    held(
        "CVE-2025-66479",
        "Anthropic sandbox-runtime",
        "an empty list of allowed domains meant that the network was open",
        &["supervisor.empty-list", "network.internet"],
    ),
    held(
        "CVE-2025-59532",
        "Codex CLI",
        "a working directory that the model chose became writable",
        &["supervisor.working-directory", "filesystem.create-outside"],
    ),
    held(
        "CVE-2026-22708",
        "Cursor",
        "an allow-list of commands was passed by shell built-ins",
        &["filesystem.create-outside", "process.environment"],
    ),
    held(
        "CVE-2026-26268",
        "Cursor",
        "a hook was written to .git and ran outside later",
        &["filesystem.git-hooks", "filesystem.git-configuration", "filesystem.git-replaced"],
    ),
    held(
        "CVE-2026-32048",
        "an agent platform",
        "a child session was started with the sandbox off",
        &["supervisor.child-policy", "supervisor.project-file"],
    ),
    held(
        "CVE-2026-46695",
        "BoxLite",
        "a read-only share was read-only in the guest only, which could remount it",
        &["filesystem.remount-shown", "filesystem.modify-shown"],
    ),
    held(
        "CVE-2025-9074",
        "Docker Desktop",
        "the engine's API could be reached from containers by its address",
        &["network.private-networks", "network.host-address", "network.loopback-tcp4"],
    ),
    held(
        "CVE-2026-6406",
        "an agent platform",
        "the Docker socket was mounted by a field that nobody checked",
        &["filesystem.socket", "network.unix-socket"],
    ),
    absent(
        "srt SOCKS5 NUL",
        "Anthropic sandbox-runtime",
        "a host name with a NUL byte passed the proxy's check as another name",
        "there is no proxy: a box has no network, or the host's",
    ),
    absent("CVE-2025-49596", "MCP Inspector", "a web page could drive a local server", "there is no server"),
    absent(
        "CVE-2026-42559",
        "rmcp before 1.4",
        "the Host header was not checked, so DNS rebinding reached local servers",
        "there is no server",
    ),
    absent("CVE-2024-43410", "russh", "memory was used before authentication", "there is no SSH server"),
    absent("CVE-2026-42189", "russh", "memory was used before authentication", "there is no SSH server"),
    absent("CVE-2026-46702", "russh", "memory was used before authentication", "there is no SSH server"),
    absent("CVE-2026-48108", "russh", "memory was used before authentication", "there is no SSH server"),
    absent(
        "CVE-2025-62518",
        "Rust tar crates",
        "headers were read out of step, so hidden entries were unpacked",
        "no archive is unpacked",
    ),
    absent("CVE-2026-33056", "Rust tar crates", "modes were changed through a symbolic link", "no archive is unpacked"),
    absent(
        "CVE-2026-5223",
        "Rust tar crates",
        "entries were written through a symbolic link",
        "no archive is unpacked",
    ),
    held(
        "CVE-2026-1386",
        "Firecracker's jailer",
        "a symbolic link in the jail's path was followed",
        &["supervisor.swapped-source"],
    ),
    absent("CVE-2026-5747", "Firecracker", "a virtual device wrote out of bounds", "there is no virtual machine"),
    held(
        "CVE-2016-9962",
        "runc",
        "descriptors of the host were open while a process entered a container",
        &["process.descriptors", "supervisor.inherited-descriptor", "filesystem.inherited-directory"],
    ),
    held(
        "CVE-2018-15664",
        "Docker",
        "a path was swapped for a link while files were copied",
        &["supervisor.swapped-link", "supervisor.commit-after-swap"],
    ),
    held(
        "CVE-2019-5736",
        "runc",
        "the runtime's own program was overwritten through /proc/self/exe",
        &["filesystem.program-overwrite"],
    ),
    held(
        "CVE-2019-19921",
        "runc",
        "a volume over /proc moved mounts to a place of the image's choice",
        &["supervisor.swapped-source"],
    ),
    held(
        "CVE-2020-15257",
        "containerd",
        "abstract sockets of the host's network namespace were reachable",
        &["network.abstract-socket", "network.abstract-on-open-network"],
    ),
    held(
        "CVE-2021-30465",
        "runc",
        "a mount target was swapped for a link between check and use",
        &["supervisor.swapped-source", "supervisor.swapped-link"],
    ),
    held(
        "CVE-2021-41133",
        "Flatpak",
        "new mount system calls were not filtered",
        &["kernel.file-system-context", "kernel.move-mount", "kernel.mount"],
    ),
    absent("CVE-2021-43784", "runc", "the length of a netlink message overflowed", "no message of that kind is sent"),
    held("CVE-2022-29162", "runc", "processes had inheritable capabilities", &["process.capabilities"]),
    held(
        "CVE-2022-21658",
        "Rust's remove_dir_all",
        "a directory was swapped for a link while it was removed",
        &["supervisor.remove-through-link"],
    ),
    held(
        "CVE-2023-25809",
        "runc",
        "rootless containers could write the host's cgroup hierarchy",
        &["resources.cgroup-files", "filesystem.cgroup-controls"],
    ),
    held(
        "CVE-2023-27561",
        "runc",
        "a link in the root file system moved the mount of /proc",
        &["supervisor.swapped-source"],
    ),
    held(
        "CVE-2023-28642",
        "runc",
        "a link in the root file system moved the mount of /proc",
        &["supervisor.swapped-source"],
    ),
    held(
        "CVE-2024-21626",
        "runc",
        "a descriptor of a host directory leaked and became the working directory",
        &["filesystem.inherited-directory", "process.descriptors", "supervisor.working-directory"],
    ),
    held(
        "CVE-2024-45310",
        "runc",
        "files were created on the host through a swapped directory",
        &["supervisor.swapped-source"],
    ),
    held(
        "CVE-2024-29018",
        "Docker",
        "names were resolved on behalf of networks without a way out",
        &["network.resolver"],
    ),
    held(
        "CVE-2025-31133",
        "runc",
        "the mask of a /proc file was replaced, so the file could be written",
        &["filesystem.kernel-controls", "supervisor.swapped-source"],
    ),
    held("CVE-2025-52565", "runc", "the console's mount was moved to another place", &["supervisor.swapped-source"]),
    held(
        "CVE-2025-52881",
        "runc",
        "writes to /proc went to another file of it",
        &["filesystem.kernel-controls", "supervisor.swapped-source"],
    ),
    held("CVE-2026-41579", "runc", "mounts at set-up went through links", &["supervisor.swapped-source"]),
    held(
        "CVE-2017-5226",
        "bubblewrap",
        "characters were typed into the caller's terminal by TIOCSTI",
        &["process.type", "process.session"],
    ),
    held(
        "CVE-2019-10063",
        "Flatpak",
        "a filter compared 64 bits of an argument of which the kernel uses 32",
        &["process.type-upper-bits", "kernel.upper-bits"],
    ),
    held(
        "CVE-2023-28100",
        "Flatpak",
        "commands were pasted into a virtual console by TIOCLINUX",
        &["process.terminal-requests"],
    ),
    held(
        "CVE-2022-4415",
        "systemd",
        "core dumps of set-user-ID programs could be read",
        &["process.core-dump", "resources.core-dumps"],
    ),
    held(
        "CVE-2012-0056",
        "Linux",
        "another process's memory was written through /proc",
        &["process.memory-file", "process.write-memory"],
    ),
    held(
        "CVE-2013-4312",
        "Linux",
        "descriptors in flight over sockets counted for nobody",
        &["resources.files-in-flight"],
    ),
    held("CVE-2016-0728", "Linux", "a key's counter overflowed", &["kernel.keyring-calls"]),
    held("CVE-2016-4997", "Linux", "netfilter tables were changed from a user namespace", &["kernel.packet-filter"]),
    held("CVE-2017-7308", "Linux", "packet sockets wrote out of bounds", &["kernel.packet-sockets"]),
    held(
        "CVE-2019-13272",
        "Linux",
        "ptrace gave a parent's rights to a child",
        &["process.trace", "kernel.process-calls"],
    ),
    held("CVE-2020-14386", "Linux", "packet sockets corrupted memory", &["kernel.packet-sockets"]),
    held(
        "CVE-2021-22555",
        "Linux",
        "netfilter tables were written out of bounds from a user namespace",
        &["kernel.packet-filter"],
    ),
    held("CVE-2021-22600", "Linux", "packet sockets freed memory twice", &["kernel.packet-sockets"]),
    held(
        "CVE-2021-3493",
        "Linux",
        "file capabilities were set through an overlay in a user namespace",
        &["kernel.overlay", "filesystem.file-capability"],
    ),
    held(
        "CVE-2022-0185",
        "Linux",
        "a file system's options overflowed, from a user namespace",
        &["kernel.file-system-context"],
    ),
    held(
        "CVE-2022-0492",
        "Linux",
        "a cgroup's release agent ran as root on the host",
        &["resources.cgroup-mount", "filesystem.cgroup-controls"],
    ),
    held(
        "CVE-2022-0847",
        "Linux",
        "the page cache of a read-only file was written through a pipe (Dirty Pipe)",
        &["filesystem.page-cache"],
    ),
    held("CVE-2022-1786", "Linux", "io_uring used memory after it was freed", &["kernel.io-uring"]),
    held("CVE-2022-23222", "Linux", "the BPF verifier let pointers be computed with", &["kernel.bpf"]),
    held("CVE-2022-2602", "Linux", "io_uring used descriptors after they were collected", &["kernel.io-uring"]),
    held("CVE-2022-29582", "Linux", "io_uring raced with its own timeouts", &["kernel.io-uring"]),
    held(
        "CVE-2022-32250",
        "Linux",
        "nf_tables used memory after it was freed, from a user namespace",
        &["kernel.firewall-tables"],
    ),
    held(
        "CVE-2023-0386",
        "Linux",
        "a set-user-ID file was copied up through an overlay in a user namespace",
        &["kernel.overlay", "kernel.fuse"],
    ),
    held(
        "CVE-2023-31436",
        "Linux",
        "a traffic scheduler wrote out of bounds, from a user namespace",
        &["kernel.traffic-control"],
    ),
    held(
        "CVE-2023-32233",
        "Linux",
        "nf_tables used memory after it was freed, from a user namespace",
        &["kernel.firewall-tables"],
    ),
    held(
        "CVE-2023-4623",
        "Linux",
        "a traffic scheduler used memory after it was freed, from a user namespace",
        &["kernel.traffic-control"],
    ),
    held("CVE-2024-1086", "Linux", "nf_tables freed memory twice, from a user namespace", &["kernel.firewall-tables"]),
    held("CVE-2025-21756", "Linux", "vsock used memory after it was freed", &["kernel.vsock"]),
    held(
        "CVE-2025-38236",
        "Linux",
        "out-of-band data of Unix sockets was used after it was freed",
        &["kernel.urgent-data"],
    ),
    held("CVE-2025-38618", "Linux", "vsock let a bound port be reused while in use", &["kernel.vsock"]),
    held("CVE-2025-39964", "Linux", "AF_ALG raced with concurrent writers", &["kernel.crypto-sockets"]),
    held(
        "CVE-2026-31431",
        "Linux",
        "the page cache of any readable file was written through AF_ALG and splice (Copy Fail)",
        &["kernel.crypto-sockets", "kernel.i386-calls"],
    ),
    held("CVE-2026-43500", "Linux", "RXRPC sockets wrote the page cache", &["kernel.socket-families"]),
];
