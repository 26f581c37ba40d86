//! `search_files`: lines of files of the box that match.
//!
//! Files are read through the box, so that its own rules decide which can be; matching is done here, by an engine whose time grows with the
//! length of the text alone. Whatever pattern and files are, it ends: lines, files, bytes, matches and time are bounded.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hotcell_core::backend::{FileEntry, FileKind, Files, FilesError, Sandbox};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::access::{self, Shared};
use super::list::{Glob, Walk};
use super::result::Render;
use super::rules::Wish;
use super::text::{self, Returns};
use super::{ErrorKind, ToolError, Toolbox};

/// The longest pattern.
const LONGEST_PATTERN: usize = 4096;
/// The most memory that a compiled pattern takes: it bounds the time that one byte takes, too.
const PATTERN_SIZE: usize = 1 << 20;
const PATTERN_CACHE: usize = 2 << 20;
/// Of longer lines only the beginning is looked at.
const LONGEST_LINE: usize = 16 << 10;
/// How much of a matching line is shown.
const SHOWN_LINE: usize = 400;
/// The most bytes that one call searches.
const MOST_BYTES: u64 = 256 << 20;
/// A NUL byte so early makes a file a binary one.
const BINARY_LOOK: usize = 8 << 10;
/// The deepest that one call looks.
const DEPTH: u32 = 64;

/// What `search_files` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchFiles {
    /// A regular expression in Rust's syntax (no look-around, no back-references), matched line by line; or plain text with `literal`.
    pub pattern: String,
    /// Whether the pattern is plain text.
    #[serde(default)]
    pub literal: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// The file or directory to search, relative to the workspace or absolute, in the box. Default: the workspace.
    #[serde(default)]
    pub path: Option<String>,
    /// Only files that match, as in list_files: `*.rs`, `src/**/*.py`.
    #[serde(default)]
    pub glob: Option<String>,
    /// The most matches to return.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_matches: Option<u32>,
}

impl SearchFiles {
    /// A regular expression, in the whole workspace.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), ..Self::default() }
    }
}

/// What `search_files` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchFilesResult {
    /// The lines that match.
    pub matches: Vec<Match>,
    /// How many files were searched.
    pub files_searched: u64,
    /// How many files were left out because they are binary, too large or cannot be read.
    pub files_skipped: u64,
    /// Why this may not be all, if it may not.
    pub incomplete: Option<String>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Match {
    /// The file, from the workspace on where it is in there.
    pub path: String,
    /// The line, counted from 1.
    pub line: u64,
    /// The line itself, shortened where it is long.
    pub text: String,
}

impl Render for SearchFilesResult {
    fn text(&self) -> String {
        let mut shown = format!("{} matches in {} files", self.matches.len(), self.files_searched);
        if self.files_skipped > 0 {
            shown.push_str(&format!(", {} files left out", self.files_skipped));
        }
        if let Some(why) = &self.incomplete {
            shown.push_str(&format!(" (incomplete: {why})"));
        }
        for found in &self.matches {
            shown.push_str(&format!("\n{}:{}: {}", found.path, found.line, found.text));
        }
        shown
    }
}

impl Toolbox {
    /// Finds lines in files of the box.
    pub async fn search_files(&self, input: SearchFiles) -> Result<SearchFilesResult, ToolError> {
        self.shared.until_closed(search(&self.shared, input)).await
    }
}

async fn search(shared: &Shared, input: SearchFiles) -> Result<SearchFilesResult, ToolError> {
    let top = shared.path(input.path.as_deref().unwrap_or("."))?;
    let pattern = Arc::new(compiled(&input)?);
    let glob = input.glob.as_deref().map(Glob::new).transpose()?;
    let sandbox = shared.sandbox().await?;
    let files = access::files(&*sandbox)?;
    let most = input.max_matches.map_or(usize::MAX, |most| most.max(1) as usize).min(shared.options.limits.entries);
    let mut found = Found::new(shared, most, pattern);
    if let Ok(entry) = files.stat(&top).await
        && entry.kind == FileKind::File
    {
        one_file(shared, &*sandbox, files, &top, &mut found).await?;
        return Ok(found.result);
    }
    let mut walk = Walk::new(shared, top.clone(), DEPTH)?;
    while found.goes_on() {
        let entries = match walk.next(files).await {
            Ok(Some(entries)) => entries,
            Ok(None) => break,
            Err(error) => return Err(shared.files_error(&*sandbox, &error, &top, Wish::Read).await),
        };
        let wanted = |entry: &FileEntry| {
            entry.kind == FileKind::File && glob.as_ref().is_none_or(|glob| glob.matches(&entry.path, &top))
        };
        for entry in entries.into_iter().filter(wanted) {
            if !found.goes_on() {
                break;
            }
            if entry.size > shared.options.limits.file {
                found.result.files_skipped += 1;
                continue;
            }
            match files.read(&entry.path, shared.options.limits.file).await {
                Ok(bytes) => found.look_at(shared.shown(&entry.path), bytes).await?,
                Err(FilesError::Lost { reason }) => return Err(ToolError::lost(reason)),
                Err(_) => found.result.files_skipped += 1,
            }
        }
    }
    found.result.incomplete = found.result.incomplete.or(walk.incomplete);
    Ok(found.result)
}

async fn one_file(
    shared: &Shared,
    sandbox: &dyn Sandbox,
    files: &dyn Files,
    path: &Path,
    found: &mut Found,
) -> Result<(), ToolError> {
    match files.read(path, shared.options.limits.file).await {
        Ok(bytes) => found.look_at(shared.shown(path), bytes).await,
        Err(error) => Err(shared.files_error(sandbox, &error, path, Wish::Read).await),
    }
}

fn compiled(input: &SearchFiles) -> Result<Regex, ToolError> {
    if input.pattern.is_empty() {
        return Err(ToolError::invalid("the pattern is empty"));
    }
    if input.pattern.len() > LONGEST_PATTERN {
        let message = format!("the pattern has {} bytes, {LONGEST_PATTERN} are possible", input.pattern.len());
        return Err(ToolError::new(ErrorKind::TooLarge, message));
    }
    let escaped;
    let pattern = if input.literal {
        escaped = regex::escape(&input.pattern);
        &escaped
    } else {
        &input.pattern
    };
    RegexBuilder::new(pattern)
        .case_insensitive(input.ignore_case)
        .size_limit(PATTERN_SIZE)
        .dfa_size_limit(PATTERN_CACHE)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                ToolError::new(ErrorKind::TooLarge, "the pattern is too large once it is compiled")
                    .instead("use fewer or smaller repetitions, or search in steps")
            }
            error => ToolError::invalid(format!(
                "the pattern is not a regular expression: {}",
                text::cut(&text::lines(&error.to_string()), 500)
            ))
            .instead("set `literal` to search for plain text"),
        })
}

/// What has been found so far, and what is left of the time and the bytes.
struct Found {
    pattern: Arc<Regex>,
    most: usize,
    most_text: usize,
    shown: usize,
    bytes: u64,
    deadline: Instant,
    wanted: Wanted,
    result: SearchFilesResult,
}

/// Tells the thread that matches, by being dropped, that nobody wants the answer any more.
#[derive(Default)]
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Found {
    fn new(shared: &Shared, most: usize, pattern: Arc<Regex>) -> Self {
        Self {
            pattern,
            most,
            most_text: shared.options.limits.text.saturating_mul(2),
            shown: 0,
            bytes: 0,
            deadline: shared.deadline(),
            wanted: Wanted::default(),
            result: SearchFilesResult { matches: Vec::new(), files_searched: 0, files_skipped: 0, incomplete: None },
        }
    }

    /// Whether there is reason to look further.
    fn goes_on(&mut self) -> bool {
        let why = if self.result.incomplete.is_some() {
            return false;
        } else if self.result.matches.len() >= self.most {
            format!("only {} matches are shown", self.most)
        } else if self.shown >= self.most_text {
            "the matches are long".to_owned()
        } else if self.bytes >= MOST_BYTES {
            format!("more than {MOST_BYTES} bytes were searched")
        } else if Instant::now() >= self.deadline {
            "it took too long".to_owned()
        } else {
            return true;
        };
        self.result.incomplete = Some(why);
        false
    }

    async fn look_at(&mut self, path: String, bytes: Vec<u8>) -> Result<(), ToolError> {
        self.bytes += bytes.len() as u64;
        if bytes[..bytes.len().min(BINARY_LOOK)].contains(&0) {
            self.result.files_skipped += 1;
            return Ok(());
        }
        self.result.files_searched += 1;
        let (pattern, canceled, deadline) = (Arc::clone(&self.pattern), Arc::clone(&self.wanted.0), self.deadline);
        let most = self.most - self.result.matches.len();
        // Not on the caller's thread: a pattern can make every byte cost something.
        let work = move || {
            let stop = || canceled.load(Ordering::Relaxed) || Instant::now() >= deadline;
            matching_lines(&pattern, &bytes, most, stop)
        };
        let lines = tokio::task::spawn_blocking(work).await;
        let lines = lines.map_err(|error| ToolError::new(ErrorKind::Failed, format!("the search failed: {error}")))?;
        for (line, text) in lines {
            self.shown += text.len() + path.len();
            self.result.matches.push(Match { path: path.clone(), line, text });
        }
        Ok(())
    }
}

/// The lines that match, with their numbers.
fn matching_lines(pattern: &Regex, bytes: &[u8], most: usize, stop: impl Fn() -> bool) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1_u64..) {
        if found.len() == most || (number.is_multiple_of(256) || line.len() > 4096) && stop() {
            break;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let looked_at = &line[..line.len().min(LONGEST_LINE)];
        if let Some(at) = pattern.find(looked_at) {
            found.push((number, shown_line(looked_at, at.start())));
        }
    }
    found
}

/// A line as it is shown: the part around the match where it is long.
fn shown_line(line: &[u8], at: usize) -> String {
    if line.len() <= SHOWN_LINE {
        return text::line(&text::bounded(line, usize::MAX, Returns::AreShown).text.replace('\t', "    "));
    }
    let start = at.saturating_sub(SHOWN_LINE / 4);
    let end = line.len().min(start + SHOWN_LINE);
    let part = text::line(&String::from_utf8_lossy(&line[start..end]).replace('\t', "    "));
    format!("{}{part}{}", if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<Regex, ToolError> {
        compiled(&SearchFiles::new(text))
    }

    #[test]
    fn lines_are_found_with_their_numbers() {
        let found = matching_lines(&pattern("b+$").unwrap(), b"a\nabb\r\nxb y\nb", 10, || false);
        assert_eq!(found, [(2, "abb".to_owned()), (4, "b".to_owned())]);
    }

    #[test]
    fn plain_text_is_plain_text() {
        let literal = SearchFiles { literal: true, ..SearchFiles::new("a.b(") };
        let found = matching_lines(&compiled(&literal).unwrap(), b"axb(\na.b(", 10, || false);
        assert_eq!(found, [(2, "a.b(".to_owned())]);
        assert_eq!(pattern("a.b(").unwrap_err().kind, ErrorKind::InvalidInput);
    }

    #[test]
    fn patterns_that_would_be_huge_are_refused() {
        for bomb in ["a{1000}{1000}", "(?:(?:(?:x{100}){100}){100})", r"(\w{50}){50}"] {
            assert_eq!(pattern(bomb).unwrap_err().kind, ErrorKind::TooLarge, "{bomb}");
        }
        assert_eq!(pattern(&"a".repeat(LONGEST_PATTERN + 1)).unwrap_err().kind, ErrorKind::TooLarge);
        assert!(pattern(r"(a+)+$").is_ok() && pattern(r"\w+@\w+\.\w{2,8}").is_ok());
    }

    #[test]
    fn long_lines_are_cut_and_show_the_match() {
        let line = format!("{}needle{}", "x".repeat(10_000), "y".repeat(10_000));
        let found = matching_lines(&pattern("needle").unwrap(), line.as_bytes(), 10, || false);
        assert!(found[0].1.contains("needle") && found[0].1.len() < 2 * SHOWN_LINE, "{found:?}");
        let far = format!("{}needle", "x".repeat(LONGEST_LINE));
        assert_eq!(matching_lines(&pattern("needle").unwrap(), far.as_bytes(), 10, || false), []);
    }

    #[test]
    fn it_stops_when_told() {
        let lines = "a\n".repeat(100_000);
        let found = matching_lines(&pattern("a").unwrap(), lines.as_bytes(), usize::MAX, || true);
        assert!(found.len() < 256, "{}", found.len());
    }
}
