//! Limits in the kernel's terms: files of a cgroup, and resource limits of processes.

use hotcell_core::backend::CreateError;
use hotcell_core::policy::Limits;
use hotcell_linux::CellSpec;
use hotcell_linux::cgroup::{Controller, Layout, Version};
use rustix::process::{Resource, getrlimit};

use super::probe::Machine;

/// Below this, not even a static program can be loaded.
const LEAST_MEMORY: u64 = 1 << 20;
/// The period of the CPU bandwidth control, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// The init counts as a process of its box.
const INIT: u64 = 1;

/// Writes the limits that cgroups hold into the description of a box.
pub(super) fn cgroup(spec: &mut CellSpec, limits: &Limits, layout: &Layout) -> Result<(), CreateError> {
    if let Some(memory) = limits.memory.value
        && memory < LEAST_MEMORY
    {
        return Err(CreateError::Setup {
            step: "limiting the memory".into(),
            reason: format!("{memory} bytes are less than any program needs to start"),
            hint: "1 MiB is the least; most programs need 16 MiB or more".into(),
        });
    }
    let Some(version) = layout.kind() else { return Ok(()) };
    if let (Some(memory), Some(base)) = (limits.memory.value, layout.base_of(Controller::Memory)) {
        match version {
            Version::V1 => {
                spec.limit(base, "memory.limit_in_bytes", memory.to_string());
                if has_swap_file(layout, "memory.memsw.limit_in_bytes") {
                    spec.limit(base, "memory.memsw.limit_in_bytes", memory.to_string());
                }
            }
            Version::V2 => {
                spec.limit(base, "memory.max", memory.to_string());
                if swap_is_accounted() {
                    spec.limit(base, "memory.swap.max", "0".into());
                }
                spec.limit(base, "memory.oom.group", "1".into());
            }
        }
    }
    if let (Some(processes), Some(base)) = (limits.processes.value, layout.base_of(Controller::Pids)) {
        spec.limit(base, "pids.max", processes.saturating_add(INIT).to_string());
    }
    if let (Some(cpus), Some(base)) = (limits.cpus.value, layout.base_of(Controller::Cpu)) {
        let quota = u64::from(cpus.milli()) * CPU_PERIOD / 1000;
        match version {
            Version::V1 => {
                spec.limit(base, "cpu.cfs_period_us", CPU_PERIOD.to_string());
                spec.limit(base, "cpu.cfs_quota_us", quota.to_string());
            }
            Version::V2 => spec.limit(base, "cpu.max", format!("{quota} {CPU_PERIOD}")),
        }
    }
    Ok(())
}

fn has_swap_file(layout: &Layout, name: &str) -> bool {
    layout.path_of(Controller::Memory).is_some_and(|path| path.join(name).exists())
}

/// Version 2 has the file only in children, and only where the kernel accounts for swap: a machine without any needs no
/// limit on it.
fn swap_is_accounted() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// Limits that every kernel lets a process lower.
pub(crate) const OPEN_FILES_AND_CORES: [u32; 2] = [Resource::Nofile as u32, Resource::Core as u32];

/// Resource limits of every process in a box: which, soft, hard. None is above what the caller has itself.
pub(crate) fn resources(limits: &Limits, machine: &Machine) -> Vec<(u32, u64, u64)> {
    let mut wanted = vec![
        (Resource::Core, 0),
        (Resource::Memlock, 64 << 20),
        (Resource::Sigpending, 4096),
        (Resource::Msgqueue, 819_200),
    ];
    if let Some(files) = limits.open_files.value {
        wanted.push((Resource::Nofile, files));
    }
    let mut resources: Vec<(u32, u64, u64)> = wanted
        .into_iter()
        .map(|(resource, most)| {
            let most = at_most_own(resource, most);
            (resource as u32, most, most)
        })
        .collect();
    resources.extend(most_processes(limits, machine).map(|(resource, most)| (resource, most, most)));
    resources
}

/// The limit on processes that the user namespace counts, where it does.
pub(crate) fn most_processes(limits: &Limits, machine: &Machine) -> Option<(u32, u64)> {
    let processes = limits.processes.value.filter(|_| machine.counts_processes_by_namespace())?;
    // Behind a cgroup it is the second line, set back a little so that the cgroup, which counts refusals, is hit first.
    let reserve = if machine.cgroups.has(Controller::Pids) { 16 } else { 0 };
    let most = at_most_own(Resource::Nproc, processes.saturating_add(INIT + reserve));
    Some((Resource::Nproc as u32, most))
}

/// Nobody can raise a limit above their own.
fn at_most_own(resource: Resource, most: u64) -> u64 {
    getrlimit(resource).maximum.map_or(most, |own| own.min(most))
}
