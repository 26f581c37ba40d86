//! What a client can read: the report, the last calls, and the files of the workspace as the box sees them.

use hotcell::tools::{EntryKind, ErrorKind, ListFiles, ListedFile, ReadEncoding, ReadFile, ToolError, Toolbox};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::Value;

use crate::audit::Audit;
use crate::uri;

const REPORT: &str = "hotcell://report";
const AUDIT: &str = "hotcell://audit";
/// The most bytes of a file that is read as a resource.
const LONGEST_FILE: u64 = 1 << 20;

/// Whether files are offered: those who may not call the tools for it get no other way in.
pub(crate) fn has_files(toolbox: &Toolbox) -> bool {
    let names: Vec<&str> = toolbox.definitions().iter().map(|definition| definition.name).collect();
    names.contains(&"read_file") && names.contains(&"list_files")
}

/// What there is, with the files at the top of the workspace.
pub(crate) async fn list(toolbox: &Toolbox) -> Vec<Resource> {
    let json = |uri: &str, name: &str, title: &str, description: &str| {
        Resource::new(uri, name).with_title(title).with_description(description).with_mime_type("application/json")
    };
    let mut all = vec![
        json(REPORT, "report", "Enforcement report", "What holds the box: each control, and by which mechanism."),
        json(AUDIT, "audit", "Last calls", "Which tools were called in this connection, and how each call ended."),
    ];
    // A workspace that cannot be listed has no files to offer; whoever wants to know why calls the tool.
    if has_files(toolbox)
        && let Ok(listed) = toolbox.list_files(ListFiles::default()).await
    {
        all.extend(listed.entries.into_iter().filter_map(file));
    }
    all
}

/// How to name files that are not listed.
pub(crate) fn templates(toolbox: &Toolbox) -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("workspace:///{+path}", "workspace-file")
        .with_title("A file of the workspace")
        .with_description("Any file of the workspace, by its path from there, as the box sees it.");
    if has_files(toolbox) { vec![template] } else { Vec::new() }
}

/// The content of one.
pub(crate) async fn read(toolbox: &Toolbox, audit: &Audit, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let json = |text: String| ResourceContents::text(text, uri).with_mime_type("application/json");
    let contents = match uri {
        REPORT => json(serde_json::to_string_pretty(toolbox.report()).unwrap_or_default()),
        AUDIT => json(audit.tail()),
        _ => match uri::workspace_path(uri) {
            Some(path) if has_files(toolbox) => read_file(toolbox, &path, uri).await?,
            _ => return Err(ErrorData::resource_not_found("there is no such resource", None)),
        },
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn file(entry: ListedFile) -> Option<Resource> {
    if entry.kind != EntryKind::File || entry.odd_name {
        return None;
    }
    let resource = Resource::new(uri::of_workspace(&entry.path), entry.path);
    Some(match entry.size {
        Some(size) => resource.with_size(size),
        None => resource,
    })
}

/// The whole file or nothing: half of one would be taken for all of it.
async fn read_file(toolbox: &Toolbox, path: &str, uri: &str) -> Result<ResourceContents, ErrorData> {
    let mut whole = String::new();
    let mut first_byte = None;
    loop {
        let mut input = ReadFile::new(path);
        input.encoding = Some(ReadEncoding::Base64);
        input.first_byte = first_byte;
        let part = toolbox.read_file(input).await.map_err(not_read)?;
        if part.size > LONGEST_FILE {
            let message =
                format!("the file has {} bytes, and a resource at most {LONGEST_FILE}; call read_file", part.size);
            return Err(ErrorData::invalid_params(message, None));
        }
        whole.push_str(&part.content);
        match part.next_byte {
            Some(next) if first_byte.is_none_or(|before| next > before) && next <= LONGEST_FILE => {
                first_byte = Some(next)
            }
            _ => break,
        }
    }
    Ok(match uri::plain_text(&whole) {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(whole, uri),
    })
}

fn not_read(error: ToolError) -> ErrorData {
    let data = Some(error.to_value()).filter(Value::is_object);
    match error.kind {
        ErrorKind::NotFound => ErrorData::resource_not_found(error.message, data),
        ErrorKind::Lost | ErrorKind::Failed => ErrorData::internal_error(error.message, data),
        _ => ErrorData::invalid_params(error.message, data),
    }
}
