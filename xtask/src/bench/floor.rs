//! The kernel's floor: a bare clone with a box's namespaces and mounts, and exec. See `floor.c`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::anatomy::{Anatomy, Mounted};
use super::latency::Variant;

const SOURCE: &str = include_str!("floor.c");

/// The attribute of a mount that is read-only.
const READ_ONLY: u64 = 1;

/// The resident program that runs one bare box per request.
#[derive(Debug)]
pub(super) struct Floor {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Floor {
    /// Compiles the program into `scratch` and starts it.
    pub(super) fn start(scratch: &Path, anatomy: &Anatomy, program: &Path) -> Result<Self> {
        let binary = compile(scratch)?;
        let mut child = Command::new(&binary)
            .arg(program)
            .args(arguments(anatomy)?)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the floor has no standard output")?);
        Ok(Self { child, requests, answers })
    }
}

impl Variant for Floor {
    fn once(&mut self) -> Result<Duration> {
        let requests = self.requests.as_mut().context("the floor has no standard input")?;
        requests.write_all(b"\n").context("the floor has ended")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end().strip_prefix("ok ") {
            // Measured over there: our own conversation with it is no part of the floor.
            Some(nanoseconds) => Ok(Duration::from_nanos(nanoseconds.parse()?)),
            None => bail!("the bare box {}", answer.trim_end()),
        }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

fn compile(scratch: &Path) -> Result<PathBuf> {
    let source = scratch.join("floor.c");
    let binary = scratch.join("floor");
    fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
    let mut trouble = String::new();
    // Without a dynamic linker there is less to copy, as in Hotcell's own helper; not every system has a static libc.
    for linking in [&["-static"][..], &[]] {
        let mut command = Command::new("cc");
        command.arg("-O2").args(linking).arg("-o").arg(&binary).arg(&source);
        let output = command.output().context("cannot start a C compiler, `cc`")?;
        if output.status.success() {
            return Ok(binary);
        }
        trouble = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    bail!("cannot compile the floor: {}", trouble.trim())
}

/// What the program is told about the box: namespaces, users, and the steps that make its view.
fn arguments(anatomy: &Anatomy) -> Result<Vec<String>> {
    let mut words = vec![
        anatomy.namespaces.to_string(),
        anatomy.uid_map.clone(),
        anatomy.gid_map.clone(),
        inside(&anatomy.uid_map)?.to_owned(),
        inside(&anatomy.gid_map)?.to_owned(),
    ];
    for step in steps(anatomy)? {
        words.push(step.kind.to_string());
        words.push(step.attributes.to_string());
        words.extend([step.from, step.to]);
    }
    Ok(words)
}

/// The number inside of the one user that a map maps.
fn inside(map: &str) -> Result<&str> {
    map.split_whitespace().next().with_context(|| format!("cannot understand the box's user map `{}`", map.trim()))
}

#[derive(Debug, PartialEq, Eq)]
struct Step {
    kind: char,
    attributes: u64,
    from: String,
    to: String,
}

/// Collects steps; makes every place once.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    made: BTreeSet<PathBuf>,
}

impl Steps {
    fn push(&mut self, kind: char, attributes: u64, from: &Path, to: &Path) -> Result<()> {
        let text = |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{path:?} is not UTF-8"));
        self.steps.push(Step { kind, attributes, from: text(from)?, to: text(to)? });
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() || self.made.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.made.insert(path.to_owned());
        self.push('d', 0, Path::new(""), path)
    }

    /// A place to mount on, of the same kind as the path that it has on the host; what only a box has is a directory.
    fn place(&mut self, path: &Path, like: &Path) -> Result<()> {
        if !fs::metadata(like).is_ok_and(|metadata| !metadata.is_dir()) {
            return self.directory(path);
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        if self.made.insert(path.to_owned()) {
            self.push('f', 0, Path::new(""), path)?;
        }
        Ok(())
    }
}

fn steps(anatomy: &Anatomy) -> Result<Vec<Step>> {
    let mut steps = Steps::default();
    let root = anatomy.mounts.iter().find(|mount| mount.what == Mounted::Root).context("the box has no root mount")?;
    steps.push('r', root.attributes & !READ_ONLY, Path::new(""), Path::new("/"))?;
    for (link, target) in &anatomy.links {
        steps.push('l', 0, target, relative(link))?;
    }
    // Places first: a mount may make what is beneath it read-only. What is in another file system is there already.
    let mut elsewhere = Vec::new();
    for mount in &anatomy.mounts {
        if !elsewhere.iter().any(|above| mount.place.starts_with(above)) {
            steps.place(relative(&mount.place), &mount.place)?;
        }
        match &mount.what {
            Mounted::Private(from) => steps.place(relative(from), &mount.place)?,
            Mounted::Fresh(_) | Mounted::Host => elsewhere.push(mount.place.as_path()),
            Mounted::Root => {}
        }
    }
    for mount in &anatomy.mounts {
        let (place, attributes) = (relative(&mount.place), mount.attributes);
        match &mount.what {
            Mounted::Root => {}
            Mounted::Fresh(kind) => steps.push('m', attributes, Path::new(kind), place)?,
            Mounted::Private(from) => steps.push('b', attributes, relative(from), place)?,
            Mounted::Host => steps.push('b', attributes, &mount.place, place)?,
        }
    }
    if root.attributes & READ_ONLY != 0 {
        steps.push('s', READ_ONLY, Path::new(""), Path::new("."))?;
    }
    Ok(steps.steps)
}

/// Beneath the new root, which is the working directory.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::super::anatomy::Mount;
    use super::*;

    #[test]
    fn a_box_is_rebuilt_in_order() {
        let mount = |place: &str, attributes, what| Mount { place: place.into(), attributes, what };
        let anatomy = Anatomy {
            mounts: vec![
                mount("/", 7, Mounted::Root),
                mount("/proc", 15, Mounted::Fresh("proc".into())),
                mount("/home/hotcell", 6, Mounted::Private("/home/hotcell".into())),
                mount("/dev/null", 10, Mounted::Host),
                mount("/proc/self", 15, Mounted::Private("/.hotcell/empty".into())),
            ],
            links: vec![("/lib".into(), "usr/lib".into())],
            namespaces: 0,
            uid_map: "1000 5 1\n".into(),
            gid_map: "1000 5 1\n".into(),
        };
        let seen: Vec<String> = steps(&anatomy)
            .unwrap()
            .iter()
            .map(|step| format!("{} {} {}>{}", step.kind, step.attributes, step.from, step.to))
            .collect();
        assert_eq!(
            seen,
            [
                "r 6 >/",
                "l 0 usr/lib>lib",
                "d 0 >proc",
                "d 0 >home",
                "d 0 >home/hotcell",
                "d 0 >dev",
                "f 0 >dev/null",
                "d 0 >.hotcell",
                "d 0 >.hotcell/empty",
                "m 15 proc>proc",
                "b 6 home/hotcell>home/hotcell",
                "b 10 /dev/null>dev/null",
                "b 15 .hotcell/empty>proc/self",
                "s 1 >.",
            ]
        );
    }
}
