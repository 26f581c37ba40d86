//! `hotcell import`: the settings of another sandbox as a policy file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hotcell::import::{self, Fate, ImportError, ImportOptions, Imported, MAX_IMPORT_BYTES, Report, Setting};
use hotcell::text::{Printable, PrintablePath};
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::failure::{Failure, FailureObject};
use crate::table::aligned;
use crate::{exit, json, output};

/// It may hold a key.
const ONLY_THE_USER: u32 = 0o600;
const STANDARD: &str = "-";

/// As it is printed with `--json`.
#[derive(Serialize)]
struct ImportObject<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// The file that was written.
    output: Option<String>,
    /// The policy, where it was not written to a file.
    toml: Option<&'a str>,
}

/// As it is printed with `--json` where something has no equal.
#[derive(Serialize)]
struct LostObject<'a> {
    #[serde(flatten)]
    failure: FailureObject<'a>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Prints or writes the policy, and says what became of every setting.
pub(crate) fn execute(arguments: &ImportArguments) -> Result<u8, Failure> {
    let text = read(&arguments.file)?;
    let options = options(arguments)?;
    let imported = match import::import(&text, &options) {
        Ok(imported) => imported,
        Err(error) => return refuse(error, arguments),
    };
    if arguments.output.as_os_str() == STANDARD {
        return print(&imported, arguments.json);
    }
    write(&arguments.output, &imported.toml, arguments.force)?;
    let shown = match arguments.json {
        true => {
            let output = Some(arguments.output.to_string_lossy().into_owned());
            json::line(&ImportObject { report: &imported.report, output, toml: None })
        }
        false => output::printable(&rows(&imported.report)),
    };
    let code = output::to_stdout(&shown)?;
    if !arguments.json {
        let file = PrintablePath(&arguments.output);
        output::hint(&format!(
            "use it with `hotcell run --policy {file} -- COMMAND`; a project's own hotcell.toml could only tighten"
        ));
    }
    Ok(code)
}

/// The policy is the result, so the report goes where messages go.
fn print(imported: &Imported, as_json: bool) -> Result<u8, Failure> {
    if as_json {
        let object = ImportObject { report: &imported.report, output: None, toml: Some(&imported.toml) };
        return output::to_stdout(&json::line(&object));
    }
    output::lines(&rows(&imported.report));
    output::to_stdout(&imported.toml)
}

fn refuse(error: ImportError, arguments: &ImportArguments) -> Result<u8, Failure> {
    let failure = Failure::new("import", format!("{}: {error}", PrintablePath(&arguments.file)));
    let ImportError::Lost(report) = error else { return Err(failure) };
    let failure = failure.hint("to leave settings out, name them with --allow-loss KEY,KEY; the file will say so");
    if !arguments.json {
        return Err(failure);
    }
    output::to_stdout(&json::line(&LostObject { failure: failure.object(), report: &report }))?;
    Ok(exit::REFUSED)
}

fn options(arguments: &ImportArguments) -> Result<ImportOptions, Failure> {
    let format = arguments.from.as_deref().map(str::parse).transpose();
    let current = std::env::current_dir().and_then(|directory| directory.canonicalize());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    Ok(ImportOptions {
        format: format.map_err(|error| Failure::usage(&format!("--from: {error}")))?,
        allow_loss: arguments.allow_loss.iter().flat_map(|keys| split(keys)).collect(),
        workspace: current
            .map_err(|error| Failure::new("import", format!("cannot find out the current directory: {error}")))?,
        home: home.map(|home| home.canonicalize().unwrap_or(home)),
    })
}

/// The keys between commas; a comma in quotes is part of a key.
fn split(keys: &str) -> Vec<String> {
    let mut quoted = false;
    let separates = |character: char| {
        quoted ^= character == '"';
        character == ',' && !quoted
    };
    keys.split(separates).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).collect()
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |reason: String| Failure::new("import", format!("cannot read `{}`: {reason}", PrintablePath(path)));
    let mut bytes = Vec::new();
    let most = MAX_IMPORT_BYTES as u64 + 1;
    let read = if path.as_os_str() == STANDARD {
        io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() > MAX_IMPORT_BYTES {
        return Err(failed(format!("it is larger than {MAX_IMPORT_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8 text".to_owned()))
}

/// Writes a file that nobody else can read; what is there is replaced only if that was asked for, and then as a whole.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failed = |error: &io::Error| {
        let failure = Failure::new("import", format!("cannot write `{}`: {error}", PrintablePath(path)));
        match error.kind() {
            io::ErrorKind::AlreadyExists if !force => failure.hint("--force replaces it"),
            _ => failure,
        }
    };
    let new = if force { beside(path) } else { path.to_owned() };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(ONLY_THE_USER)
        .open(&new)
        .map_err(|error| failed(&error))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| if force { fs::rename(&new, path) } else { Ok(()) });
    written.map_err(|error| {
        // It is ours and half of a policy at best; there is nothing more to do if it stays.
        let _ = fs::remove_file(&new);
        failed(&error)
    })
}

/// A name in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

fn rows(report: &Report) -> String {
    let mut rows = vec![["line", "setting", "fate", "what"].map(str::to_owned)];
    rows.extend(report.settings.iter().map(row));
    format!("settings of {}\n\n", report.format) + &aligned("", &rows)
}

fn row(setting: &Setting) -> [String; 4] {
    let line = setting.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
    let (fate, what) = match &setting.fate {
        Fate::Carried { to } => ("carried", to.join(", ")),
        Fate::Narrower { to, how } if to.is_empty() => ("narrower", how.clone()),
        Fate::Narrower { to, how } => ("narrower", format!("{}: {how}", to.join(", "))),
        Fate::Always { how } => ("always", how.clone()),
        Fate::Elsewhere { what } => ("elsewhere", what.clone()),
        Fate::Lost { why, .. } => ("left out", why.clone()),
        _ => ("other", String::new()),
    };
    [line, Printable(&setting.key).to_string(), fate.to_owned(), what]
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn keys_are_split_at_commas_outside_of_quotes() {
        assert_eq!(split("a, b.c[0],,"), ["a", "b.c[0]"]);
        assert_eq!(split("a.\"x,y\".z,b"), ["a.\"x,y\".z", "b"]);
    }
}
