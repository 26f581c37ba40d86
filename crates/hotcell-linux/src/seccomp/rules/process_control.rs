//! Switches that a process sets on itself: `prctl`, `personality`, and nested sandboxes.

use super::super::condition::Argument::{First, Second};
use super::super::condition::{Condition, int, int_bits, long};
use super::{Action, Group, call, shared};

/// Options of `prctl(int option, …)` that only read, only tighten, or only touch the caller.
///
/// Left out on purpose: everything about capabilities beyond reading, `PR_SET_MM` (rewrites what the
/// kernel says about a process), `PR_SET_PTRACER` (there is no tracing), `PR_SET_MEMORY_MERGE` (page
/// merging is a side channel between boxes), `PR_SCHED_CORE`, `PR_SET_IO_FLUSHER`, `PR_MCE_KILL`,
/// `PR_SET_SYSCALL_USER_DISPATCH`, `PR_SET_TSC`.
const PRCTL_OPTIONS: &[u32] = &[
    15,          // PR_SET_NAME: names of threads
    16,          // PR_GET_NAME
    0x5356_4d41, // PR_SET_VMA: names of mappings, set by allocators
    1,           // PR_SET_PDEATHSIG
    2,           // PR_GET_PDEATHSIG
    3,           // PR_GET_DUMPABLE
    4,           // PR_SET_DUMPABLE
    7,           // PR_GET_KEEPCAPS
    21,          // PR_GET_SECCOMP
    22,          // PR_SET_SECCOMP: a further filter only tightens, and cannot have a listener this way
    23,          // PR_CAPBSET_READ
    27,          // PR_GET_SECUREBITS
    29,          // PR_SET_TIMERSLACK
    30,          // PR_GET_TIMERSLACK
    36,          // PR_SET_CHILD_SUBREAPER
    37,          // PR_GET_CHILD_SUBREAPER
    38,          // PR_SET_NO_NEW_PRIVS
    39,          // PR_GET_NO_NEW_PRIVS
    41,          // PR_SET_THP_DISABLE
    42,          // PR_GET_THP_DISABLE
    50,          // PR_SVE_SET_VL, for this and the following up to 64: aarch64 only
    51,          // PR_SVE_GET_VL
    52,          // PR_GET_SPECULATION_CTRL, both architectures
    53,          // PR_SET_SPECULATION_CTRL, both architectures
    54,          // PR_PAC_RESET_KEYS
    55,          // PR_SET_TAGGED_ADDR_CTRL
    56,          // PR_GET_TAGGED_ADDR_CTRL
    60,          // PR_PAC_SET_ENABLED_KEYS
    61,          // PR_PAC_GET_ENABLED_KEYS
    63,          // PR_SME_SET_VL
    64,          // PR_SME_GET_VL
    65,          // PR_SET_MDWE: gives up writable and executable mappings
    66,          // PR_GET_MDWE
    74,          // PR_GET_SHADOW_STACK_STATUS
    75,          // PR_SET_SHADOW_STACK_STATUS
    76,          // PR_LOCK_SHADOW_STACK_STATUS
    0x4155_5856, // PR_GET_AUXV
];

/// `PR_CAP_AMBIENT`, whose second argument (an `unsigned long`) is the actual operation.
const PR_CAP_AMBIENT: u32 = 47;
/// `PR_CAP_AMBIENT_IS_SET`, `…_LOWER` and `…_CLEAR_ALL`; not `…_RAISE`.
const AMBIENT_READ_OR_DROP: &[u64] = &[1, 3, 4];

/// `PER_LINUX`, and the value that only reads.
const PERSONALITIES: &[u32] = &[0, 0xffff_ffff];

/// `SECCOMP_SET_MODE_FILTER`
const SET_MODE_FILTER: u32 = 1;
/// `SECCOMP_SET_MODE_STRICT`, `…_GET_ACTION_AVAIL`, `…_GET_NOTIF_SIZES`
const OTHER_SECCOMP_OPERATIONS: &[u32] = &[0, 2, 3];
/// `SECCOMP_FILTER_FLAG_TSYNC`, `…_LOG`, `…_SPEC_ALLOW`, `…_TSYNC_ESRCH`. Any other flag is refused,
/// above all `…_NEW_LISTENER`: deciding about calls of others is the supervisor's business.
const FILTER_FLAGS: u32 = 1 | 2 | 4 | 16;

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "an allow-list of switches that read, tighten, or concern only the caller",
        action: Action::AllowIf(Condition::Any(&[
            int(First, PRCTL_OPTIONS),
            Condition::All(&[int(First, &[PR_CAP_AMBIENT]), long(Second, AMBIENT_READ_OR_DROP)]),
        ])),
        calls: &[call("prctl", 157, 167)],
    },
    Group {
        why: "reads the execution domain or sets the plain one; the others turn off address randomisation \
              and other protections, or enter code kept for other systems",
        // personality(unsigned int)
        action: Action::AllowIf(int(First, PERSONALITIES)),
        calls: &[call("personality", 135, 92)],
    },
    Group {
        why: "a nested filter can only take away; a listener is refused",
        // seccomp(unsigned int operation, unsigned int flags, …)
        action: Action::AllowIf(Condition::Any(&[
            Condition::All(&[int(First, &[SET_MODE_FILTER]), int_bits(Second, !FILTER_FLAGS, &[0])]),
            int(First, OTHER_SECCOMP_OPERATIONS),
        ])),
        calls: &[call("seccomp", 317, 277)],
    },
    Group {
        why: "a nested Landlock ruleset can only take away",
        action: Action::Allow,
        calls: &[
            shared("landlock_create_ruleset", 444),
            shared("landlock_add_rule", 445),
            shared("landlock_restrict_self", 446),
        ],
    },
    Group {
        why: "reads which security modules watch the caller",
        action: Action::Allow,
        calls: &[shared("lsm_get_self_attr", 459), shared("lsm_list_modules", 461)],
    },
];
