//! How far a call is, and how it ended.

use std::time::Duration;

use hotcell_core::outcome::Status;
use tokio::time::Instant;

use super::code::{CodeStatus, Exception};

/// How long code has to obey an interrupt before its process is killed.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long the rest of a call that has ended, or of a process that was killed, may take to arrive.
pub(super) const REST: Duration = Duration::from_secs(10);

/// How a call ended.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) status: CodeStatus,
    pub(super) exception: Option<Exception>,
    pub(super) hint: Option<String>,
    /// Whether the code asked for its own end.
    pub(super) exited: bool,
    /// How the process ended, if it has: then the kernel is of no more use.
    pub(super) process: Option<Status>,
    pub(super) is_lost: bool,
}

/// Why a call is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Time,
    Interrupt,
}

impl Why {
    pub(super) fn status(self) -> CodeStatus {
        match self {
            Self::Time => CodeStatus::TimedOut,
            Self::Interrupt => CodeStatus::Interrupted,
        }
    }
}

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The kernel has not begun.
    Asked,
    Running,
    /// It was told to stop.
    Ending,
    /// It says that it is over; what it wrote has not all come.
    Rest,
}

/// How far a call is.
pub(super) struct Progress {
    pub(super) id: u64,
    pub(super) phase: Phase,
    has_begun: bool,
    /// Whether it began only when it had been told to stop.
    began_late: bool,
    /// The moment that is waited for.
    pub(super) until: Option<Instant>,
    deadline: Option<Instant>,
    pub(super) why: Option<Why>,
    pub(super) call: Option<Call>,
    pub(super) stderr_ended: bool,
}

impl Progress {
    pub(super) fn new(id: u64, begin_by: Instant, deadline: Option<Instant>) -> Self {
        let until = Some(deadline.map_or(begin_by, |deadline| deadline.min(begin_by)));
        Self {
            id,
            phase: Phase::Asked,
            has_begun: false,
            began_late: false,
            until,
            deadline,
            why: None,
            call: None,
            stderr_ended: false,
        }
    }

    /// Whether the time of the call is over.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    pub(super) fn begin(&mut self) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match self.phase {
            Phase::Asked => {
                self.phase = Phase::Running;
                self.until = self.deadline;
            }
            Phase::Ending if is_first => {
                self.until = Some(Instant::now() + GRACE);
                self.began_late = true;
            }
            _ => {}
        }
    }

    /// Whether it has to be told again to stop: before it began, it could not know what was meant. True once.
    pub(super) fn must_be_told_again(&mut self) -> bool {
        std::mem::take(&mut self.began_late) && self.phase == Phase::Ending
    }

    pub(super) fn end_because(&mut self, why: Why) {
        // Who asked first is who is told of.
        self.why.get_or_insert(why);
        if self.phase != Phase::Rest {
            self.phase = Phase::Ending;
            self.until = Some(Instant::now() + GRACE);
        }
    }

    pub(super) fn done(&mut self, call: Call) {
        self.call = Some(call);
        self.phase = Phase::Rest;
        self.until = Some(Instant::now() + REST);
    }

    /// The call, when all of it has come.
    pub(super) fn finished(&mut self) -> Option<Call> {
        if self.stderr_ended { self.call.take() } else { None }
    }
}
