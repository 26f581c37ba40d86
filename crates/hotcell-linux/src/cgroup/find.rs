//! Looking for usable cgroups.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::{Base, Controller, Group, Layout, Version};

/// A line of `/proc/self/mountinfo` that is about cgroups.
struct Mount {
    /// Where in the hierarchy the mount begins.
    root: PathBuf,
    point: PathBuf,
    version: Version,
    /// Of version 1: its controllers.
    options: Vec<String>,
}

pub(super) fn detect() -> Layout {
    let (mounts, own) = match (fs::read_to_string("/proc/self/mountinfo"), fs::read_to_string("/proc/self/cgroup")) {
        (Ok(mounts), Ok(own)) => (parse_mounts(&mounts), own),
        _ => return Layout::none("/proc is not readable, so cgroups cannot be found"),
    };
    let mut problems = Vec::new();
    match find_v2(&mounts, &own) {
        Ok(base) if base.controllers.contains(&Controller::Memory) || base.controllers.contains(&Controller::Pids) => {
            return Layout { version: Some(Version::V2), bases: vec![base], problems, advice: None };
        }
        Ok(_) => {
            problems.push((None, "the cgroup v2 hierarchy here has neither the memory nor the pids controller".into()))
        }
        Err(problem) => problems.push((None, problem)),
    }
    let bases = find_v1(&mounts, &own, &mut problems);
    let version = (!bases.is_empty()).then_some(Version::V1);
    Layout { version, bases, problems, advice: Some(advice(&mounts)) }
}

/// The cgroups of a process of somebody else, for reading.
pub(super) fn of_process(pid: u32) -> io::Result<Option<Group>> {
    let mounts = parse_mounts(&fs::read_to_string("/proc/self/mountinfo")?);
    let places = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let v2 = mounts.iter().find(|mount| mount.version == Version::V2);
    if let Some(directory) = v2.and_then(|mount| own_directory(mount, path_in_v2(&places)?)) {
        let enabled = fs::read_to_string(directory.join("cgroup.controllers"))?;
        let controllers = named_controllers(&enabled);
        if controllers.contains(&Controller::Memory) || controllers.contains(&Controller::Pids) {
            let mut group = Group::new(Version::V2);
            group.add(File::open(directory)?.into(), &controllers);
            return Ok(Some(group));
        }
    }
    let mut found: Vec<(PathBuf, Vec<Controller>)> = Vec::new();
    for controller in Controller::ALL {
        let Some(directory) = directory_in_v1(&mounts, &places, controller) else { continue };
        match found.iter_mut().find(|(path, _)| *path == directory) {
            Some((_, controllers)) => controllers.push(controller),
            None => found.push((directory, vec![controller])),
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let mut group = Group::new(Version::V1);
    for (path, controllers) in found {
        group.add(File::open(path)?.into(), &controllers);
    }
    Ok(Some(group))
}

fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_mount).collect()
}

/// `36 35 98:0 /root /point options - type source super-options`
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup2" => Version::V2,
        "cgroup" => Version::V1,
        _ => return None,
    };
    let options = after.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
    Some(Mount { root: root.into(), point: point.into(), version, options })
}

/// This process's path in a hierarchy, below the mount point that shows it.
fn own_directory(mount: &Mount, path: &str) -> Option<PathBuf> {
    let below = Path::new(path).strip_prefix(&mount.root).ok()?;
    Some(mount.point.join(below))
}

fn path_in_v2(places: &str) -> Option<&str> {
    places.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Where a process is in the hierarchy of version 1 that has a controller.
fn directory_in_v1(mounts: &[Mount], places: &str, controller: Controller) -> Option<PathBuf> {
    let name = controller.v1_name();
    let shows = |mount: &&Mount| mount.version == Version::V1 && mount.options.iter().any(|option| option == name);
    let mount = mounts.iter().find(shows)?;
    let path = places.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|controller| controller == name).then_some(path)
    });
    own_directory(mount, path?)
}

fn find_v2(mounts: &[Mount], own: &str) -> Result<Base, String> {
    let mount = mounts.iter().find(|mount| mount.version == Version::V2).ok_or("cgroup v2 is not mounted")?;
    let path = path_in_v2(own).ok_or("this process has no cgroup v2")?;
    let mine = own_directory(mount, path).ok_or("this process's cgroup is outside the mounted hierarchy")?;
    // A cgroup that holds processes cannot hand controllers to children (but for the root): then its parent may.
    let mut best: Option<Base> = None;
    let mut problem = String::from("no cgroup v2 can be made here");
    for candidate in mine.ancestors().take_while(|path| path.starts_with(&mount.point)).take(3) {
        // Asking is free: where it is not ours to enable, the next look tells.
        let available = fs::read_to_string(candidate.join("cgroup.controllers")).unwrap_or_default();
        for name in available.split_whitespace().filter(|name| ["memory", "pids", "cpu"].contains(name)) {
            let _ = fs::write(candidate.join("cgroup.subtree_control"), format!("+{name}"));
        }
        match try_base(candidate, enabled_v2(candidate)) {
            Ok(base) => {
                if best.as_ref().is_none_or(|best| best.controllers.len() < base.controllers.len()) {
                    best = Some(base);
                }
            }
            Err(error) => {
                problem = format!("no cgroup can be made in {}: {}", candidate.display(), reason(&error));
            }
        }
    }
    best.ok_or(problem)
}

fn find_v1(mounts: &[Mount], own: &str, problems: &mut Vec<(Option<Controller>, String)>) -> Vec<Base> {
    let mut bases: Vec<Base> = Vec::new();
    for controller in Controller::ALL {
        let Some(mine) = directory_in_v1(mounts, own, controller) else { continue };
        // Controllers that share a hierarchy share a base.
        if let Some(base) = bases.iter_mut().find(|base| base.path == mine) {
            base.controllers.push(controller);
            continue;
        }
        match try_base(&mine, vec![controller]) {
            Ok(base) => bases.push(base),
            Err(error) => {
                let problem = format!("no cgroup can be made in {}: {}", mine.display(), reason(&error));
                problems.push((Some(controller), problem));
            }
        }
    }
    bases
}

/// What the kernel said, without the number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// The command that gives this process a cgroup of its own, run in the shell from which Hotcell is started.
fn advice(mounts: &[Mount]) -> String {
    let v1: Vec<String> = mounts
        .iter()
        .filter(|mount| mount.version == Version::V1)
        .filter(|mount| {
            Controller::ALL.iter().any(|controller| mount.options.iter().any(|option| option == controller.v1_name()))
        })
        .map(|mount| mount.point.display().to_string())
        .collect();
    if v1.is_empty() {
        return "`systemd-run --user --scope -p Delegate=yes $SHELL` starts a shell with a cgroup of its own".into();
    }
    format!(
        "`sudo sh -c 'for c in {}; do mkdir -p $c/hotcell-user && chown -R '$(id -u)' $c/hotcell-user && echo '$$' > $c/hotcell-user/cgroup.procs; done'` gives this shell a cgroup of its own",
        v1.join(" ")
    )
}

/// A base, if this process may make cgroups there. Whether one really can be made, the spawner's first trial tells.
fn try_base(path: &Path, controllers: Vec<Controller>) -> io::Result<Base> {
    let directory = File::open(path)?;
    let writable = c".";
    // SAFETY: a NUL-terminated path beneath a descriptor that we own.
    let allowed =
        unsafe { libc::faccessat(directory.as_raw_fd(), writable.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) };
    if allowed < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Base { path: path.to_owned(), directory: directory.into(), controllers })
}

/// The controllers that children of a v2 cgroup have.
fn enabled_v2(path: &Path) -> Vec<Controller> {
    named_controllers(&fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default())
}

/// The controllers in a list of version 2.
fn named_controllers(enabled: &str) -> Vec<Controller> {
    let has = |name: &str| enabled.split_whitespace().any(|word| word == name);
    Controller::ALL
        .into_iter()
        .filter(|controller| match controller {
            Controller::Memory => has("memory"),
            Controller::Pids => has("pids"),
            Controller::Cpu => has("cpu"),
            // Every cgroup accounts for CPU time, whatever is enabled.
            Controller::CpuTime => true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 24 0:27 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 24 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
34 24 0:30 / /proc rw - proc proc rw";

    #[test]
    fn mounts_are_read_with_their_versions_and_controllers() {
        let mounts = parse_mounts(HYBRID);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].version, Version::V1);
        assert!(mounts[1].options.contains(&"cpuacct".to_owned()));
        assert_eq!(mounts[2].version, Version::V2);
        assert_eq!(mounts[2].point, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn the_own_directory_is_below_the_mount_and_never_outside_it() {
        let mount =
            Mount { root: "/docker/abc".into(), point: "/sys/fs/cgroup".into(), version: Version::V2, options: vec![] };
        assert_eq!(own_directory(&mount, "/docker/abc/x"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(own_directory(&mount, "/elsewhere"), None);
    }

    #[test]
    fn the_cgroup_of_a_process_is_read_and_one_that_is_gone_is_an_error() {
        let own = of_process(std::process::id()).unwrap();
        // Where there are cgroups, what this process used by now is not nothing.
        assert!(own.is_none_or(|group| group.cpu().is_some_and(|used| !used.is_zero())));
        assert!(of_process(u32::MAX).is_err());
    }

    #[test]
    fn a_process_is_found_in_its_hierarchies_of_version_1() {
        let mounts = parse_mounts(HYBRID);
        let places = "12:memory:/docker/abc\n3:cpu,cpuacct:/x\n0::/elsewhere\n";
        let directory = |controller| directory_in_v1(&mounts, places, controller);
        assert_eq!(directory(Controller::Memory), Some("/sys/fs/cgroup/memory/docker/abc".into()));
        assert_eq!(directory(Controller::CpuTime), Some("/sys/fs/cgroup/cpu,cpuacct/x".into()));
        assert_eq!(directory(Controller::Pids), None);
    }

    #[test]
    fn detection_says_what_it_found_or_why_not() {
        let layout = Layout::detect();
        assert!(layout.kind().is_some() || layout.problems().next().is_some());
    }
}
