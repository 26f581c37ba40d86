//! `read_file`: a file of the box as text, as Base64 or as an image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{self, Shared};
use super::result::Render;
use super::rules::Wish;
use super::text::{self, Returns};
use super::{ErrorKind, Image, ToolError, ToolLimits, Toolbox};

/// What `read_file` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// The file, relative to the workspace or absolute, in the box.
    pub path: String,
    /// `text` (default; images come back as images) or `base64` for the exact bytes.
    #[serde(default)]
    pub encoding: Option<ReadEncoding>,
    /// The first line of a text to read, counted from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub first_line: Option<u64>,
    /// How many lines of a text to read.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub lines: Option<u64>,
    /// With `base64`: the first byte to read, counted from 0. `next_byte` of a result says where to go on.
    #[serde(default)]
    pub first_byte: Option<u64>,
}

impl ReadFile {
    /// All of a file, as text or as an image.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// How a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadEncoding {
    /// As text.
    Text,
    /// The exact bytes, in Base64.
    Base64,
}

/// How a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentEncoding {
    /// As text.
    Text,
    /// The exact bytes, in Base64.
    Base64,
    /// As an image, which is beside the result.
    Image,
}

/// What `read_file` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReadFileResult {
    /// The file.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// How `content` is to be read.
    pub encoding: ContentEncoding,
    /// The text or Base64; empty for an image.
    pub content: String,
    /// The media type of an image.
    pub media_type: Option<String>,
    /// The first line in `content`, counted from 1.
    pub first_line: Option<u64>,
    /// How many lines the file has.
    pub total_lines: Option<u64>,
    /// How many bytes of what was asked for are not shown.
    pub left_out_bytes: u64,
    /// With `base64`: where to go on.
    pub next_byte: Option<u64>,
    /// Whether the text has bytes that are no UTF-8; they are shown as U+FFFD.
    pub not_utf8: bool,
    /// Whether the text has characters that are shown as `\u{…}`.
    pub escaped: bool,
    /// Whether lines end with CR LF; the CR is not shown.
    pub crlf: bool,
    #[serde(skip)]
    image: Option<Image>,
}

impl Render for ReadFileResult {
    fn text(&self) -> String {
        let mut notes = vec![format!("{} bytes", self.size)];
        if let Some(lines) = self.total_lines {
            notes.push(format!("{lines} lines"));
        }
        if let Some(first) = self.first_line.filter(|first| *first > 1) {
            notes.push(format!("from line {first}"));
        }
        if self.not_utf8 {
            notes.push("not UTF-8: some bytes are shown as U+FFFD".to_owned());
        }
        if self.escaped {
            notes.push("control characters are shown as \\u{…}".to_owned());
        }
        if self.crlf {
            notes.push("lines end with CR LF".to_owned());
        }
        if let Some(next) = self.next_byte {
            notes.push(format!("continues at byte {next}"));
        }
        if let Some(media_type) = &self.media_type {
            notes.push(media_type.clone());
        }
        let heading = format!("{} ({})", self.path, notes.join(", "));
        if self.content.is_empty() { heading } else { format!("{heading}\n{}", self.content) }
    }

    fn take_images(&mut self) -> Vec<Image> {
        self.image.take().into_iter().collect()
    }
}

impl Toolbox {
    /// Reads a file of the box.
    pub async fn read_file(&self, input: ReadFile) -> Result<ReadFileResult, ToolError> {
        self.shared.until_closed(read(&self.shared, input)).await
    }
}

async fn read(shared: &Shared, input: ReadFile) -> Result<ReadFileResult, ToolError> {
    if input.lines == Some(0) {
        return Err(ToolError::invalid("`lines` is 0").instead("leave it out, or ask for at least one line"));
    }
    let path = shared.path(&input.path)?;
    let sandbox = shared.sandbox().await?;
    let limit = shared.options.limits.file;
    let bytes = match access::files(&*sandbox)?.read(&path, limit).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let told = shared.files_error(&*sandbox, &error, &path, Wish::Read).await;
            return Err(match told.kind {
                ErrorKind::TooLarge => {
                    told.instead("read a part of it with exec_shell, for instance `head -c` or `sed -n`")
                }
                ErrorKind::WrongKind => told.instead("list a directory with list_files"),
                _ => told,
            });
        }
    };
    drop(sandbox);
    let (name, limits) = (shared.shown(&path), shared.options.limits);
    // Looking at every byte of a large file takes a while: not on the caller's thread.
    let work = move || match input.encoding {
        Some(ReadEncoding::Base64) => as_base64(&limits, name, &bytes, input.first_byte.unwrap_or(0)),
        None if input.first_line.is_none() && image_type(&bytes).is_some() => as_image(&limits, name, &bytes),
        _ => Ok(as_text(&limits, name, &bytes, input.first_line, input.lines)),
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ToolError::new(ErrorKind::Failed, format!("the file could not be shown: {error}"))))
}

fn result(path: String, size: usize, encoding: ContentEncoding) -> ReadFileResult {
    ReadFileResult {
        path,
        size: size as u64,
        encoding,
        content: String::new(),
        media_type: None,
        first_line: None,
        total_lines: None,
        left_out_bytes: 0,
        next_byte: None,
        not_utf8: false,
        escaped: false,
        crlf: false,
        image: None,
    }
}

fn as_text(limits: &ToolLimits, name: String, bytes: &[u8], first: Option<u64>, lines: Option<u64>) -> ReadFileResult {
    let first = first.unwrap_or(1).max(1);
    let mut wanted = 0..bytes.len();
    let mut total = 0_u64;
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        total += 1;
        if total == first {
            wanted.start = start;
        }
        start += line.len();
        if lines.is_some_and(|lines| total == first.saturating_add(lines).saturating_sub(1)) {
            wanted.end = start;
        }
    }
    if first > total {
        wanted.start = bytes.len();
    }
    let wanted = bytes.get(wanted).unwrap_or_default();
    let shown = text::bounded(wanted, limits.text, Returns::AreShown);
    ReadFileResult {
        content: shown.text,
        first_line: Some(first),
        total_lines: Some(total),
        left_out_bytes: shown.left_out,
        not_utf8: shown.lossy,
        escaped: shown.escaped,
        crlf: wanted.windows(2).any(|pair| pair == b"\r\n"),
        ..result(name, bytes.len(), ContentEncoding::Text)
    }
}

fn as_base64(limits: &ToolLimits, name: String, bytes: &[u8], first: u64) -> Result<ReadFileResult, ToolError> {
    let start = usize::try_from(first).ok().filter(|start| *start <= bytes.len()).ok_or_else(|| {
        ToolError::invalid(format!("`first_byte` is {first}, and the file has {} bytes", bytes.len()))
    })?;
    // Four characters hold three bytes.
    let most = (limits.text / 4 * 3).max(3);
    let end = bytes.len().min(start.saturating_add(most));
    Ok(ReadFileResult {
        content: STANDARD.encode(&bytes[start..end]),
        left_out_bytes: (bytes.len() - end) as u64,
        next_byte: (end < bytes.len()).then_some(end as u64),
        ..result(name, bytes.len(), ContentEncoding::Base64)
    })
}

fn as_image(limits: &ToolLimits, name: String, bytes: &[u8]) -> Result<ReadFileResult, ToolError> {
    let most = limits.image;
    if bytes.len() as u64 > most {
        let message = format!("`{name}` is an image of {} bytes, {most} are possible", bytes.len());
        return Err(
            ToolError::new(ErrorKind::TooLarge, message).instead("make a smaller one in the box, and read that")
        );
    }
    let media_type = image_type(bytes).unwrap_or("application/octet-stream").to_owned();
    let image = Image { media_type: media_type.clone(), data: STANDARD.encode(bytes) };
    Ok(ReadFileResult {
        media_type: Some(media_type),
        image: Some(image),
        ..result(name, bytes.len(), ContentEncoding::Image)
    })
}

/// The media type of an image that models can look at, by its first bytes.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
