//! `write_file`: creates or replaces a file of the box.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_core::backend::{Files, FilesError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{self, Shared};
use super::result::Render;
use super::rules::Wish;
use super::{ErrorKind, ToolError, Toolbox};

/// The permission bits of a new file.
const MODE: u32 = 0o644;

/// What `write_file` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The file, relative to the workspace or absolute, in the box. Directories above it are made.
    pub path: String,
    /// All that the file shall have in it.
    pub content: String,
    /// `text` (default), or `base64` where `content` is Base64 of the exact bytes.
    #[serde(default)]
    pub encoding: Option<WriteEncoding>,
}

impl WriteFile {
    /// A text file.
    pub fn new(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), content: content.into(), encoding: None }
    }
}

/// How content is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteEncoding {
    /// As text.
    Text,
    /// In Base64.
    Base64,
}

/// What `write_file` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WriteFileResult {
    /// The file.
    pub path: String,
    /// How many bytes it has now.
    pub size: u64,
    /// Whether it was not there before.
    pub created: bool,
}

impl Render for WriteFileResult {
    fn text(&self) -> String {
        let verb = if self.created { "created" } else { "replaced" };
        format!("{verb} {} ({} bytes)", self.path, self.size)
    }
}

impl Toolbox {
    /// Creates or replaces a file of the box.
    pub async fn write_file(&self, input: WriteFile) -> Result<WriteFileResult, ToolError> {
        let path = self.shared.path(&input.path)?;
        let bytes = match input.encoding {
            Some(WriteEncoding::Base64) => STANDARD
                .decode(input.content.as_bytes())
                .map_err(|error| ToolError::invalid(format!("`content` is not Base64: {error}")))?,
            _ => input.content.into_bytes(),
        };
        check_size(&self.shared, bytes.len())?;
        self.shared.change(|shared| async move { write(&shared, path, bytes).await }).await
    }
}

async fn write(shared: &Shared, path: PathBuf, bytes: Vec<u8>) -> Result<WriteFileResult, ToolError> {
    let sandbox = shared.sandbox().await?;
    let files = access::files(&*sandbox)?;
    let created = matches!(files.stat(&path).await, Err(FilesError::NotFound { .. }));
    match put(files, &path, &bytes).await {
        Ok(()) => Ok(WriteFileResult { path: shared.shown(&path), size: bytes.len() as u64, created }),
        Err(error) => Err(shared.files_error(&*sandbox, &error, &path, Wish::Write).await),
    }
}

/// Refuses content that is larger than a file may be.
pub(super) fn check_size(shared: &Shared, size: usize) -> Result<(), ToolError> {
    let most = shared.options.limits.file;
    if size as u64 <= most {
        return Ok(());
    }
    Err(ToolError::new(ErrorKind::TooLarge, format!("the content has {size} bytes, {most} are possible"))
        .instead("make the file in the box with a command, or write it in parts"))
}

/// Writes a file, with the directories above it.
pub(super) async fn put(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<(), FilesError> {
    match files.write(path, bytes, MODE).await {
        Err(FilesError::NotFound { .. }) => {
            if let Some(above) = path.parent() {
                files.make_directory(above).await?;
            }
            files.write(path, bytes, MODE).await
        }
        done => done,
    }
}
