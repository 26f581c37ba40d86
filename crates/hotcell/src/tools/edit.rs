//! `edit_file`: replaces exact text in a file of the box.

use std::path::PathBuf;

use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{self, Shared};
use super::result::Render;
use super::rules::Wish;
use super::write::check_size;
use super::{ErrorKind, ToolError, Toolbox, text};

/// How many places are named where text occurs more than once.
const MOST_PLACES: usize = 20;
/// How much of a near miss is shown.
const SHOWN: usize = 2000;
/// Near misses are looked for in texts of no more lines than this, and in files of no more than this: a search that finds
/// nothing is not worth more.
const NEAR_LINES: usize = 200;
const NEAR_FILE_LINES: usize = 100_000;

/// What `edit_file` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFile {
    /// The file, relative to the workspace or absolute, in the box.
    pub path: String,
    /// The text to replace, exactly as it is in the file, with all spaces and line ends.
    pub old_text: String,
    /// What to put in its place; empty removes it.
    pub new_text: String,
    /// Whether to replace it everywhere. Otherwise it must occur exactly once.
    #[serde(default)]
    pub replace_all: bool,
}

/// What `edit_file` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EditFileResult {
    /// The file.
    pub path: String,
    /// How many places were changed.
    pub replacements: u64,
    /// The lines on which they start, counted from 1, as the file was; the first of them.
    pub lines: Vec<u64>,
    /// How many bytes the file has now.
    pub size: u64,
}

impl Render for EditFileResult {
    fn text(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        let more = if self.replacements > self.lines.len() as u64 { ", …" } else { "" };
        let places = if self.replacements == 1 { "place" } else { "places" };
        format!(
            "changed {} {places} in {} (line {}{more}); it has {} bytes now",
            self.replacements,
            self.path,
            lines.join(", "),
            self.size
        )
    }
}

impl Toolbox {
    /// Replaces text in a file of the box.
    pub async fn edit_file(&self, input: EditFile) -> Result<EditFileResult, ToolError> {
        let path = self.shared.path(&input.path)?;
        if input.old_text.is_empty() {
            return Err(ToolError::invalid("`old_text` is empty")
                .instead("name the text to replace; write_file makes new files"));
        }
        if input.old_text == input.new_text {
            return Err(ToolError::invalid("`old_text` and `new_text` are the same"));
        }
        check_size(&self.shared, input.old_text.len().max(input.new_text.len()))?;
        // Two edits at the same time would lose one of them.
        self.shared.change(|shared| async move { edit(&shared, path, input).await }).await
    }
}

async fn edit(shared: &Shared, path: PathBuf, input: EditFile) -> Result<EditFileResult, ToolError> {
    let sandbox = shared.sandbox().await?;
    let files = access::files(&*sandbox)?;
    let before = match files.read(&path, shared.options.limits.file).await {
        Ok(bytes) => bytes,
        Err(error) => return Err(shared.files_error(&*sandbox, &error, &path, Wish::Read).await),
    };
    let (most, name) = (shared.options.limits.file, shared.shown(&path));
    let edited = tokio::task::spawn_blocking(move || replaced(&before, &input, &name, most)).await;
    let edited = edited.map_err(|error| ToolError::new(ErrorKind::Failed, format!("the edit failed: {error}")))??;
    // The mode is only for a file that somebody removed meanwhile.
    match files.write(&path, &edited.bytes, 0o644).await {
        Ok(()) => Ok(EditFileResult {
            path: shared.shown(&path),
            replacements: edited.count,
            lines: edited.lines,
            size: edited.bytes.len() as u64,
        }),
        Err(error) => Err(shared.files_error(&*sandbox, &error, &path, Wish::Write).await),
    }
}

#[derive(Debug)]
struct Edited {
    bytes: Vec<u8>,
    count: u64,
    lines: Vec<u64>,
}

/// The content with the text replaced; it is never larger than `most`.
fn replaced(before: &[u8], input: &EditFile, name: &str, most: u64) -> Result<Edited, ToolError> {
    let (old, new) = (input.old_text.as_bytes(), input.new_text.as_bytes());
    let places: Vec<usize> = Finder::new(old).find_iter(before).collect();
    let count = places.len();
    if count == 0 {
        let message = format!("`old_text` does not occur in `{name}`{}", near_miss(before, &input.old_text));
        return Err(
            ToolError::new(ErrorKind::NoMatch, message).instead("read the file again and copy the text exactly")
        );
    }
    let lines = lines_of(before, &places);
    if count > 1 && !input.replace_all {
        let shown: Vec<String> = lines.iter().map(u64::to_string).collect();
        let more = if count > lines.len() { ", …" } else { "" };
        let message = format!("`old_text` occurs {count} times in `{name}`, on lines {}{more}", shown.join(", "));
        return Err(ToolError::new(ErrorKind::NoMatch, message)
            .instead("add lines around it until it is unique, or set `replace_all`"));
    }
    let size = (before.len() - count * old.len()) as u64 + (count as u64).saturating_mul(new.len() as u64);
    if size > most {
        let message = format!("`{name}` would have {size} bytes, {most} are possible");
        return Err(ToolError::new(ErrorKind::TooLarge, message).instead("replace less"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut rest = 0;
    for place in places {
        bytes.extend_from_slice(&before[rest..place]);
        bytes.extend_from_slice(new);
        rest = place + old.len();
    }
    bytes.extend_from_slice(&before[rest..]);
    Ok(Edited { bytes, count: count as u64, lines })
}

/// The lines of the first places.
fn lines_of(bytes: &[u8], places: &[usize]) -> Vec<u64> {
    let mut lines = Vec::new();
    let (mut line, mut from) = (1, 0);
    for place in places.iter().take(MOST_PLACES) {
        line += bytes[from..*place].iter().filter(|byte| **byte == b'\n').count() as u64;
        from = *place;
        lines.push(line);
    }
    lines
}

/// What the file has instead that looks like the text: the same lines but for spaces, or at least the first of them.
fn near_miss(bytes: &[u8], wanted: &str) -> String {
    let Ok(content) = std::str::from_utf8(bytes) else { return ", which is not UTF-8".to_owned() };
    if content.contains("\r\n") && !wanted.contains('\r') {
        let with_returns = wanted.replace('\n', "\r\n");
        if content.contains(&with_returns) {
            return "; its lines end with CR LF, so write `\\r\\n` in both texts".to_owned();
        }
    }
    let lines: Vec<&str> = content.lines().take(NEAR_FILE_LINES).collect();
    let sought: Vec<String> = wanted.lines().take(NEAR_LINES).map(squeezed).collect();
    let Some((first, others)) = sought.split_first() else { return String::new() };
    let starts: Vec<usize> =
        (0..lines.len()).filter(|at| !first.is_empty() && squeezed(lines[*at]) == *first).take(MOST_PLACES).collect();
    let follows = |at: &&usize| {
        others.iter().enumerate().all(|(n, other)| lines.get(*at + 1 + n).is_some_and(|line| squeezed(line) == *other))
    };
    let show = |at: usize, count: usize| {
        let end = lines.len().min(at + count);
        text::cut(&text::lines(&lines[at..end].join("\n")), SHOWN)
    };
    if let Some(at) = starts.iter().find(follows) {
        return format!("; with other spaces or indentation it is on line {}:\n{}", at + 1, show(*at, sought.len()));
    }
    match starts.first() {
        Some(at) => format!(
            "; its first line is on line {}, and goes on differently:\n{}",
            at + 1,
            show(*at, sought.len().min(10))
        ),
        None => String::new(),
    }
}

/// A line without spaces around it, and with one where there are several.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(before: &str, old: &str, new: &str, replace_all: bool) -> Result<(String, u64), ToolError> {
        let input = EditFile { path: "f".into(), old_text: old.into(), new_text: new.into(), replace_all };
        let edited = replaced(before.as_bytes(), &input, "f", 1000)?;
        Ok((String::from_utf8(edited.bytes).unwrap(), edited.count))
    }

    #[test]
    fn text_is_replaced_where_it_occurs_once() {
        assert_eq!(edit("a b c", "b", "B", false).unwrap(), ("a B c".into(), 1));
        assert_eq!(edit("a b c", "b ", "", false).unwrap(), ("a c".into(), 1));
        assert_eq!(edit("b", "b", "b\nb", false).unwrap(), ("b\nb".into(), 1));
    }

    #[test]
    fn more_than_once_is_an_error_that_names_the_lines() {
        let error = edit("x\ny\nx\n", "x", "z", false).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoMatch);
        assert!(error.message.contains("2 times") && error.message.contains("lines 1, 3"), "{}", error.message);
        assert_eq!(edit("x\ny\nx\n", "x", "z", true).unwrap(), ("z\ny\nz\n".into(), 2));
        // Without overlaps, as everybody replaces.
        assert_eq!(edit("aaaa", "aa", "b", true).unwrap(), ("bb".into(), 2));
    }

    #[test]
    fn a_near_miss_is_shown() {
        let file = "fn a() {\n    one();\n    two();\n}\n";
        let error = edit(file, "fn a() {\n\tone();\n\ttwo();\n}", "", false).unwrap_err();
        assert!(error.message.contains("on line 1:\nfn a() {\n    one();"), "{}", error.message);
        let error = edit(file, "one();\nthree();", "", false).unwrap_err();
        assert!(error.message.contains("first line is on line 2"), "{}", error.message);
        let error = edit("a\r\nb\r\n", "a\nb", "", false).unwrap_err();
        assert!(error.message.contains("CR LF"), "{}", error.message);
        let error = edit(file, "nothing like it", "", false).unwrap_err();
        assert!(error.message.ends_with("`f`"), "{}", error.message);
    }

    #[test]
    fn a_result_that_is_too_large_is_refused_before_it_is_made() {
        let error = edit(&"a".repeat(500), "a", &"b".repeat(900), true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge);
    }

    #[test]
    fn near_misses_of_hostile_files_are_bounded() {
        let file = "a\n".repeat(1_000_000);
        let wanted = "a\n".repeat(100_000) + "b";
        assert!(near_miss(file.as_bytes(), &wanted).len() < 2 * SHOWN);
        let long = "a ".repeat(4_000_000);
        assert!(near_miss(long.as_bytes(), "a\nb").len() < 2 * SHOWN);
    }

    #[test]
    fn other_bytes_of_the_file_stay() {
        let input = EditFile { path: "f".into(), old_text: "b".into(), new_text: "c".into(), replace_all: false };
        assert_eq!(replaced(b"\xff\0b\x1b", &input, "f", 100).unwrap().bytes, b"\xff\0c\x1b");
    }
}
