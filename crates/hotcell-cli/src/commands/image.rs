//! `hotcell image`: the images that boxes are made of.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hotcell::config::quantity::parse_size;
use hotcell_image::{ExportFormat, Image, ImageError, Listed, Progress, PullOptions, Store, StoreError};
use serde::Serialize;

use super::{block_on, image_build};
use crate::arguments_image::{
    ArchiveFormat, ExportArguments, ImageArguments, ImageCommand, ImportArguments, ListArguments, PruneArguments,
    PullArguments, RemoveArguments,
};
use crate::failure::Failure;
use crate::progress::{Line, size};
use crate::table::aligned;
use crate::{exit, json, output};

/// Does what was asked for.
pub(crate) fn execute(arguments: &ImageArguments) -> Result<u8, Failure> {
    let store = Store::open(None)?;
    match &arguments.command {
        ImageCommand::List(arguments) => list(&store, arguments),
        ImageCommand::Pull(arguments) => pull(&store, arguments),
        ImageCommand::Import(arguments) => import(&store, arguments),
        ImageCommand::Rm(arguments) => remove(&store, arguments),
        ImageCommand::Prune(arguments) => prune(&store, arguments),
        ImageCommand::Export(arguments) => export(&store, arguments),
        ImageCommand::Build(arguments) => image_build::execute(&store, arguments),
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::new("image", error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new("image", error)
    }
}

#[derive(Serialize)]
struct ImagesObject<'a> {
    store: String,
    images: Vec<ListedObject<'a>>,
}

#[derive(Serialize)]
struct ListedObject<'a> {
    name: String,
    digest: String,
    architecture: Option<&'a str>,
    /// Bytes, without what is unpacked.
    size: Option<u64>,
    /// Seconds since 1970.
    added: u64,
    unpacked: bool,
    problem: Option<&'a str>,
}

impl<'a> ListedObject<'a> {
    fn of(image: &'a Listed) -> Self {
        Self {
            name: image.name.to_string(),
            digest: image.digest.to_string(),
            architecture: image.architecture.as_deref(),
            size: image.size,
            added: image.added,
            unpacked: image.unpacked,
            problem: image.problem.as_deref(),
        }
    }
}

fn list(store: &Store, arguments: &ListArguments) -> Result<u8, Failure> {
    let images = store.list()?;
    if arguments.json {
        let images = images.iter().map(ListedObject::of).collect();
        return output::to_stdout(&json::line(&ImagesObject { store: store.place().display().to_string(), images }));
    }
    if images.is_empty() {
        output::message(&format!("there are no images in {}", store.place().display()));
        return Ok(exit::SUCCESS);
    }
    let mut rows = vec![["NAME", "DIGEST", "SIZE", "ADDED", ""].map(str::to_owned)];
    rows.extend(images.iter().map(row));
    output::to_stdout(&output::printable(&aligned("", &rows)))
}

fn row(image: &Listed) -> [String; 5] {
    let state = match &image.problem {
        Some(problem) => problem.clone(),
        None if image.unpacked => "unpacked".to_owned(),
        None => String::new(),
    };
    let size = image.size.map_or_else(|| "?".to_owned(), size);
    [image.name.to_string(), image.digest.short(), size, ago(image.added), state]
}

#[derive(Serialize)]
struct ImageObject {
    name: Option<String>,
    digest: String,
    architecture: String,
    size: u64,
}

/// Says which image it is.
fn show(image: &Image, as_json: bool) -> Result<u8, Failure> {
    let name = image.name().map(ToString::to_string);
    if as_json {
        let architecture = image.config().architecture.clone();
        let object = ImageObject { name, digest: image.digest().to_string(), architecture, size: image.size() };
        return output::to_stdout(&json::line(&object));
    }
    let name = name.unwrap_or_default();
    output::to_stdout(&output::printable(&format!("{name} {} {}\n", image.digest(), size(image.size()))))
}

fn pull(store: &Store, arguments: &PullArguments) -> Result<u8, Failure> {
    let mut options = PullOptions::default();
    options.refresh = arguments.refresh;
    let mut line = Line::new();
    let pulled = block_on(async {
        Ok(store.pull_with(&arguments.name, &options, &mut |progress| line.show(|| progress_text(&progress))).await)
    })?;
    line.end();
    show(&pulled?, arguments.json)
}

fn import(store: &Store, arguments: &ImportArguments) -> Result<u8, Failure> {
    let mut line = Line::new();
    let name = arguments.name.as_deref();
    let imported = store.import(&arguments.source, name, &mut |progress| line.show(|| progress_text(&progress)));
    line.end();
    show(&imported?, arguments.json)
}

#[derive(Serialize)]
struct RemovedObject {
    removed: Vec<RemovedName>,
}

#[derive(Serialize)]
struct RemovedName {
    name: String,
    digest: String,
}

fn remove(store: &Store, arguments: &RemoveArguments) -> Result<u8, Failure> {
    // All or none: a name that is not there ends the command before anything is done.
    for name in &arguments.names {
        if let Err(error @ (ImageError::NotFound { .. } | ImageError::BadName { .. })) = store.find(name) {
            return Err(error.into());
        }
    }
    let mut removed = Vec::new();
    for name in &arguments.names {
        let gone = store.remove(name)?;
        removed.push(RemovedName { name: gone.name.to_string(), digest: gone.digest.to_string() });
    }
    if arguments.json {
        return output::to_stdout(&json::line(&RemovedObject { removed }));
    }
    let lines: String = removed.iter().map(|gone| format!("{} {}\n", gone.name, gone.digest)).collect();
    output::to_stdout(&output::printable(&lines))
}

#[derive(Serialize)]
struct PrunedObject {
    blobs: usize,
    rootfs: usize,
    freed: u64,
    left: u64,
}

fn prune(store: &Store, arguments: &PruneArguments) -> Result<u8, Failure> {
    let limit = match arguments.limit.as_deref().map(parse_size) {
        Some(Err(error)) => return Err(Failure::usage(&format!("--limit: {error}"))),
        Some(Ok(limit)) => Some(limit),
        None => None,
    };
    let pruned = store.prune(limit)?;
    if arguments.json {
        let (blobs, rootfs) = (pruned.blobs, pruned.rootfs);
        return output::to_stdout(&json::line(&PrunedObject { blobs, rootfs, freed: pruned.freed, left: pruned.left }));
    }
    output::to_stdout(&format!("{} freed, {} left\n", size(pruned.freed), size(pruned.left)))
}

#[derive(Serialize)]
struct ExportedObject {
    digest: String,
    file: String,
    size: u64,
}

fn export(store: &Store, arguments: &ExportArguments) -> Result<u8, Failure> {
    let format = match arguments.format {
        ArchiveFormat::Oci => ExportFormat::Oci,
        ArchiveFormat::Docker => ExportFormat::Docker,
    };
    let image = store.find(&arguments.name)?;
    if arguments.output == Path::new("-") {
        if io::stdout().is_terminal() {
            return Err(Failure::usage("an archive is not for a terminal; name a file with --output FILE"));
        }
        return match store.export(&image, format, &mut BufWriter::new(io::stdout().lock())) {
            Err(ImageError::Export(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit::READER_GONE),
            exported => exported.map(|()| exit::SUCCESS).map_err(Failure::from),
        };
    }
    let size = export_to(store, &image, format, &arguments.output)?;
    if !arguments.json {
        return Ok(exit::SUCCESS);
    }
    let file = arguments.output.display().to_string();
    output::to_stdout(&json::line(&ExportedObject { digest: image.digest().to_string(), file, size }))
}

/// Writes an archive to a file, and says how large it is.
pub(super) fn export_to(store: &Store, image: &Image, format: ExportFormat, path: &Path) -> Result<u64, Failure> {
    let unfinished = Unfinished::beside(path);
    let failed = |error| Failure::new("image", format!("cannot write {}: {error}", path.display()));
    let mut writer = BufWriter::new(File::create_new(&unfinished.0).map_err(failed)?);
    store.export(image, format, &mut writer)?;
    let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    let size = file.metadata().map_err(failed)?.len();
    std::fs::rename(&unfinished.0, path).map_err(failed)?;
    Ok(size)
}

/// A file that is only called what it should be once it is whole.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        Self(PathBuf::from(name))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing left at that name.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How far a pull or an import is, as people read it.
fn progress_text(progress: &Progress) -> String {
    let total = progress.total.map(|total| format!(" of {}", size(total))).unwrap_or_default();
    format!("{} {}: {}{total}", progress.step.as_str(), progress.what, size(progress.done))
}

/// How long ago, for people.
fn ago(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match now.saturating_sub(seconds) {
        0..=119 => "just now".to_owned(),
        passed @ 120..=7199 => format!("{} minutes ago", passed / 60),
        passed @ 7200..=172_799 => format!("{} hours ago", passed / 3600),
        passed => format!("{} days ago", passed / 86_400),
    }
}
