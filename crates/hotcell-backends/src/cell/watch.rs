//! Watching one command: its time, its output, its memory, its end; and telling truthfully how it ended.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_core::backend::ProcessError;
use hotcell_core::capability::{Capability, Control};
use hotcell_core::outcome::{Outcome, Status, Usage, Violation, ViolationKind};
use hotcell_linux::cgroup;
use hotcell_linux::{Ended, Running, Storage, probe};
use tokio::time::Sleep;

use super::asked::{Asked, GRACE};
use super::output::Meter;
use super::sandbox::Shared;

/// How often a box is looked at to see whether something is left of a command.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How long a killed command may take before its whole box is killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a box without cgroups is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// A shorter wait than this only costs time of our own.
const LEAST_WAIT: Duration = Duration::from_millis(2);
/// Please end.
const SIGTERM: i32 = 15;
/// A disk with less room than this is full for any program that writes in blocks.
const FULL: u64 = 64 * 1024;

/// Everything about one command that its watcher needs.
pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) meter: Arc<Meter>,
    pub(super) timeout: Option<Duration>,
    /// What the box had used when the command was started.
    pub(super) before: Counters,
}

impl Watch {
    /// Waits for the end of the command, or brings it about.
    pub(super) async fn run(self, mut running: Running, mut asked: Asked) -> Result<Outcome, ProcessError> {
        let started = Instant::now();
        let before = self.before;
        let mut limit = pin!(self.limit(before));
        let (forced, grace) = tokio::select! {
            biased;
            ended = running.wait() => return self.outcome(started, before, ended.ok(), None).await,
            status = &mut limit => (status, if status == Status::TimedOut { GRACE } else { Duration::ZERO }),
            grace = asked.stopped() => (Status::Canceled, grace),
        };
        if grace.is_zero() {
            let ended = self.kill(&mut running).await;
            return self.outcome(started, before, ended, Some(forced)).await;
        }
        // Limits hold until the end; one that was reached is not waited for again.
        let mut limit = pin!(async {
            match forced {
                Status::Canceled => limit.await,
                _ => std::future::pending().await,
            }
        });
        let mut over = pin!(tokio::time::sleep(grace));
        let _ = running.signaler().signal(SIGTERM).await;
        let forced = tokio::select! {
            biased;
            ended = running.wait() => {
                let reached = self.kill_rest(&running, limit, over, asked).await;
                // Who was asked to end and did has ended by itself; who took too long has not.
                let forced = reached.or((forced != Status::Canceled).then_some(forced));
                return self.outcome(started, before, ended.ok(), forced).await;
            }
            status = &mut limit => status,
            () = asked.killed() => forced,
            () = &mut over => forced,
        };
        let ended = self.kill(&mut running).await;
        self.outcome(started, before, ended, Some(forced)).await
    }

    /// Returns when the command has reached a limit that is not the kernel's to hold.
    async fn limit(&self, before: Counters) -> Status {
        tokio::select! {
            biased;
            () = after(self.timeout) => Status::TimedOut,
            () = self.meter.exceeded() => Status::Output,
            () = self.cpu_time_used(before) => Status::CpuTime,
            status = self.sampled_limit(before) => status,
        }
    }

    /// Kills the command and all that it started.
    async fn kill(&self, running: &mut Running) -> Option<Ended> {
        let _ = running.signaler().kill_tree().await;
        match tokio::time::timeout(PATIENCE, running.wait()).await {
            Ok(result) => result.ok(),
            Err(_) => {
                self.shared.cell.kill();
                None
            }
        }
    }

    /// Kills what an ended command has left behind: what shuts down behind its shell, within the time that was given to both, and daemons.
    /// Returns the limit that was reached meanwhile.
    async fn kill_rest(
        &self,
        running: &Running,
        limit: Pin<&mut impl Future<Output = Status>>,
        over: Pin<&mut Sleep>,
        mut asked: Asked,
    ) -> Option<Status> {
        // Whether something is left of it can be seen only where nothing else runs: elsewhere all of the time passes.
        let quiet = async {
            while self.shared.cell.sample().await.is_ok_and(|sample| sample.tasks > 0) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        let reached = tokio::select! {
            () = quiet => None,
            status = limit => Some(status),
            () = asked.killed() => None,
            () = over => None,
        };
        let _ = running.signaler().kill_tree().await;
        // The init does one thing after the other: when it answers this, they are gone.
        let _ = tokio::time::timeout(PATIENCE, self.shared.cell.sample()).await;
        reached
    }

    /// Returns when everything in the box together has used the CPU time that the command may use.
    ///
    /// It cannot be used up faster than all CPUs together, so the next look is never later than that.
    async fn cpu_time_used(&self, before: Counters) {
        let limit = self.shared.plan.policy.limits.cpu_time.value;
        let (Some(limit), Some(group)) = (limit, self.shared.cell.cgroup()) else {
            return std::future::pending().await;
        };
        let cpus = probe::cpu_count();
        while let Some(used) = group.cpu() {
            let rest = limit.saturating_sub(used.saturating_sub(before.cpu));
            if rest.is_zero() {
                return;
            }
            tokio::time::sleep((rest / cpus).max(LEAST_WAIT)).await;
        }
        std::future::pending().await
    }

    /// Where limits can only be approximated: looks at the box's processes from time to time.
    async fn sampled_limit(&self, before: Counters) -> Status {
        let approximated = |control| matches!(self.shared.plan.actual(control), Some(Capability::Approximated { .. }));
        let limits = &self.shared.plan.policy.limits;
        let memory = limits.memory.value.filter(|_| approximated(Control::Memory));
        let cpu_time = limits.cpu_time.value.filter(|_| approximated(Control::CpuTime));
        let processes = limits.processes.value.filter(|_| approximated(Control::ProcessCount));
        if memory.is_none() && cpu_time.is_none() && processes.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            let sample = match tokio::time::timeout(PATIENCE, self.shared.cell.sample()).await {
                Ok(Ok(sample)) => sample,
                // It is ending.
                Ok(Err(_)) => return std::future::pending().await,
                // Where the code in the box can stop the init, nobody would look any more.
                Err(_) => {
                    self.shared.cell.kill();
                    return std::future::pending().await;
                }
            };
            let stored = self.shared.cell.storage().ok().flatten().map_or(0, |storage| storage.used);
            if memory.is_some_and(|most| sample.memory_kib * 1024 + stored > most) {
                return Status::OutOfMemory;
            }
            if processes.is_some_and(|most| sample.tasks > most) {
                return Status::Processes;
            }
            let used = Duration::from_millis(sample.ticks * 1000 / probe::ticks_per_second());
            if cpu_time.is_some_and(|most| used.saturating_sub(before.cpu) >= most) {
                return Status::CpuTime;
            }
        }
    }

    async fn outcome(
        &self,
        started: Instant,
        before: Counters,
        ended: Option<Ended>,
        forced: Option<Status>,
    ) -> Result<Outcome, ProcessError> {
        let wall = started.elapsed();
        let used = self.shared.cell.cgroup().map(cgroup::Group::usage).unwrap_or_default();
        let storage = self.shared.cell.storage().ok().flatten();
        let after = Counters::from(used);
        let status = match (forced, ended) {
            (Some(status), _) => status,
            (None, Some(ended)) => self.status(ended, before, after, storage).await,
            // The init is gone. If the kernel killed it, it was for want of memory.
            (None, None) if after.memory_kills > before.memory_kills => Status::OutOfMemory,
            (None, None) => {
                let reason = self.shared.cell.broken().unwrap_or_else(|| "its init ended".into());
                return Err(ProcessError::Lost { reason });
            }
        };
        let cpu = |of_group: Option<Duration>, of_process: Option<Duration>, so_far: Duration| {
            of_group.map(|time| time.saturating_sub(so_far)).or(of_process)
        };
        Ok(Outcome {
            status,
            usage: Usage {
                wall,
                cpu_user: cpu(used.cpu_user, ended.map(|ended| ended.user), before.cpu_user),
                cpu_system: cpu(used.cpu_system, ended.map(|ended| ended.system), before.cpu_system),
                peak_memory: used.peak_memory.or(ended.map(|ended| ended.max_resident_kib * 1024)),
                processes: used.peak_processes,
                bytes_written: storage.map(|storage| storage.used),
            },
            report: self.shared.report.clone(),
            violations: self.violations(before, after),
            visibility: self.shared.visibility(),
        })
    }

    /// How a command that ended by itself ended: a limit is named only where the kernel says that it was hit, and only
    /// if the command did not succeed all the same.
    async fn status(&self, ended: Ended, before: Counters, after: Counters, storage: Option<Storage>) -> Status {
        let plain = match (ended.code, ended.signal) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => Status::Signaled(signal.unwrap_or(0)),
        };
        if plain.success() {
            return plain;
        }
        if after.memory_kills > before.memory_kills {
            return Status::OutOfMemory;
        }
        if after.process_refusals > before.process_refusals || self.is_full_of_processes().await {
            return Status::Processes;
        }
        // A small disk is not a full one.
        let full = self.shared.plan.policy.limits.disk.value.map(|most| FULL.min(most / 16));
        let is_full = |(full, storage): (u64, Storage)| storage.free < full || storage.free_files == 0;
        if full.zip(storage).is_some_and(is_full) {
            return Status::Disk;
        }
        plain
    }

    /// Without a cgroup that counts refusals: whether as many processes as there may be are left in the box, if the
    /// command that has just ended is counted too.
    async fn is_full_of_processes(&self) -> bool {
        let has_counter = self.shared.cell.cgroup().is_some();
        let (false, Some(most)) = (has_counter, self.shared.plan.policy.limits.processes.value) else { return false };
        self.shared.cell.sample().await.is_ok_and(|sample| sample.tasks + 1 >= most)
    }

    fn violations(&self, before: Counters, after: Counters) -> Vec<Violation> {
        let mut violations = self.shared.refused_calls();
        let hits = [
            (
                Control::Memory,
                "processes killed for want of memory",
                after.memory_kills.saturating_sub(before.memory_kills),
            ),
            (
                Control::ProcessCount,
                "processes that could not be started",
                after.process_refusals.saturating_sub(before.process_refusals),
            ),
        ];
        for (control, what, count) in hits.into_iter().filter(|(_, _, count)| *count > 0) {
            violations.push(Violation {
                control,
                kind: ViolationKind::Limit,
                what: what.to_owned(),
                count,
                vouched_by: "the event counters of the box's cgroup".to_owned(),
            });
        }
        violations
    }
}

/// Counters of a box that only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    cpu: Duration,
    cpu_user: Duration,
    cpu_system: Duration,
    memory_kills: u64,
    process_refusals: u64,
}

impl From<cgroup::Usage> for Counters {
    fn from(usage: cgroup::Usage) -> Self {
        Self {
            cpu: usage.cpu.unwrap_or_default(),
            cpu_user: usage.cpu_user.unwrap_or_default(),
            cpu_system: usage.cpu_system.unwrap_or_default(),
            memory_kills: usage.memory_kills,
            process_refusals: usage.process_refusals,
        }
    }
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
