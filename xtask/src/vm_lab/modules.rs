//! Which module files the guest needs before it can reach the host's files, in the order in which they load.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The devices and file systems of the guest, and those that programs find by a file in /dev rather than by asking
/// the kernel. Everything else is loaded on demand, as on any Debian system.
const WANTED: &[&str] =
    &["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "tun", "fuse", "loop", "dummy"];

/// The contents of the wanted modules and of those that they need, first to load first.
pub(super) fn contents(directory: &Path) -> Result<Vec<Vec<u8>>> {
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (index, builtin) = (read("modules.dep")?, read("modules.builtin")?);
    load_order(&index, &builtin, WANTED)?.into_iter().map(|file| plain(&directory.join(file))).collect()
}

/// Looks the modules up in the index: lines `file: dependency…`, where what has to be loaded first is last.
fn load_order<'a>(index: &'a str, builtin: &str, wanted: &[&str]) -> Result<Vec<&'a str>> {
    let mut order: Vec<&str> = Vec::new();
    for module in wanted {
        let line = index.lines().filter_map(|line| line.split_once(':')).find(|(file, _)| name_of(file) == *module);
        let Some((file, dependencies)) = line else {
            if builtin.lines().any(|file| name_of(file) == *module) {
                continue;
            }
            bail!("this kernel has no module `{module}`");
        };
        for file in dependencies.split_whitespace().rev().chain([file]) {
            if !order.contains(&file) {
                order.push(file);
            }
        }
    }
    Ok(order)
}

/// `kernel/net/9p/9pnet-virtio.ko.xz` is the module `9pnet_virtio`.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

/// A module's contents, decompressed.
fn plain(file: &Path) -> Result<Vec<u8>> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => fs::read(file).with_context(|| format!("cannot read {}", file.display())),
        Some("xz") => decompress(file),
        _ => bail!("{} is compressed in a way that is not known here", file.display()),
    }
}

fn decompress(file: &Path) -> Result<Vec<u8>> {
    let output =
        Command::new("xz").args(["--decompress", "--stdout"]).arg(file).output().context("cannot start `xz`")?;
    if !output.status.success() {
        bail!("`xz` cannot decompress {}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "kernel/a/top.ko: kernel/b/middle-part.ko.xz kernel/b/base.ko\n\
                         kernel/b/middle-part.ko.xz: kernel/b/base.ko\nkernel/b/base.ko:\nkernel/c/other.ko:\n";

    #[test]
    fn dependencies_come_first_and_once() {
        let order = load_order(INDEX, "kernel/d/inside.ko\n", &["top", "inside", "middle_part"]).unwrap();
        assert_eq!(order, ["kernel/b/base.ko", "kernel/b/middle-part.ko.xz", "kernel/a/top.ko"]);
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        let error = load_order(INDEX, "", &["inside"]).unwrap_err();
        assert!(error.to_string().contains("`inside`"), "{error}");
    }
}
