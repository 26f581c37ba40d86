//! Which images can run here.

/// The operating system of images that boxes can use.
pub(crate) const OS: &str = "linux";

/// This machine's architecture, as images call it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "loongarch64" => "loong64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

/// What an image must be for, as one says it.
pub(crate) fn wanted() -> String {
    format!("{OS}/{}", architecture())
}

/// Whether an image for that platform runs here.
pub(crate) fn fits(os: &str, architecture: &str) -> bool {
    os == OS && architecture == self::architecture()
}
