//! System calls that a box has no use for.
//!
//! They are made with arguments that only their own code would complain about. `EPERM` and `ENOSYS` come from a filter or a
//! permission check; anything else means that the call's own code was reached.

use crate::check::Group::Kernel;
use crate::check::{Check, Impact, Need, call, check};

pub(super) const CHECKS: &[Check] = &[
    // Surface with a long record of faults.
    check("kernel.io-uring", Kernel, "set up an io_uring, whose operations no system call filter sees")
        .safe("io_uring_setup is refused before its own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-29582", "CVE-2022-1786", "CVE-2022-2602"])
        .calls(&[
            call("io_uring_setup", &["4", "buffer"]),
            call("io_uring_enter", &["-1", "1", "0", "0"]),
            call("io_uring_register", &["-1", "0", "bad", "1"]),
        ]),
    check("kernel.userfaultfd", Kernel, "stop the kernel in the middle of a copy with userfaultfd")
        .safe("userfaultfd is refused")
        .impact(Impact::Escape)
        .calls(&[call("userfaultfd", &["1"])]),
    check("kernel.bpf", Kernel, "load a program into the kernel with bpf")
        .safe("bpf is refused before its own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-23222"])
        .calls(&[call("bpf", &["0", "bad", "64"])]),
    check("kernel.perf-events", Kernel, "count and sample what the machine does with perf_event_open")
        .safe("perf_event_open is refused before its own code runs")
        .impact(Impact::HostLeak)
        .calls(&[call("perf_event_open", &["bad", "0", "-1", "-1", "0xffff"])]),
    check("kernel.keyring-calls", Kernel, "use the kernel's keyrings, which belong to no namespace")
        .safe("add_key, request_key and keyctl are refused before their own code runs")
        .impact(Impact::HostLeak)
        .cves(&["CVE-2016-0728"])
        .calls(&[
            call("add_key", &["bad", "bad", "bad", "1", "-1"]),
            call("request_key", &["bad", "bad", "bad", "-1"]),
            call("keyctl", &["0xffff"]),
        ]),
    check("kernel.key", Kernel, "read and replace a key of the host's user by its number")
        .safe("keyctl is refused")
        .impact(Impact::HostLeak)
        .intruder(&["key", "{key}"]),
    check("kernel.memfd-secret", Kernel, "cut memory out of the kernel's own mappings with memfd_secret")
        .safe("memfd_secret is refused before its own code runs")
        .impact(Impact::HostDoS)
        .calls(&[call("memfd_secret", &["0xffff"])]),
    check("kernel.fanotify", Kernel, "watch whole file systems of the host with fanotify")
        .safe("fanotify_init and fanotify_mark are refused")
        .impact(Impact::HostLeak)
        .calls(&[call("fanotify_init", &["0x200", "0"]), call("fanotify_mark", &["-1", "0xffff", "0", "-1", "bad"])]),
    check("kernel.file-handles", Kernel, "open files by handle, past every path")
        .safe("name_to_handle_at and open_by_handle_at are refused before their own code runs")
        .impact(Impact::HostLeak)
        .calls(&[
            call("name_to_handle_at", &["-1", "bad", "bad", "bad", "0xffffffff"]),
            call("open_by_handle_at", &["-1", "bad", "0"]),
        ]),
    check("kernel.numa", Kernel, "place and move memory of processes between nodes of the machine")
        .safe("the calls answer as on a machine without nodes")
        .impact(Impact::PeerDoS)
        .calls(&[
            call("set_mempolicy", &["99", "bad", "1"]),
            call("mbind", &["0", "1", "99", "bad", "1", "0xffff"]),
            call("get_mempolicy", &["bad", "0", "0", "0", "0xffff"]),
            call("migrate_pages", &["-1", "1", "bad", "bad"]),
            call("move_pages", &["-1", "1", "bad", "bad", "bad", "0xffff"]),
        ]),
    check("kernel.cache-residence", Kernel, "learn which parts of files are in memory, and so what others read")
        .safe("cachestat answers as if the kernel did not have it")
        .impact(Impact::HostLeak)
        .calls(&[call("cachestat", &["-1", "bad", "bad", "1"])]),
    check("kernel.old-io", Kernel, "use the old interface for asynchronous input and output")
        .safe("the calls answer as if the kernel did not have them")
        .impact(Impact::Escape)
        .calls(&[call("io_setup", &["1", "bad"]), call("io_submit", &["0", "1", "bad"]), call("io_destroy", &["0"])]),
    check("kernel.old-calls", Kernel, "use calls that nothing has needed for decades")
        .safe("they are refused, or answer as if the kernel did not have them")
        .impact(Impact::Escape)
        .calls(&[
            call("ustat", &["0", "bad"]),
            call("sysfs", &["99"]),
            call("uselib", &["bad"]),
            call("remap_file_pages", &["1", "1", "1", "1", "1"]),
            call("_sysctl", &["bad"]),
            call("lookup_dcookie", &["0", "bad", "1"]),
            call("nfsservctl", &["0", "bad", "bad"]),
        ]),
    check("kernel.process-calls", Kernel, "reach the code by which processes trace and read each other")
        .safe("the calls are refused before their own code runs")
        .impact(Impact::InternalEsc)
        .calls(&[
            call("ptrace", &["0x4206", "-1"]),
            call("process_vm_readv", &["-1", "bad", "1", "bad", "1", "1"]),
            call("process_vm_writev", &["-1", "bad", "1", "bad", "1", "1"]),
            call("process_madvise", &["-1", "bad", "1", "0", "0xffff"]),
            call("process_mrelease", &["-1", "0xffff"]),
            call("kcmp", &["-1", "-1", "0", "0", "0"]),
            call("pidfd_getfd", &["-1", "0", "0xffff"]),
        ]),
    check("kernel.filter-listener", Kernel, "install a filter that decides about calls itself, over those of the box")
        .safe("seccomp with a listener is refused")
        .impact(Impact::InternalEsc)
        .calls(&[call("seccomp", &["1", "8", "bad"])]),
    check("kernel.personality", Kernel, "turn off the randomisation of addresses, and make all memory executable")
        .safe("only the ordinary personality is allowed")
        .impact(Impact::InternalEsc)
        .calls(&[call("personality", &["0x0040000"]), call("personality", &["0x0400000"])]),
    check(
        "kernel.process-switches",
        Kernel,
        "rewrite what the kernel says about itself, and merge memory with others'",
    )
    .safe("prctl refuses the options before their own code runs")
    .impact(Impact::HostLeak)
    .calls(&[
        call("prctl", &["35", "1", "0", "0", "1"]),
        call("prctl", &["67", "0", "1"]),
        call("prctl", &["62", "99"]),
        call("prctl", &["59", "99"]),
        call("prctl", &["0x59616d61", "-2"]),
    ]),
    // Namespaces and mounts.
    check("kernel.unshare", Kernel, "make a namespace of each kind with unshare")
        .safe("unshare is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-0185", "CVE-2022-0492"])
        .intruder(&["unshare"]),
    check("kernel.clone", Kernel, "make a process in a namespace of its own, of each kind")
        .safe("clone is refused with any of these flags")
        .impact(Impact::Escape)
        .intruder(&["clone-namespaces"]),
    check("kernel.clone3", Kernel, "make a user namespace with clone3, whose flags no filter can see")
        .safe("clone3 answers as if the kernel did not have it")
        .impact(Impact::Escape)
        .cves(&["CVE-2021-41133"])
        .intruder(&["clone3"]),
    check("kernel.nested-powers", Kernel, "gain capabilities in a user namespace of its own")
        .safe("there is none, and no capability")
        .impact(Impact::InternalEsc)
        .intruder(&["nested", "nested-powers"]),
    check("kernel.setns", Kernel, "enter another namespace")
        .safe("setns is refused before its own code runs")
        .impact(Impact::Escape)
        .calls(&[call("setns", &["-1", "0"])]),
    check("kernel.mount", Kernel, "mount something over the view, with a user namespace of its own if it can get one")
        .safe("mount and umount are refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-0185"])
        .nested_calls(&[call("mount", &["bad", "bad", "bad"]), call("umount2", &["bad", "0xffff"])]),
    check("kernel.file-system-context", Kernel, "make a file system with fsopen, fsconfig and fsmount")
        .safe("the calls are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2022-0185"])
        .nested_calls(&[
            call("fsopen", &["bad", "0"]),
            call("fsconfig", &["-1", "0", "bad", "bad", "0"]),
            call("fsmount", &["-1", "0", "0"]),
            call("fspick", &["-1", "bad", "0"]),
        ]),
    check("kernel.move-mount", Kernel, "copy, move and change mounts with open_tree, move_mount and mount_setattr")
        .safe("the calls are refused before their own code runs")
        .impact(Impact::Escape)
        .cves(&["CVE-2021-41133"])
        .nested_calls(&[
            call("open_tree", &["-1", "bad", "0xffffffff"]),
            call("open_tree_attr", &["-1", "bad", "0xffffffff", "bad", "32"]),
            call("move_mount", &["-1", "bad", "-1", "bad", "0"]),
            call("mount_setattr", &["-1", "bad", "0xffffffff", "bad", "32"]),
        ]),
    check("kernel.list-mounts", Kernel, "list mounts of the host with statmount and listmount")
        .safe("the calls answer as if the kernel did not have them")
        .impact(Impact::HostLeak)
        .calls(&[call("statmount", &["bad", "bad", "1", "0xffff"]), call("listmount", &["bad", "bad", "1", "0xffff"])]),
    check("kernel.change-root", Kernel, "change the root directory")
        .safe("pivot_root and chroot are refused")
        .impact(Impact::Escape)
        .nested_calls(&[call("pivot_root", &["bad", "bad"]), call("chroot", &["bad"])]),
    check("kernel.overlay", Kernel, "mount an overlay in a user namespace of its own")
        .safe("no mount is possible")
        .impact(Impact::Escape)
        .cves(&["CVE-2023-0386", "CVE-2021-3493"])
        .intruder(&["nested", "overlay"]),
    check("kernel.fuse", Kernel, "serve a file system to the kernel")
        .safe("the device does not exist in the box, and no mount is possible")
        .impact(Impact::Escape)
        .needs(&[Need::Device("/dev/fuse")])
        .intruder(&["nested", "fuse"]),
    check("kernel.hostname", Kernel, "rename the machine, with a user namespace of its own if it can get one")
        .safe("sethostname and setdomainname are refused")
        .impact(Impact::Integrity)
        .nested_calls(&[call("sethostname", &["bad", "0xffff"]), call("setdomainname", &["bad", "0xffff"])]),
    // The network's code.
    check("kernel.socket-families", Kernel, "make sockets of all families but the four that programs need")
        .safe("each is refused before the kernel looks at anything else")
        .impact(Impact::Escape)
        .cves(&["CVE-2020-14386", "CVE-2021-22600", "CVE-2026-43500"])
        .intruder(&["socket-families"]),
    check("kernel.crypto-sockets", Kernel, "reach the kernel's cryptography through sockets")
        .safe("the family is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-31431", "CVE-2025-39964"])
        .calls(&[call("socket", &["38", "15", "0"])]),
    check("kernel.vsock", Kernel, "talk to the hypervisor")
        .safe("the family is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2025-21756", "CVE-2025-38618"])
        .intruder(&["sockets", "40", "1", "0"]),
    check("kernel.packet-sockets", Kernel, "send and see whole packets, with namespaces of its own if it can get them")
        .safe("the family is refused")
        .impact(Impact::Escape)
        .cves(&["CVE-2020-14386", "CVE-2021-22600"])
        .intruder(&["nested", "sockets", "17", "3", "0", "17", "2", "0"]),
    check("kernel.raw-sockets", Kernel, "send raw internet packets, with namespaces of its own if it can get them")
        .safe("raw sockets are refused")
        .impact(Impact::Escape)
        .intruder(&["nested", "sockets", "2", "3", "1", "10", "3", "58", "2", "3", "255"]),
    check("kernel.internet-protocols", Kernel, "use internet protocols other than TCP and UDP")
        .safe("they are refused")
        .impact(Impact::Escape)
        .calls(&[
            call("socket", &["2", "1", "262"]),
            call("socket", &["10", "1", "262"]),
            call("socket", &["2", "1", "999"]),
        ]),
    check("kernel.netlink", Kernel, "talk to parts of the kernel over netlink, beyond the list of interfaces")
        .safe("only the protocol that lists interfaces is allowed")
        .impact(Impact::Escape)
        .intruder(&["sockets", "16", "3", "4", "16", "3", "12", "16", "3", "15", "16", "3", "16"]),
    check("kernel.packet-filter", Kernel, "make packet filter rules in a network namespace of its own")
        .safe("neither the namespace nor the socket can be had")
        .impact(Impact::Escape)
        .cves(&["CVE-2024-1086", "CVE-2022-32250", "CVE-2023-32233"])
        .intruder(&["nested", "packet-filter", "{ns-net}"]),
    check("kernel.traffic-control", Kernel, "give an interface another queue in a network namespace of its own")
        .safe("the namespace cannot be had, and the network of the box cannot be changed")
        .impact(Impact::Escape)
        .cves(&["CVE-2023-31436", "CVE-2023-4623"])
        .intruder(&["nested", "traffic-control", "{ns-net}"]),
    check("kernel.socket-programs", Kernel, "attach programs to sockets")
        .safe("the options are refused before the kernel looks at the socket")
        .impact(Impact::Escape)
        .calls(&[
            call("setsockopt", &["-1", "1", "26", "bad", "16"]),
            call("setsockopt", &["-1", "1", "50", "bad", "4"]),
            call("setsockopt", &["-1", "1", "51", "bad", "16"]),
            call("setsockopt", &["-1", "1", "52", "bad", "4"]),
            call("setsockopt", &["-1", "6", "31", "bad", "4"]),
        ]),
    check("kernel.firewall-tables", Kernel, "replace the tables of the firewall through socket options")
        .safe("the options are refused before the kernel looks at the socket")
        .impact(Impact::Escape)
        .cves(&["CVE-2021-22555"])
        .calls(&[
            call("setsockopt", &["-1", "0", "64", "bad", "16"]),
            call("setsockopt", &["-1", "41", "64", "bad", "16"]),
        ]),
    check("kernel.urgent-data", Kernel, "send urgent data, which on local sockets was a way out")
        .safe("the flag is refused before the kernel looks at the socket")
        .impact(Impact::Escape)
        .cves(&["CVE-2025-38236"])
        .calls(&[
            call("sendto", &["-1", "buffer", "1", "1", "0", "0"]),
            call("sendmsg", &["-1", "buffer", "1"]),
            call("sendmmsg", &["-1", "buffer", "1", "1"]),
        ]),
    check("kernel.tunnel", Kernel, "make a network interface whose packets it writes itself")
        .safe("the device does not exist in the box")
        .impact(Impact::Escape)
        .needs(&[Need::Device("/dev/net/tun")])
        .intruder(&["nested", "tunnel"]),
    // The machine.
    check("kernel.drivers", Kernel, "open drivers with a large surface: virtual machines, loop devices, page faults")
        .safe("the device nodes do not exist in the box")
        .impact(Impact::Escape)
        .needs(&[Need::Root])
        .intruder(&[
            "drivers",
            "/dev/kvm",
            "/dev/vhost-net",
            "/dev/vhost-vsock",
            "/dev/loop-control",
            "/dev/userfaultfd",
            "/dev/fuse",
            "/dev/net/tun",
        ]),
    check("kernel.administration", Kernel, "replace the kernel, load modules, swap, reboot, account")
        .safe("the calls are refused before their own code runs")
        .impact(Impact::HostDoS)
        .calls(&[
            call("swapon", &["bad", "0x7fffffff"]),
            call("swapoff", &["bad"]),
            call("reboot", &["0", "0", "0", "bad"]),
            call("acct", &["bad"]),
            call("kexec_load", &["0", "0xffff", "bad", "0"]),
            call("kexec_file_load", &["-1", "-1", "0", "bad", "0xffff"]),
            call("init_module", &["bad", "0", "bad"]),
            call("finit_module", &["-1", "bad", "0xffff"]),
            call("delete_module", &["bad", "0"]),
        ]),
    check("kernel.quotas", Kernel, "change disk quotas")
        .safe("quotactl and quotactl_fd are refused before their own code runs")
        .impact(Impact::HostDoS)
        .calls(&[call("quotactl", &["0xff", "bad", "0", "bad"]), call("quotactl_fd", &["-1", "0xff", "0", "bad"])]),
    check("kernel.log", Kernel, "read the kernel's log")
        .safe("syslog is refused before its own code runs")
        .impact(Impact::HostLeak)
        .calls(&[call("syslog", &["99", "bad", "1"]), call("syslog", &["3", "bad", "-1"])]),
    check("kernel.clocks", Kernel, "set the machine's clocks")
        .safe("the calls are refused before their own code runs")
        .impact(Impact::Integrity)
        .calls(&[
            call("settimeofday", &["bad", "0"]),
            call("clock_settime", &["0", "bad"]),
            call("adjtimex", &["bad"]),
            call("clock_adjtime", &["0", "bad"]),
        ]),
    check("kernel.hardware", Kernel, "reach hardware ports and descriptor tables of the processor")
        .safe("iopl, ioperm and modify_ldt are refused before their own code runs")
        .impact(Impact::Escape)
        .needs(&[Need::X86_64])
        .calls(&[
            call("iopl", &["4"]),
            call("ioperm", &["0xffffffff", "1", "1"]),
            call("modify_ldt", &["0", "buffer", "16"]),
        ]),
    check("kernel.realtime", Kernel, "run before everybody else on the machine")
        .safe("no priority above the ordinary one can be had")
        .impact(Impact::HostDoS)
        .needs(&[Need::Root])
        .intruder(&["realtime"]),
    check("kernel.null-page", Kernel, "map memory at address zero, where null pointers of the kernel lead")
        .safe("the lowest addresses cannot be mapped")
        .impact(Impact::InternalEsc)
        .needs(&[Need::Root])
        .intruder(&["null-page"]),
    check("kernel.addresses", Kernel, "learn where the kernel's code lies")
        .safe("the list of symbols is hidden, or shows zeros")
        .impact(Impact::HostLeak)
        .needs(&[Need::Root])
        .intruder(&["kernel-addresses"]),
    // Files that mean something outside.
    check("kernel.device-nodes", Kernel, "make device nodes and the marks by which overlays delete files")
        .safe("mknod and rename refuse them before they look at the path")
        .impact(Impact::Escape)
        .calls(&[
            call("mknodat", &["-1", "bad", "0x21b6", "0"]),
            call("mknodat", &["-1", "bad", "0x61b6", "0x800"]),
            call("mknod", &["bad", "0x21b6", "0"]),
            call("renameat2", &["-1", "bad", "-1", "bad", "4"]),
        ]),
    check("kernel.file-flags", Kernel, "set flags of files that outlive the box, such as immutable")
        .safe("the requests are refused before the kernel looks at the file")
        .impact(Impact::Integrity)
        .calls(&[
            call("ioctl", &["-1", "0x40086602", "bad"]),
            call("ioctl", &["-1", "0x401c5820", "bad"]),
            call("ioctl", &["-1", "0x40806685", "bad"]),
            call("ioctl", &["-1", "0x800c6613", "bad"]),
            call("file_setattr", &["-1", "bad", "bad", "24", "0xffff"]),
        ]),
    check("kernel.leases", Kernel, "stall everybody who opens a file, with a lease on it")
        .safe("fcntl refuses leases before it looks at the descriptor")
        .impact(Impact::HostDoS)
        .calls(&[call("fcntl", &["-1", "1024", "1"]), call("fcntl", &["-1", "1026", "0"])]),
    // Other ways to make a call.
    check("kernel.i386-calls", Kernel, "make system calls by the 32-bit entry, whose numbers mean something else")
        .safe("whoever uses the entry is ended")
        .impact(Impact::Escape)
        .cves(&["CVE-2026-31431"])
        .needs(&[Need::X86_64])
        .intruder(&["i386"]),
    check("kernel.upper-bits", Kernel, "reach refused code with upper halves of registers that the kernel ignores")
        .safe("the filter looks at what the kernel looks at")
        .impact(Impact::Escape)
        .cves(&["CVE-2019-10063"])
        .calls(&[
            call("ioctl", &["-1", "0x100005412", "bad"]),
            call("socket", &["0x100000026", "0x10000000f", "0"]),
            call("personality", &["0x100040000"]),
            call("fcntl", &["-1", "0x100000400", "1"]),
            call("prctl", &["0x100000023", "1", "0", "0", "1"]),
        ]),
];
