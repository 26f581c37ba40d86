//! The address space of the calling process.

use super::{Action, Group, call, shared};

pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "every allocator and loader; executable mappings pass because just-in-time compilers (node, \
              java) are ordinary programs",
        action: Action::Allow,
        calls: &[
            call("mmap", 9, 222),
            call("mprotect", 10, 226),
            call("munmap", 11, 215),
            call("mremap", 25, 216),
            call("brk", 12, 214),
            call("madvise", 28, 233),
            call("msync", 26, 227),
        ],
    },
    Group {
        why: "asks which pages are in memory, which unwinders use to test an address; the kernel answers \
              for files only to those who may write them",
        action: Action::Allow,
        calls: &[call("mincore", 27, 232)],
    },
    Group {
        why: "keeps secrets out of swap, within the limit on locked memory",
        action: Action::Allow,
        calls: &[
            call("mlock", 149, 228),
            call("mlock2", 325, 284),
            call("munlock", 150, 229),
            call("mlockall", 151, 230),
            call("munlockall", 152, 231),
        ],
    },
    Group {
        why: "lets a process protect parts of its own memory from itself",
        action: Action::Allow,
        calls: &[
            call("pkey_mprotect", 329, 288),
            call("pkey_alloc", 330, 289),
            call("pkey_free", 331, 290),
            shared("map_shadow_stack", 453),
            shared("mseal", 462),
        ],
    },
    Group {
        why: "anonymous files for shared buffers; they count as the box's memory",
        action: Action::Allow,
        calls: &[call("memfd_create", 319, 279)],
    },
];
