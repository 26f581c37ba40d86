//! The command line of `hotcell image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

const IMAGE_EXAMPLES: &str = "\
Examples:
  hotcell image build                                  the image of containers that name none: hotcell/code
  hotcell image import rootfs.tar.gz --name mine       a root file system, an OCI archive, a layout, or `docker save`
  hotcell image pull debian:12                         from its registry, unless it is here already
  hotcell image export mine --format docker -o - | docker load
  hotcell image prune --limit 10g                      remove what nothing names or uses, oldest first

Images are kept in HOTCELL_IMAGE_STORE, else for root in /var/cache/hotcell/images, else in ~/.cache/hotcell/images.

Exit status: 0 if it was done; 125 if not, and nothing changed.";

const BUILD_EXAMPLES: &str = "\
Examples:
  hotcell image build
  hotcell image build --oci code.tar --ext4 code.ext4  also for other tools, and for microVMs
  hotcell image build --lock code.lock --update-lock   with the newest packages, and a lock file that gives them again

Exit status: 0 if the image is in the store and every file was written; 125 if not.";

#[derive(Debug, Args)]
#[command(after_help = IMAGE_EXAMPLES)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    pub(crate) command: ImageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Show the images that are here
    List(ListArguments),
    /// Get an image from its registry, unless it is here already
    ///
    /// Everything that comes is checked against its digest. Logins are those of `docker login` that are in its
    /// config.json itself; programs that keep passwords are not asked.
    #[command(verbatim_doc_comment)]
    Pull(PullArguments),
    /// Take an image in from a file or directory
    ///
    /// An OCI layout, a tar of one, what `docker save` writes, a directory that is a root file system, or a tar of
    /// one; tars may be compressed with gzip or zstd. No network is used.
    #[command(verbatim_doc_comment)]
    Import(ImportArguments),
    /// Take the names of images away; `prune` then frees the space
    Rm(RemoveArguments),
    /// Remove what no name stands for and no box uses
    Prune(PruneArguments),
    /// Write an image as an archive that other tools read
    Export(ExportArguments),
    /// Build hotcell/code, the image of containers that name none
    ///
    /// Python, Node.js, git and common tools, made from Debian's packages. A lock file has the version and hash of each, so
    /// every build gives the same digest. It needs mmdebstrap, no root, no registry, and about a minute; a build that
    /// was kept is used again.
    #[command(after_help = BUILD_EXAMPLES, verbatim_doc_comment)]
    Build(BuildArguments),
}

impl ImageCommand {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::List(arguments) => arguments.json,
            Self::Pull(arguments) => arguments.json,
            Self::Import(arguments) => arguments.json,
            Self::Rm(arguments) => arguments.json,
            Self::Prune(arguments) => arguments.json,
            Self::Export(arguments) => arguments.json,
            Self::Build(arguments) => arguments.json,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PullArguments {
    /// The image: [registry/]path[:tag][@sha256:…]
    pub(crate) name: String,

    /// Ask the registry even if the image is here: a tag may stand for another by now
    #[arg(long)]
    pub(crate) refresh: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file or directory
    pub(crate) source: PathBuf,

    /// What to call it [default: what the archive says]; where several are in it, also which one
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    /// The images, by name, or by digest if they have only one name
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    /// Stop when the store has at most this, for example 10g; unpacked images go too if they must [default: 0, but
    /// nothing of an image that has a name]
    #[arg(long, value_name = "SIZE")]
    pub(crate) limit: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The image
    pub(crate) name: String,

    /// The file, or - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// What kind of archive
    #[arg(long, value_enum, default_value_t = ArchiveFormat::Oci)]
    pub(crate) format: ArchiveFormat,

    /// Print one JSON object, unless the archive goes to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// What to call it
    #[arg(long, default_value = "hotcell/code:latest")]
    pub(crate) name: String,

    /// Build again, even if an earlier build was kept
    #[arg(long)]
    pub(crate) again: bool,

    /// The lock file to build from [default: the one that this program was made with]
    #[arg(long, value_name = "FILE", help_heading = "Packages")]
    pub(crate) lock: Option<PathBuf>,

    /// Choose the newest packages, and write the lock file anew
    #[arg(long, requires = "lock", help_heading = "Packages")]
    pub(crate) update_lock: bool,

    /// The mirror of Debian [default: that of this machine's apt, or Debian's own]
    #[arg(long, value_name = "URL", help_heading = "Packages")]
    pub(crate) mirror: Option<String>,

    /// The registry that npm itself comes from [default: npm's own]
    #[arg(long, value_name = "URL", help_heading = "Packages")]
    pub(crate) npm_registry: Option<String>,

    /// Where downloads and builds are kept [default: ~/.cache/hotcell/image-build]
    #[arg(long, value_name = "DIR", help_heading = "Packages")]
    pub(crate) cache: Option<PathBuf>,

    /// Also write an OCI archive
    #[arg(long, value_name = "FILE", help_heading = "Files to write")]
    pub(crate) oci: Option<PathBuf>,

    /// Also write an archive for `docker load` and `podman load`
    #[arg(long, value_name = "FILE", help_heading = "Files to write")]
    pub(crate) docker: Option<PathBuf>,

    /// Also write an ext4 file system
    #[arg(long, value_name = "FILE", help_heading = "Files to write")]
    pub(crate) ext4: Option<PathBuf>,

    /// Also write a squashfs
    #[arg(long, value_name = "FILE", help_heading = "Files to write")]
    pub(crate) squashfs: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ArchiveFormat {
    /// A tar of an OCI image layout; the image keeps its digest
    Oci,
    /// What `docker load` and `podman load` read
    Docker,
}
