//! Files by name: looked at, listed, made, moved and removed.

use serde::Deserialize;
use serde_json::json;

use super::super::connect::Method;
use super::entry::EntryInfo;
use super::process::Nothing;
use super::{Entry, Envd};
use crate::http::CallError;

#[derive(Deserialize)]
struct One {
    entry: EntryInfo,
}

#[derive(Deserialize)]
struct Many {
    #[serde(default)]
    entries: Vec<EntryInfo>,
}

pub(super) const fn method(operation: &'static str, name: &'static str, repeatable: bool) -> Method {
    Method { operation, service: "filesystem.Filesystem", name, repeatable }
}

impl Envd {
    /// What has this path. Links are followed for size and mode. Fails with "not found" if nothing has.
    pub async fn stat(&self, path: &str) -> Result<Entry, CallError> {
        let One { entry } = self.rpc(method("look at the file", "Stat", true), &json!({ "path": path })).await?;
        Ok(entry.into())
    }

    /// What is in a directory, and this deep below.
    pub async fn list_dir(&self, path: &str, depth: u32) -> Result<Vec<Entry>, CallError> {
        let request = json!({ "path": path, "depth": depth.max(1) });
        let Many { entries } = self.rpc(method("list the directory", "ListDir", true), &request).await?;
        Ok(entries.into_iter().map(Into::into).collect())
    }

    /// Makes a directory and those above it. False if there was one.
    pub async fn make_dir(&self, path: &str) -> Result<bool, CallError> {
        let made = self.rpc(method("make the directory", "MakeDir", false), &json!({ "path": path })).await;
        match made.map(|Nothing {}| true) {
            Err(error) if error.status() == Some(409) => Ok(false),
            made => made,
        }
    }

    /// Moves or renames.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), CallError> {
        let request = json!({ "source": from, "destination": to });
        let Nothing {} = self.rpc(method("move the file", "Move", false), &request).await?;
        Ok(())
    }

    /// Removes a file, or a directory with all that is in it.
    pub async fn remove(&self, path: &str) -> Result<(), CallError> {
        let Nothing {} = self.rpc(method("remove the file", "Remove", false), &json!({ "path": path })).await?;
        Ok(())
    }
}
