//! Every key there is, once: parsing, suggestions, variables and the schema's test are made from this table.

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct KeyInfo {
    /// The key with its table, for instance `limits.memory`; flat keys have no table.
    pub name: &'static str,
    /// The environment variable that sets it, if there is one.
    pub variable: Option<&'static str>,
    /// The flag of the `hotcell` command that sets it, if there is one.
    pub flag: Option<&'static str>,
    /// What it takes.
    pub takes: &'static str,
    /// A line that sets it.
    pub example: &'static str,
    pub(super) key: Key,
}

impl KeyInfo {
    /// Whether its value must not be shown.
    pub(super) fn is_secret(&self) -> bool {
        self.key == Key::Credential
    }

    /// The table, and the key in it.
    pub fn split(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((table, key)) => (Some(table), key),
            None => (None, self.name),
        }
    }
}

/// What a key sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Preset,
    Mode,
    SandboxBackend,
    Isolation,
    Approximate,
    Read,
    Write,
    Overlay,
    Deny,
    Protect,
    Unprotect,
    Network,
    Pass,
    Set,
    Memory,
    Cpus,
    CpuTime,
    Processes,
    OpenFiles,
    Disk,
    Output,
    Timeout,
    Cwd,
    User,
    Tty,
    Image,
    OciRuntime,
    Pull,
    Url,
    Credential,
    CredentialFile,
    DataUrl,
    Domain,
    Template,
    Snapshot,
    Endpoints,
    PlainHttp,
    Languages,
}

const PATHS: &str = "a list of paths";
const SIZE: &str = "a size";
const DURATION: &str = "a duration";
const COUNT: &str = "a whole number";
const ADDRESS: &str = "an address";

const fn key(key: Key, name: &'static str, takes: &'static str, example: &'static str) -> KeyInfo {
    KeyInfo { name, variable: None, flag: None, takes, example, key }
}

impl KeyInfo {
    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn variable(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }
}

/// Every key, in the order in which they are documented.
pub const KEYS: &[KeyInfo] = &[
    key(Key::SandboxBackend, "sandbox_backend", "the name of a runtime", "sandbox_backend = \"native\""),
    key(Key::Url, "sandbox_url", ADDRESS, "sandbox_url = \"https://sandbox.example.org\""),
    key(Key::Credential, "sandbox_api_key", "a key", "sandbox_api_key = \"…\""),
    key(Key::Preset, "sandbox.preset", "the name of a preset", "preset = \"offline\"")
        .flag("--preset")
        .variable("HOTCELL_PRESET"),
    key(Key::Mode, "sandbox.mode", "the name of a runtime", "mode = \"native\"")
        .flag("--runtime")
        .variable("HOTCELL_RUNTIME"),
    key(Key::Isolation, "sandbox.isolation", "an isolation level", "isolation = \"container\"")
        .flag("--isolation")
        .variable("HOTCELL_ISOLATION"),
    key(Key::Approximate, "sandbox.approximate", "a list of controls", "approximate = [\"memory\"]"),
    key(Key::Read, "filesystem.read", PATHS, "read = [\"src\", \"~/data\"]").flag("--read"),
    key(Key::Write, "filesystem.write", PATHS, "write = [\"target\"]").flag("--write"),
    key(Key::Overlay, "filesystem.overlay", PATHS, "overlay = [\".\"]").flag("--overlay"),
    key(Key::Deny, "filesystem.deny", PATHS, "deny = [\"secrets\"]").flag("--deny"),
    key(Key::Protect, "filesystem.protect", "a list of relative paths", "protect = [\"deploy.sh\"]"),
    key(Key::Unprotect, "filesystem.unprotect", "a list of relative paths", "unprotect = [\".vscode\"]"),
    key(Key::Network, "network.mode", "\"deny\" or \"open\"", "mode = \"deny\"")
        .flag("--net")
        .variable("HOTCELL_NETWORK"),
    key(Key::Pass, "env.pass", "a list of variable names", "pass = [\"RUST_LOG\"]").flag("--pass-env"),
    key(Key::Set, "env.set", "a table of texts", "set = { RUST_LOG = \"info\" }").flag("--env"),
    key(Key::Memory, "limits.memory", SIZE, "memory = \"256m\"").flag("--memory").variable("HOTCELL_MEMORY"),
    key(Key::Cpus, "limits.cpus", "a number of CPUs", "cpus = 1.5").flag("--cpus").variable("HOTCELL_CPUS"),
    key(Key::CpuTime, "limits.cpu_time", DURATION, "cpu_time = \"60s\"")
        .flag("--cpu-time")
        .variable("HOTCELL_CPU_TIME"),
    key(Key::Processes, "limits.processes", COUNT, "processes = 64").flag("--pids").variable("HOTCELL_PROCESSES"),
    key(Key::OpenFiles, "limits.open_files", COUNT, "open_files = 256")
        .flag("--open-files")
        .variable("HOTCELL_OPEN_FILES"),
    key(Key::Disk, "limits.disk", SIZE, "disk = \"1g\"").flag("--disk").variable("HOTCELL_DISK"),
    key(Key::Output, "limits.output", SIZE, "output = \"16m\"").flag("--max-output").variable("HOTCELL_OUTPUT"),
    key(Key::Timeout, "limits.timeout", DURATION, "timeout = \"10s\"").flag("--timeout").variable("HOTCELL_TIMEOUT"),
    key(Key::Cwd, "process.cwd", "a path", "cwd = \"src\"").flag("--cwd"),
    key(Key::User, "process.user", "a user of the box", "user = \"root\""),
    key(Key::Tty, "process.tty", "true or false", "tty = true").flag("--tty"),
    key(Key::Image, "container.image", "the name of an image", "image = \"debian:12\"")
        .flag("--image")
        .variable("HOTCELL_IMAGE"),
    key(Key::OciRuntime, "container.runtime", "the name or path of an OCI runtime", "runtime = \"crun\"")
        .flag("--oci-runtime")
        .variable("HOTCELL_OCI_RUNTIME"),
    key(Key::Pull, "container.pull", "\"never\", \"missing\" or \"always\"", "pull = \"never\"").flag("--pull"),
    key(Key::Url, "remote.url", ADDRESS, "url = \"https://sandbox.example.org\"")
        .flag("--sandbox-url")
        .variable("HOTCELL_SANDBOX_URL"),
    // No flag: what is on a command line can be read by everybody on the machine.
    key(Key::Credential, "remote.api_key", "a key", "api_key = \"…\"").variable("HOTCELL_SANDBOX_API_KEY"),
    key(Key::CredentialFile, "remote.api_key_file", "a path", "api_key_file = \"~/.config/hotcell/key\"")
        .flag("--sandbox-key-file")
        .variable("HOTCELL_SANDBOX_API_KEY_FILE"),
    key(Key::DataUrl, "remote.data_url", ADDRESS, "data_url = \"https://sandbox.example.org\"")
        .variable("HOTCELL_SANDBOX_DATA_URL"),
    key(Key::Domain, "remote.domain", "a domain", "domain = \"e2b.app\"").variable("HOTCELL_SANDBOX_DOMAIN"),
    key(Key::Template, "remote.template", "the name of a template", "template = \"base\"")
        .flag("--template")
        .variable("HOTCELL_TEMPLATE"),
    key(Key::Snapshot, "remote.snapshot", "the name of a snapshot", "snapshot = \"…\"")
        .flag("--snapshot")
        .variable("HOTCELL_SNAPSHOT"),
    key(Key::Endpoints, "remote.endpoints", "\"direct\" or \"proxy\"", "endpoints = \"proxy\"")
        .variable("HOTCELL_SANDBOX_ENDPOINTS"),
    key(Key::PlainHttp, "remote.plain_http", "true or false", "plain_http = true")
        .flag("--plain-http")
        .variable("HOTCELL_PLAIN_HTTP"),
    key(Key::Languages, "languages", "a table for each language", "languages.lua.command = [\"lua\"]"),
];

/// The key with this full name.
pub(crate) fn named(name: &str) -> Option<&'static KeyInfo> {
    KEYS.iter().find(|info| info.name == name)
}

/// The names of the tables.
pub(super) fn tables() -> impl Iterator<Item = &'static str> {
    let mut last = None;
    KEYS.iter().filter_map(|info| info.split().0).filter(move |table| last.replace(*table) != Some(*table))
}

/// The key with this name in this table.
pub(super) fn find(table: Option<&str>, name: &str) -> Option<&'static KeyInfo> {
    KEYS.iter().find(|info| info.split() == (table, name))
}

/// What somebody who wrote an unknown key may have meant: a near name in the same place, or the same name elsewhere.
pub(super) fn suggest(table: Option<&str>, name: &str) -> Option<String> {
    let here = KEYS.iter().filter(|info| info.split().0 == table).map(|info| info.split().1);
    let tables = tables().filter(|_| table.is_none());
    if let Some(near) = crate::suggest::nearest(name, here.chain(tables)) {
        return Some(near.to_owned());
    }
    let elsewhere = KEYS.iter().find(|info| info.split().1 == name)?;
    let (table, key) = elsewhere.split();
    Some(table.map_or_else(|| key.to_owned(), |table| format!("{table}.{key}")))
}
