//! `--print-config`: what to put into the configuration of an agent.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hotcell::config::KEYS;
use hotcell::text::Printable;
use serde::Serialize;
use serde_json::Value;

use super::arguments::{HttpFlags, McpArguments};
use crate::failure::Failure;
use crate::output;

/// The variable that configurations take the token from.
const TOKEN_VARIABLE: &str = "HOTCELL_MCP_TOKEN";
/// What VS Code calls the token when it asks for it.
const ASKED: &str = "hotcell-token";

/// An agent or editor that speaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// Zed
    Zed,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
}

/// How the client reaches the server.
#[derive(Debug)]
pub(super) enum Way {
    /// It starts it.
    Command { program: String, arguments: Vec<String> },
    /// It connects to it.
    Url(String),
}

/// How the client reaches a server with these arguments; the current directory is the workspace.
pub(super) fn way(client: Client, arguments: &McpArguments) -> Result<Way, Failure> {
    if let Some(address) = arguments.http.http {
        return Ok(Way::Url(url(address, &arguments.http)?));
    }
    let way = command(std::env::args_os().collect(), &std::env::current_dir().map_err(no_workspace)?)?;
    client.check(&way)?;
    Ok(way)
}

/// Prints the snippet to stdout, and to stderr where it goes and what else to know.
pub(super) fn print(client: Client, way: &Way, http: &HttpFlags) -> Result<u8, Failure> {
    let written = output::to_stdout(&client.snippet(way))?;
    output::message(&client.place(way));
    match way {
        Way::Command { arguments, .. } => {
            output::message("it is for this project: in a file for all projects it would give each of them this one");
            if arguments.iter().any(|word| word == "--env" || word.starts_with("--env=")) {
                output::message(
                    "the values of --env are in it: keep the file out of version control if they are secret",
                );
            }
            let elsewhere =
                std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|n| is_setting(n));
            for variable in elsewhere {
                output::message(&format!(
                    "{variable} is not part of it: give a flag in its place, or see that the agent has it"
                ));
            }
        }
        Way::Url(_) => {
            client.token_comes_from().into_iter().for_each(output::message);
            if http.token_file.is_none() {
                output::message("without --token-file the server has another token in every run");
            }
            if http.insecure_bind && http.tls_cert.is_none() {
                output::message(
                    "if a proxy in front of the server has TLS, give clients its https address in place of this one",
                );
            }
        }
    }
    Ok(written)
}

/// Whether this variable changes what the box is like.
fn is_setting(variable: &str) -> bool {
    variable == "HOTCELL_POLICY" || KEYS.iter().any(|key| key.variable == Some(variable))
}

/// Where clients find the server. One for other machines goes by its first name; an address that stands for all is none.
fn url(address: SocketAddr, flags: &HttpFlags) -> Result<String, Failure> {
    if address.port() == 0 {
        return Err(Failure::usage("--print-config needs to know the port; give --http one that is not 0"));
    }
    let place = match flags.allow_host.first().filter(|_| !address.ip().is_loopback()) {
        Some(name) if has_port(name) => name.clone(),
        Some(name) => format!("{name}:{}", address.port()),
        None if address.ip().is_unspecified() => {
            return Err(Failure::usage(&format!(
                "--print-config needs a name that clients can connect to, which {} is not; add --allow-host NAME",
                address.ip()
            )));
        }
        None => address.to_string(),
    };
    Ok(format!("{}://{place}/mcp", if flags.tls_cert.is_some() { "https" } else { "http" }))
}

fn has_port(name: &str) -> bool {
    name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

fn no_workspace(error: io::Error) -> Failure {
    Failure::new("workspace", error)
}

/// This program with the flags that it was given, and the workspace by its whole path.
fn command(given: Vec<OsString>, workspace: &Path) -> Result<Way, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new("config", format!("the path of this program is not known: {error}")))?;
    let workspace = workspace.canonicalize().map_err(no_workspace)?;
    let mut arguments = vec!["mcp".to_owned(), "--workspace".to_owned(), text(workspace.into_os_string())?];
    let mut rest = given.into_iter().skip_while(|word| word != "mcp").skip(1);
    while let Some(word) = rest.next() {
        let word = text(word)?;
        match word.split_once('=').map_or(word.as_str(), |(flag, _)| flag) {
            "--print-config" | "--workspace" => {
                if !word.contains('=') {
                    rest.next();
                }
            }
            _ => arguments.push(word),
        }
    }
    Ok(Way::Command { program: text(program.into_os_string())?, arguments })
}

fn text(word: OsString) -> Result<String, Failure> {
    word.into_string().map_err(|word| {
        let shown = PathBuf::from(word);
        Failure::new("config", format!("`{}` is not UTF-8, and no configuration can hold it", shown.display()))
    })
}

impl Client {
    /// Where the snippet goes, and what to do with what is there.
    fn place(self, way: &Way) -> String {
        let file = match (self, way) {
            (Self::ClaudeCode, _) => ".mcp.json at the top of the project",
            (Self::Codex, _) => ".codex/config.toml in the project (Codex reads it if you trust the project)",
            (Self::Cursor, _) => ".cursor/mcp.json in the project",
            (Self::Zed, Way::Command { .. }) => ".zed/settings.json in the project",
            // It will have the token in it.
            (Self::Zed, Way::Url(_)) => "Zed's own settings.json (`zed: open settings file`), not the project's",
            (Self::VsCode, _) => ".vscode/mcp.json in the project",
        };
        let entry = match (self, way) {
            (Self::ClaudeCode | Self::Cursor, _) => "`hotcell` to its `mcpServers`",
            (Self::Codex, _) => "the table to its end",
            (Self::Zed, _) => "`hotcell` to its `context_servers`",
            (Self::VsCode, Way::Command { .. }) => "`hotcell` to its `servers`",
            (Self::VsCode, Way::Url(_)) => "`hotcell` to its `servers` and the input to its `inputs`",
        };
        format!("this goes into {file}; if that is there already, add {entry}")
    }

    /// Whether it starts a command as it is written: some put the value of a variable in the place of its name.
    fn check(self, way: &Way) -> Result<(), Failure> {
        let Way::Command { program, arguments } = way else { return Ok(()) };
        let replaces = matches!(self, Self::ClaudeCode | Self::Cursor | Self::VsCode);
        match std::iter::once(program).chain(arguments).find(|word| replaces && word.contains("${")) {
            Some(word) => Err(Failure::new(
                "config",
                format!("`{}` has `${{` in it, and the client would put something else there", Printable(word)),
            )
            .hint("use a directory, program or flag without it")),
            None => Ok(()),
        }
    }

    /// How it gets the token of a server that it connects to.
    fn token_comes_from(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Cursor => {
                Some("the token is taken from the variable HOTCELL_MCP_TOKEN")
            }
            Self::Zed => Some("put the token in the place of TOKEN"),
            // It asks for it.
            Self::VsCode => None,
        }
    }

    /// What stands for the token in its configuration.
    fn token(self) -> String {
        match self {
            Self::ClaudeCode => format!("${{{TOKEN_VARIABLE}}}"),
            Self::Cursor => format!("${{env:{TOKEN_VARIABLE}}}"),
            Self::VsCode => format!("${{input:{ASKED}}}"),
            Self::Codex | Self::Zed => "TOKEN".to_owned(),
        }
    }

    fn snippet(self, way: &Way) -> String {
        if self == Self::Codex {
            return codex(way);
        }
        let servers = Some(Servers { hotcell: self.server(way) });
        let file = match self {
            Self::Zed => File { context_servers: servers, ..File::default() },
            Self::VsCode => {
                let inputs = matches!(way, Way::Url(_)).then(|| [Input::token()]);
                File { servers, inputs, ..File::default() }
            }
            _ => File { mcp_servers: servers, ..File::default() },
        };
        serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
    }

    fn server(self, way: &Way) -> Server<'_> {
        match way {
            Way::Command { program, arguments } => {
                // Zed wants a place for variables, and has no types.
                let (kind, env) = if self == Self::Zed { (None, Some(NoVariables {})) } else { (Some("stdio"), None) };
                Server { kind, command: Some(program), args: Some(arguments), env, ..Server::default() }
            }
            Way::Url(url) => {
                let kind = matches!(self, Self::ClaudeCode | Self::VsCode).then_some("http");
                let headers = Headers { authorization: format!("Bearer {}", self.token()) };
                Server { kind, url: Some(url), headers: Some(headers), ..Server::default() }
            }
        }
    }
}

/// The forms of all clients that use JSON, in the order in which people write them.
#[derive(Default, Serialize)]
struct File<'a> {
    #[serde(rename = "mcpServers", skip_serializing_if = "Option::is_none")]
    mcp_servers: Option<Servers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_servers: Option<Servers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<Servers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<[Input; 1]>,
}

#[derive(Serialize)]
struct Servers<'a> {
    hotcell: Server<'a>,
}

#[derive(Default, Serialize)]
struct Server<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<NoVariables>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Headers>,
}

#[derive(Serialize)]
struct NoVariables {}

#[derive(Serialize)]
struct Headers {
    #[serde(rename = "Authorization")]
    authorization: String,
}

/// Something that VS Code asks for, and keeps.
#[derive(Serialize)]
struct Input {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'static str,
    description: &'static str,
    password: bool,
}

impl Input {
    fn token() -> Self {
        Self { kind: "promptString", id: ASKED, description: "The token of hotcell mcp", password: true }
    }
}

fn codex(way: &Way) -> String {
    match way {
        Way::Command { program, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(|argument| toml(argument)).collect();
            format!("[mcp_servers.hotcell]\ncommand = {}\nargs = [{}]\n", toml(program), arguments.join(", "))
        }
        Way::Url(url) => {
            format!("[mcp_servers.hotcell]\nurl = {}\nbearer_token_env_var = \"{TOKEN_VARIABLE}\"\n", toml(url))
        }
    }
}

/// A basic string of TOML: what JSON writes, which also escapes all that TOML wants escaped except for DEL.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Way {
        let arguments = ["mcp", "--workspace", "/home/ada/a \"b\"", "--preset", "offline"].map(str::to_owned).to_vec();
        Way::Command { program: "/usr/bin/hotcell".to_owned(), arguments }
    }

    #[test]
    fn each_client_gets_its_own_form() {
        let all: Vec<String> = Client::value_variants()
            .iter()
            .flat_map(|client| [(client, command()), (client, Way::Url("http://127.0.0.1:7700/mcp".to_owned()))])
            .map(|(client, way)| format!("# {client:?}: {}\n{}", client.place(&way), client.snippet(&way)))
            .collect();
        let golden = include_str!("snippets.golden");
        assert_eq!(all.join("\n"), golden, "if this is meant, write the new text to snippets.golden");
    }

    #[test]
    fn the_flags_are_those_that_were_given() {
        let given =
            ["hotcell", "mcp", "--print-config", "zed", "--preset=offline", "--workspace", "x", "--read", "/opt"];
        let workspace = std::env::current_dir().unwrap();
        let Way::Command { program, arguments } =
            super::command(given.map(OsString::from).to_vec(), &workspace).unwrap()
        else {
            panic!("a command was asked for");
        };
        assert!(Path::new(&program).is_absolute());
        let workspace = workspace.canonicalize().unwrap();
        let expected = ["mcp", "--workspace", workspace.to_str().unwrap(), "--preset=offline", "--read", "/opt"];
        assert_eq!(arguments, expected);
    }
}
