//! `--print-config`: what to put into the configuration of an agent.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::arguments::McpArguments;
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
enum Way {
    /// It starts it.
    Command { program: String, arguments: Vec<String> },
    /// It connects to it.
    Url(String),
}

/// Prints the snippet to stdout, and to stderr where it goes.
pub(super) fn print(client: Client, arguments: &McpArguments) -> Result<u8, Failure> {
    let way = match arguments.http.http {
        Some(address) => Way::Url(url(address, arguments.http.tls_cert.is_some())?),
        None => command(std::env::args_os().collect(), arguments.workspace.as_deref())?,
    };
    let written = output::to_stdout(&client.snippet(&way))?;
    output::message(&format!("put this into {}", client.place()));
    if let (Way::Url(_), Some(how)) = (&way, client.token_comes_from()) {
        output::message(how);
    }
    Ok(written)
}

fn url(address: SocketAddr, tls: bool) -> Result<String, Failure> {
    if address.port() == 0 {
        return Err(Failure::usage("--print-config needs to know the port; give --http one that is not 0"));
    }
    Ok(format!("{}://{address}/mcp", if tls { "https" } else { "http" }))
}

/// This program with the flags that it was given, and the workspace by its whole path.
fn command(given: Vec<OsString>, workspace: Option<&Path>) -> Result<Way, Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::new("config", format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("the path of this program is not known", error))?;
    let workspace = std::path::absolute(workspace.unwrap_or(Path::new(".")))
        .and_then(|path| path.canonicalize())
        .map_err(|error| failed("the workspace", error))?;
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
    /// Where its configuration is.
    fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".mcp.json at the top of the project",
            Self::Codex => "~/.codex/config.toml",
            Self::Cursor => ".cursor/mcp.json in the project, or ~/.cursor/mcp.json for all projects",
            Self::Zed => "Zed's settings.json (`zed: open settings file`)",
            Self::VsCode => ".vscode/mcp.json in the project",
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
            .map(|(client, way)| format!("# {client:?}: {}\n{}", client.place(), client.snippet(&way)))
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
            super::command(given.map(OsString::from).to_vec(), Some(&workspace)).unwrap()
        else {
            panic!("a command was asked for");
        };
        assert!(Path::new(&program).is_absolute());
        let workspace = workspace.canonicalize().unwrap();
        let expected = ["mcp", "--workspace", workspace.to_str().unwrap(), "--preset=offline", "--read", "/opt"];
        assert_eq!(arguments, expected);
    }
}
