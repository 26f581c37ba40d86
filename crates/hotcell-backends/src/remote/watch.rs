//! Watching one command: its time, its output, its end; and telling truthfully how it ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_core::backend::ProcessError;
use hotcell_core::capability::Control;
use hotcell_core::outcome::{Outcome, Status, Usage, Violation, ViolationKind};
use hotcell_core::policy::{Access, Limits};
use hotcell_core::text::PrintablePath;
use tokio::sync::{OwnedRwLockReadGuard, oneshot};

use super::inside::{self, End, Process};
use super::link::Ended;
use super::sandbox::Shared;
use crate::cell::asked::{Asked, GRACE};
use crate::cell::output::Meter;

/// How long a server may take to say how a command ended that is known to have ended.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Everything about one command that its watcher needs.
pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) process: Process,
    pub(super) meter: Arc<Meter>,
    pub(super) timeout: Option<Duration>,
    pub(super) begun: Instant,
    /// Says that something runs in the box.
    pub(super) running: OwnedRwLockReadGuard<()>,
}

/// How a command ended, as far as the server told; or why it cannot tell.
pub(super) type Told = Result<Ended, String>;

impl Watch {
    /// Waits for the end of the command, or brings it about. `killed` hears of the latter: nobody waits for a command that is gone.
    pub(super) async fn run(
        self,
        mut told: oneshot::Receiver<Told>,
        mut asked: Asked,
        killed: impl FnOnce(),
    ) -> Result<Outcome, ProcessError> {
        let shared = Arc::clone(&self.shared);
        let mut grace = Duration::ZERO;
        let mut forced = tokio::select! {
            biased;
            told = &mut told => {
                let told = told.unwrap_or_else(|_| Err("its output was lost".to_owned()));
                return match told {
                    Ok(ended) => self.outcome(status(ended, &shared.plan.policy.limits)).await,
                    // The server let go of it because its box is being removed.
                    Err(_) if shared.is_closing() => self.outcome(Status::Canceled).await,
                    Err(reason) => Err(self.lost(reason).await),
                };
            }
            () = after(self.timeout) => Status::TimedOut,
            () = self.meter.exceeded() => Status::Output,
            time = asked.stopped() => {
                // Its limit holds until the end.
                grace = self.timeout.map_or(time, |most| time.min(most.saturating_sub(self.begun.elapsed())));
                Status::Canceled
            }
            () = shared.closing() => match shared.lost() {
                Some(reason) => {
                    killed();
                    return Err(ProcessError::Lost { reason });
                }
                None => Status::Canceled,
            },
        };
        if forced == Status::TimedOut {
            grace = GRACE;
        }
        // Nothing of a box that is being removed has to be ended by itself, unless its files are wanted.
        let removed = shared.is_closing() && !shared.trees.has(Access::Write);
        if !removed {
            let end = self.end(grace, &mut asked).await;
            if end == End::Left {
                shared.give_up("a command in it could not be ended".to_owned());
            }
            // Limits hold until the end.
            if forced == Status::Canceled && self.meter.is_over() {
                forced = Status::Output;
            }
            // Who was asked to end and did has ended by itself; who took too long has not.
            if (end, forced) == (End::ByItself, Status::Canceled)
                && let Ok(Ok(Ok(ended))) = tokio::time::timeout(LAST_WORD, told).await
            {
                forced = status(ended, &shared.plan.policy.limits);
            }
        }
        killed();
        self.outcome(forced).await
    }

    /// Ends the command within this time, or at once if that is asked for, if its box is being removed, or if it writes too much.
    async fn end(&self, grace: Duration, asked: &mut Asked) -> End {
        if !grace.is_zero() {
            tokio::select! {
                end = self.end_within(grace) => return end,
                () = asked.killed() => {}
                () = self.shared.closing() => {}
                () = self.meter.exceeded() => {}
            }
        }
        self.end_within(Duration::ZERO).await
    }

    async fn end_within(&self, grace: Duration) -> End {
        for _ in 0..2 {
            if let Ok(end) = inside::end(&*self.shared.link, self.process, grace).await {
                return end;
            }
        }
        End::Left
    }

    /// The server cannot say how the command ended. It may still run, so it is ended, or else its box is.
    async fn lost(self, reason: String) -> ProcessError {
        if self.end_within(Duration::ZERO).await == End::Left {
            self.shared.give_up(reason.clone());
        }
        ProcessError::Lost { reason }
    }

    async fn outcome(self, status: Status) -> Result<Outcome, ProcessError> {
        let wall = self.begun.elapsed();
        let Self { shared, running, .. } = self;
        drop(running);
        let left_out = match shared.lost() {
            // Whoever removes the box brings its trees back, once all commands have ended.
            None if shared.is_closing() => Ok(Vec::new()),
            None => bring_back_if_quiet(&shared).await,
            // What it did is lost with its box: that is no end as any other.
            Some(reason) if shared.trees.has(Access::Write) && ended_by_itself(status) => {
                return Err(ProcessError::Lost { reason });
            }
            // Nothing can be had from a box that is being deleted, and why the command was ended stays true.
            Some(_) => Ok(Vec::new()),
        };
        let left_out = left_out.map_err(|reason| ProcessError::Failed {
            operation: "bring back the files of".to_owned(),
            reason: format!("({status}) {reason}"),
        })?;
        Ok(Outcome {
            status,
            usage: Usage { wall, ..Usage::default() },
            report: shared.report.clone(),
            violations: left_out.iter().map(|path| violation(path)).collect(),
            visibility: shared.visibility(),
        })
    }
}

/// Brings the trees back, if there are any and nothing else runs: else the last command that ends does.
async fn bring_back_if_quiet(shared: &Shared) -> Result<Vec<PathBuf>, String> {
    if !shared.trees.has(Access::Write) {
        return Ok(Vec::new());
    }
    let Ok(_quiet) = shared.quiet.try_write() else { return Ok(Vec::new()) };
    shared.bring_back().await.map_err(|error| crate::registry::with_causes(&error))
}

fn violation(path: &Path) -> Violation {
    Violation {
        control: Control::ProtectedPaths,
        kind: ViolationKind::Path,
        what: PrintablePath(path).to_string(),
        count: 1,
        vouched_by: "Hotcell, which did not bring it back".to_owned(),
    }
}

/// How a command ended. The limits that a shell sets end it by signals of their own.
fn status(ended: Ended, limits: &Limits) -> Status {
    const SIGXCPU: i32 = 24;
    const SIGXFSZ: i32 = 25;
    match ended {
        Ended::Exited(code) => Status::Exited(code),
        Ended::Signaled(Some(SIGXCPU)) if limits.cpu_time.value.is_some() => Status::CpuTime,
        Ended::Signaled(Some(SIGXFSZ)) if limits.disk.value.is_some() => Status::Disk,
        Ended::Signaled(signal) => Status::Signaled(signal.unwrap_or(0)),
    }
}

/// Whether nobody here ended it.
fn ended_by_itself(status: Status) -> bool {
    !matches!(status, Status::TimedOut | Status::Output | Status::Canceled)
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let limits = Limits::default();
        assert_eq!(status(Ended::Exited(0), &limits), Status::Exited(0));
        assert_eq!(status(Ended::Exited(143), &limits), Status::Exited(143));
        assert_eq!(status(Ended::Signaled(Some(15)), &limits), Status::Signaled(15));
        assert_eq!(status(Ended::Signaled(None), &limits), Status::Signaled(0));
        assert_eq!(status(Ended::Signaled(Some(24)), &limits), Status::CpuTime);
        assert_eq!(status(Ended::Signaled(Some(25)), &limits), Status::Disk);
        let mut unlimited = limits;
        (unlimited.cpu_time.value, unlimited.disk.value) = (None, None);
        assert_eq!(status(Ended::Signaled(Some(24)), &unlimited), Status::Signaled(24));
        assert_eq!(status(Ended::Signaled(Some(25)), &unlimited), Status::Signaled(25));
    }
}
