//! `hotcell image build`: the reference image, into the store and into files.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_image::build::{self, BuildError, BuildOptions, Built};
use hotcell_image::{ExportFormat, ImageConfig, ImageName, Store};
use serde::Serialize;

use super::image::export_to;
use crate::arguments_image::BuildArguments;
use crate::failure::Failure;
use crate::progress::{Line, size};
use crate::{json, output};

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::new("build", error)
    }
}

#[derive(Serialize)]
struct BuiltObject {
    name: String,
    digest: String,
    /// The archive of the root file system, not compressed.
    archive: String,
    archive_sha256: String,
    archive_size: u64,
    unpacked_size: u64,
    /// Whether the archive is the one that the lock file records, where it records one.
    as_recorded: Option<bool>,
    /// Whether an earlier build was used.
    kept: bool,
    files: Vec<FileObject>,
    seconds: f64,
}

#[derive(Serialize)]
struct FileObject {
    kind: &'static str,
    file: String,
    size: u64,
}

/// Writes the files of an archive as a file system.
type Export = fn(&Path, &Path) -> Result<(), BuildError>;

/// Builds the image unless that was done before, adds it to the store, and writes the files that were asked for.
pub(super) fn execute(store: &Store, arguments: &BuildArguments) -> Result<u8, Failure> {
    // Before the work, which takes a minute.
    if let Err(error) = arguments.name.parse::<ImageName>() {
        return Err(Failure::usage(&format!("--name: `{}` cannot be a name: {error}", arguments.name)));
    }
    let started = Instant::now();
    let mut steps = Steps(Line::new());
    let made = make(arguments, &mut |step| steps.tell(step));
    let (built, kept) = made.inspect_err(|_| steps.0.end())?;
    steps.tell("adding it to the store");
    let file = File::open(&built.tar).map_err(|error| unreadable(&built.tar, &error))?;
    let image = store.add_rootfs_tar(file, config_of(&built), &arguments.name);
    let image = image.inspect_err(|_| steps.0.end())?;
    let mut files = Vec::new();
    let archives = [("oci", ExportFormat::Oci, &arguments.oci), ("docker", ExportFormat::Docker, &arguments.docker)];
    for (kind, format, path) in archives {
        let Some(path) = path else { continue };
        steps.tell(&format!("writing {}", path.display()));
        let size = export_to(store, &image, format, path).inspect_err(|_| steps.0.end())?;
        files.push(FileObject { kind, file: path.display().to_string(), size });
    }
    let exports = [
        ("ext4", build::export_ext4 as Export, &arguments.ext4),
        ("squashfs", build::export_squashfs, &arguments.squashfs),
    ];
    for (kind, export, path) in exports {
        let Some(path) = path else { continue };
        steps.tell(&format!("writing {}", path.display()));
        export(&built.tar, path).inspect_err(|_| steps.0.end())?;
        let size = fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
        files.push(FileObject { kind, file: path.display().to_string(), size });
    }
    steps.0.end();
    let object = BuiltObject {
        name: image.name().map(ToString::to_string).unwrap_or_default(),
        digest: image.digest().to_string(),
        archive: built.tar.display().to_string(),
        archive_sha256: built.sha256.clone(),
        archive_size: built.size,
        unpacked_size: built.unpacked,
        as_recorded: built.as_recorded,
        kept,
        files,
        seconds: rounded(started.elapsed()),
    };
    if built.as_recorded == Some(false) {
        output::message(
            "this is not the archive that the lock file records: another version of a tool may have made it",
        );
    }
    output::to_stdout(&if arguments.json { json::line(&object) } else { output::printable(&as_text(&object)) })
}

/// The archive, and whether it was there already.
fn make(arguments: &BuildArguments, progress: &mut dyn FnMut(&str)) -> Result<(Built, bool), BuildError> {
    let mut options = match &arguments.cache {
        Some(cache) => BuildOptions::with_cache(cache.clone()),
        None => BuildOptions::from_environment()?,
    };
    options.mirror.clone_from(&arguments.mirror);
    options.npm_registry.clone_from(&arguments.npm_registry);
    if let Some(lock) = arguments.lock.as_deref().filter(|_| arguments.update_lock) {
        return build::update(&options, lock, progress).map(|built| (built, false));
    }
    options.lock.clone_from(&arguments.lock);
    if !arguments.again {
        progress("looking for an earlier build");
        if let Some(built) = build::find_built(&options)? {
            return Ok((built, true));
        }
    }
    build::build(&options, progress).map(|built| (built, false))
}

fn config_of(built: &Built) -> ImageConfig {
    let config = &built.config;
    ImageConfig {
        env: config.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        working_dir: config.working_dir.clone(),
        user: config.user.clone(),
        entrypoint: Vec::new(),
        cmd: config.cmd.clone(),
        architecture: config.architecture.clone(),
    }
}

fn as_text(built: &BuiltObject) -> String {
    let how = if built.kept { "kept from an earlier build" } else { "built" };
    let mut text = format!(
        "{} {}\n{} unpacked, archive {} ({})\n",
        built.name,
        built.digest,
        size(built.unpacked_size),
        size(built.archive_size),
        built.archive,
    );
    for file in &built.files {
        text.push_str(&format!("{} {} ({})\n", file.kind, size(file.size), file.file));
    }
    text + &format!("{how}, {:.1} s\n", built.seconds)
}

/// Steps of the build: on a terminal one line, elsewhere a line each.
struct Steps(Line);

impl Steps {
    fn tell(&mut self, step: &str) {
        if self.0.is_possible() {
            self.0.replace(step);
        } else {
            output::message(step);
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new("build", format!("cannot read {}: {error}", path.display()))
}

/// In seconds, to the millisecond.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
