//! The filter's verdicts, written down: one text file per architecture, so that a change of the table
//! shows in review as a change of what the box permits.
//!
//! `UPDATE_GOLDEN=1 cargo test -p hotcell-linux --test seccomp_golden` writes the files anew.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests assert by panicking and print what they skip"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use hotcell_linux::seccomp::evaluate::{SeccompData, Verdict, check, evaluate};
use hotcell_linux::seccomp::rules::{Action, rules};
use hotcell_linux::seccomp::{Arch, FilterOptions, Network, Program, compile, rule};

const HIGH_BIT: u64 = 1 << 32;

/// A call, what its arguments mean, and the arguments up to the last that matters.
type Case = (&'static str, &'static str, &'static [u64]);

/// Calls whose verdict depends on arguments.
const CASES: &[Case] = &[
    ("clone", "SIGCHLD", &[17]),
    ("clone", "VM|VFORK|SIGCHLD", &[0x4111]),
    ("clone", "a thread of the C library", &[0x003d_0f00]),
    ("clone", "NEWTIME's bit is the exit signal's", &[0x80]),
    ("clone", "NEWNS", &[0x0002_0000]),
    ("clone", "NEWCGROUP", &[0x0200_0000]),
    ("clone", "NEWUTS", &[0x0400_0000]),
    ("clone", "NEWIPC", &[0x0800_0000]),
    ("clone", "NEWUSER", &[0x1000_0000]),
    ("clone", "NEWPID", &[0x2000_0000]),
    ("clone", "NEWNET", &[0x4000_0000]),
    ("clone", "NEWUSER, high bit", &[0x1000_0000 | HIGH_BIT]),
    ("ioctl", "TCGETS", &[0, 0x5401]),
    ("ioctl", "TIOCSCTTY", &[0, 0x540e]),
    ("ioctl", "TIOCGWINSZ", &[0, 0x5413]),
    ("ioctl", "TIOCSPTLCK", &[0, 0x4004_5431]),
    ("ioctl", "TIOCGPTPEER", &[0, 0x5441]),
    ("ioctl", "FIONREAD", &[0, 0x541b]),
    ("ioctl", "FICLONE", &[0, 0x4004_9409]),
    ("ioctl", "FICLONERANGE", &[0, 0x4020_940d]),
    ("ioctl", "FIDEDUPERANGE", &[0, 0xc018_9436]),
    ("ioctl", "TIOCSTI", &[0, 0x5412]),
    ("ioctl", "TIOCSTI, high bit", &[0, 0x5412 | HIGH_BIT]),
    ("ioctl", "TIOCSTI, all high bits", &[0, 0x5412 | !0xffff_ffff]),
    ("ioctl", "TIOCLINUX", &[0, 0x541c]),
    ("ioctl", "TIOCLINUX, high bit", &[0, 0x541c | HIGH_BIT]),
    ("ioctl", "TIOCCONS", &[0, 0x541d]),
    ("ioctl", "TIOCSETD", &[0, 0x5423]),
    ("ioctl", "TIOCVHANGUP", &[0, 0x5437]),
    ("ioctl", "FS_IOC_SETFLAGS", &[0, 0x4008_6602]),
    ("ioctl", "FS_IOC_FSSETXATTR", &[0, 0x401c_5820]),
    ("ioctl", "FS_IOC_ENABLE_VERITY", &[0, 0x4080_6685]),
    ("ioctl", "FS_IOC_SET_ENCRYPTION_POLICY", &[0, 0x800c_6613]),
    ("ioctl", "BTRFS_IOC_SUBVOL_CREATE", &[0, 0x5000_940e]),
    ("fcntl", "F_SETFL", &[0, 4]),
    ("fcntl", "F_DUPFD_CLOEXEC", &[0, 1030]),
    ("fcntl", "F_OFD_SETLK", &[0, 37]),
    ("fcntl", "F_SETLEASE", &[0, 1024]),
    ("fcntl", "F_NOTIFY", &[0, 1026]),
    ("fcntl", "F_SETLEASE, high bit", &[0, 1024 | HIGH_BIT]),
    ("fcntl", "F_SETFL, high bit", &[0, 4 | HIGH_BIT]),
    ("prctl", "PR_SET_NAME", &[15]),
    ("prctl", "PR_SET_VMA", &[0x5356_4d41]),
    ("prctl", "PR_SET_NO_NEW_PRIVS", &[38, 1]),
    ("prctl", "PR_SET_SECCOMP", &[22, 2]),
    ("prctl", "PR_CAPBSET_READ", &[23]),
    ("prctl", "PR_CAPBSET_DROP", &[24]),
    ("prctl", "PR_SET_SECUREBITS", &[28]),
    ("prctl", "PR_SET_MM", &[35]),
    ("prctl", "PR_SET_PTRACER", &[0x5961_6d61]),
    ("prctl", "PR_SET_MEMORY_MERGE", &[67, 1]),
    ("prctl", "PR_CAP_AMBIENT, IS_SET", &[47, 1]),
    ("prctl", "PR_CAP_AMBIENT, RAISE", &[47, 2]),
    ("prctl", "PR_CAP_AMBIENT, LOWER", &[47, 3]),
    ("prctl", "PR_CAP_AMBIENT, CLEAR_ALL", &[47, 4]),
    ("prctl", "PR_CAP_AMBIENT, CLEAR_ALL, high bit", &[47, 4 | HIGH_BIT]),
    ("personality", "query", &[0xffff_ffff]),
    ("personality", "PER_LINUX", &[0]),
    ("personality", "ADDR_NO_RANDOMIZE", &[0x0004_0000]),
    ("personality", "READ_IMPLIES_EXEC", &[0x0040_0000]),
    ("personality", "PER_LINUX32", &[8]),
    ("seccomp", "SET_MODE_STRICT", &[0]),
    ("seccomp", "SET_MODE_FILTER", &[1]),
    ("seccomp", "SET_MODE_FILTER, TSYNC", &[1, 1]),
    ("seccomp", "SET_MODE_FILTER, NEW_LISTENER", &[1, 8]),
    ("seccomp", "SET_MODE_FILTER, NEW_LISTENER|TSYNC|TSYNC_ESRCH", &[1, 25]),
    ("seccomp", "SET_MODE_FILTER, a flag of the future", &[1, 64]),
    ("seccomp", "GET_ACTION_AVAIL", &[2]),
    ("seccomp", "an operation of the future", &[4]),
    ("socket", "UNIX STREAM", &[1, 1]),
    ("socket", "UNIX SEQPACKET|CLOEXEC|NONBLOCK", &[1, 0x8_0805]),
    ("socket", "UNIX RAW", &[1, 3]),
    ("socket", "INET STREAM", &[2, 1]),
    ("socket", "INET STREAM|CLOEXEC TCP", &[2, 0x8_0001, 6]),
    ("socket", "INET DGRAM UDP", &[2, 2, 17]),
    ("socket", "INET6 STREAM", &[10, 1]),
    ("socket", "INET DGRAM ICMP", &[2, 2, 1]),
    ("socket", "INET6 DGRAM ICMPV6", &[10, 2, 58]),
    ("socket", "INET STREAM MPTCP", &[2, 1, 262]),
    ("socket", "INET STREAM SCTP", &[2, 1, 132]),
    ("socket", "INET SEQPACKET SCTP", &[2, 5, 132]),
    ("socket", "INET STREAM SMC", &[2, 1, 256]),
    ("socket", "INET RAW", &[2, 3]),
    ("socket", "INET RAW|NONBLOCK ICMP", &[2, 0x803, 1]),
    ("socket", "INET PACKET", &[2, 10]),
    ("socket", "NETLINK RAW ROUTE", &[16, 3]),
    ("socket", "NETLINK DGRAM|CLOEXEC ROUTE", &[16, 0x8_0002]),
    ("socket", "NETLINK RAW SOCK_DIAG", &[16, 3, 4]),
    ("socket", "NETLINK RAW XFRM", &[16, 3, 6]),
    ("socket", "NETLINK RAW AUDIT", &[16, 3, 9]),
    ("socket", "NETLINK RAW NETFILTER", &[16, 3, 12]),
    ("socket", "PACKET RAW", &[17, 3, 3]),
    ("socket", "KEY RAW", &[15, 3, 2]),
    ("socket", "TIPC STREAM", &[30, 1]),
    ("socket", "BLUETOOTH RAW", &[31, 3]),
    ("socket", "RXRPC DGRAM", &[33, 2]),
    ("socket", "ALG SEQPACKET", &[38, 5]),
    ("socket", "VSOCK STREAM", &[40, 1]),
    ("socket", "SMC STREAM", &[43, 1]),
    ("socket", "XDP RAW", &[44, 3]),
    ("socket", "VSOCK STREAM, high bit", &[40 | HIGH_BIT, 1]),
    ("socket", "INET STREAM, high bit", &[2 | HIGH_BIT, 1]),
    ("socketpair", "UNIX STREAM", &[1, 1]),
    ("socketpair", "UNIX DGRAM|CLOEXEC", &[1, 0x8_0002]),
    ("socketpair", "TIPC STREAM", &[30, 1]),
    ("setsockopt", "SOL_SOCKET SO_REUSEADDR", &[0, 1, 2]),
    ("setsockopt", "SOL_SOCKET SO_REUSEPORT", &[0, 1, 15]),
    ("setsockopt", "SOL_SOCKET SO_ATTACH_FILTER", &[0, 1, 26]),
    ("setsockopt", "SOL_SOCKET SO_ATTACH_BPF", &[0, 1, 50]),
    ("setsockopt", "SOL_TCP TCP_NODELAY", &[0, 6, 1]),
    ("setsockopt", "SOL_TCP TCP_ULP", &[0, 6, 31]),
    ("setsockopt", "SOL_TCP TCP_ULP, high bit", &[0, 6 | HIGH_BIT, 31]),
    ("setsockopt", "SOL_IP IP_TTL", &[0, 0, 2]),
    ("setsockopt", "SOL_IP IPT_SO_SET_REPLACE", &[0, 0, 64]),
    ("setsockopt", "SOL_IPV6 IPV6_V6ONLY", &[0, 41, 26]),
    ("setsockopt", "SOL_IPV6 IP6T_SO_SET_REPLACE", &[0, 41, 64]),
    ("sendmsg", "MSG_NOSIGNAL", &[0, 0, 0x4000]),
    ("sendmsg", "MSG_OOB", &[0, 0, 1]),
    ("sendmsg", "MSG_OOB, high bit", &[0, 0, 1 | HIGH_BIT]),
    ("open", "CREAT, 0644", &[0, 0o101, 0o644]),
    ("open", "no CREAT, a mode that is ignored", &[0, 0, 0o4755]),
    ("open", "CREAT, 4755", &[0, 0o101, 0o4755]),
    ("openat", "CREAT, 0755", &[0, 0, 0o102, 0o755]),
    ("openat", "no CREAT, a mode that is ignored", &[0, 0, 0o2_200_000, 0o6755]),
    ("openat", "CREAT, 2745", &[0, 0, 0o102, 0o2745]),
    ("openat", "CREAT, 2745, high bits", &[0, 0, 0o102 | HIGH_BIT, 0o2745 | HIGH_BIT]),
    ("openat", "TMPFILE, 0600", &[0, 0, 0o20_200_002, 0o600]),
    ("openat", "TMPFILE, 4755", &[0, 0, 0o20_200_002, 0o4755]),
    ("creat", "0644", &[0, 0o644]),
    ("creat", "2745", &[0, 0o2745]),
    ("chmod", "0755", &[0, 0o755]),
    ("chmod", "2775", &[0, 0o2775]),
    ("chmod", "4755", &[0, 0o4755]),
    ("fchmod", "0644", &[0, 0o644]),
    ("fchmod", "4755", &[0, 0o4755]),
    ("fchmodat", "0644", &[0, 0, 0o644]),
    ("fchmodat", "6755, high bit", &[0, 0, 0o6755 | HIGH_BIT]),
    ("fchmodat2", "1777", &[0, 0, 0o1777]),
    ("fchmodat2", "4755", &[0, 0, 0o4755]),
    ("mknod", "regular without a type", &[0, 0o644]),
    ("mknod", "FIFO", &[0, 0o010_644]),
    ("mknod", "character device", &[0, 0o020_644, 0x103]),
    ("mknod", "regular, 4755", &[0, 0o104_755]),
    ("mknodat", "regular", &[0, 0, 0o100_644]),
    ("mknodat", "regular, 2745", &[0, 0, 0o102_745]),
    ("mknodat", "FIFO", &[0, 0, 0o010_644]),
    ("mknodat", "socket", &[0, 0, 0o140_644]),
    ("mknodat", "character device", &[0, 0, 0o020_644]),
    ("mknodat", "block device", &[0, 0, 0o060_644]),
    ("mknodat", "block device, high bit", &[0, 0, 0o060_644 | HIGH_BIT]),
    ("renameat2", "RENAME_NOREPLACE", &[0, 0, 0, 0, 1]),
    ("renameat2", "RENAME_EXCHANGE", &[0, 0, 0, 0, 2]),
    ("renameat2", "RENAME_WHITEOUT", &[0, 0, 0, 0, 4]),
    ("sendto", "MSG_DONTWAIT", &[0, 0, 0, 0x40]),
    ("sendto", "MSG_OOB", &[0, 0, 0, 1]),
    ("sendmmsg", "no flags", &[0]),
    ("sendmmsg", "MSG_OOB|MSG_NOSIGNAL", &[0, 0, 0, 0x4001]),
];

fn cases() -> BTreeMap<&'static str, Vec<(&'static str, [u64; 6])>> {
    let mut cases: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for &(name, label, arguments) in CASES {
        let mut args = [0; 6];
        args[..arguments.len()].copy_from_slice(arguments);
        cases.entry(name).or_default().push((label, args));
    }
    cases
}

fn program(arch: Arch, network: Network) -> Program {
    let program = compile(arch, &FilterOptions { network, notify_denied: false });
    check(&program).expect("the compiler writes valid programs");
    program
}

fn says(program: &Program, arch: Arch, number: u32, args: [u64; 6]) -> &'static str {
    answer(program, &SeccompData::new(arch, number, args))
}

fn answer(program: &Program, data: &SeccompData) -> &'static str {
    match evaluate(program, data) {
        Ok(Verdict::Allow) => "allow",
        Ok(Verdict::Errno(1)) => "EPERM",
        Ok(Verdict::Errno(38)) => "ENOSYS",
        Ok(Verdict::KillProcess) => "kill",
        other => panic!("{data:x?}: {other:?}"),
    }
}

fn render(arch: Arch) -> String {
    let private = program(arch, Network::Private);
    let host = program(arch, Network::Host);
    let cases = cases();
    let mut text = String::from("# nr name action [argument case]\n");
    let mut line = |number: u32, name: &str, args: [u64; 6], case: &str| {
        let verdict = says(&private, arch, number, args);
        let on_host = says(&host, arch, number, args);
        let host_note = if on_host == verdict { String::new() } else { format!(", on the host's network {on_host}") };
        writeln!(text, "{number:3} {name} {verdict}{host_note}{case}").unwrap();
    };
    for number in 0..=600 {
        let Some(rule) = rule(arch, number) else {
            line(number, "-", [0; 6], "");
            continue;
        };
        match rule.action {
            Action::AllowIf(_) | Action::AllowUnless(_) => {
                for (label, args) in &cases[rule.name] {
                    line(number, rule.name, *args, &format!(" [{label}]"));
                }
            }
            _ => line(number, rule.name, [0; 6], ""),
        }
    }
    let beyond = [(0x7fff_ff00..=0x8000_0100), (0xffff_ff00..=u32::MAX)];
    for (what, audit, ranges) in [
        ("x32", arch.audit_value(), &[X32][..]),
        ("beyond all numbers", arch.audit_value(), &beyond),
        ("i386", 0x4000_0003, &[0..=600, X32]),
        ("32-bit ARM", 0x4000_0028, &[0..=600, X32]),
        ("64-bit, of the other architecture", other(arch).audit_value(), &[0..=600, X32]),
    ] {
        for range in ranges {
            for run in runs(arch, &[&private, &host], audit, range.clone()) {
                writeln!(text, "{run} ({what})").unwrap();
            }
        }
    }
    text
}

/// The numbers of the x32 ABI, up to what would be 600 without its bit.
const X32: RangeInclusive<u32> = 0x4000_0000..=0x4000_0258;

fn other(arch: Arch) -> Arch {
    if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 }
}

/// The verdicts on calls that say they are of the ABI `audit`, whatever their arguments: one line for all in a row that
/// share theirs.
fn runs(arch: Arch, programs: &[&Program], audit: u32, numbers: RangeInclusive<u32>) -> Vec<String> {
    let cases = cases();
    let mut runs: Vec<(u32, u32, BTreeSet<&str>)> = Vec::new();
    for nr in numbers {
        // What the number would mean without the bit of x32.
        let own = rule(arch, nr & !X32.start()).and_then(|rule| cases.get(rule.name));
        let arguments = own.into_iter().flatten().map(|(_, args)| *args).chain([[0; 6], [u64::MAX; 6]]);
        let verdicts: BTreeSet<&str> = arguments
            .flat_map(|args| {
                let data = SeccompData { arch: audit, ..SeccompData::new(arch, nr, args) };
                programs.iter().map(move |program| answer(program, &data))
            })
            .collect();
        match runs.last_mut() {
            Some((_, last, same)) if *same == verdicts => *last = nr,
            _ => runs.push((nr, nr, verdicts)),
        }
    }
    let line = |(first, last, verdicts): (u32, u32, BTreeSet<&str>)| {
        format!("{first:#x}..={last:#x} {}", verdicts.into_iter().collect::<Vec<_>>().join(" or "))
    };
    runs.into_iter().map(line).collect()
}

fn compare(arch: Arch, file: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let rendered = render(arch);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, rendered).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file exists");
    for (found, expected) in rendered.lines().zip(golden.lines()) {
        assert_eq!(found, expected, "{file} differs; if that is meant, run again with UPDATE_GOLDEN=1 and review");
    }
    assert_eq!(rendered.lines().count(), golden.lines().count(), "{file}");
}

#[test]
fn x86_64_verdicts_are_as_written_down() {
    compare(Arch::X86_64, "seccomp_x86_64.txt");
}

#[test]
fn aarch64_verdicts_are_as_written_down() {
    compare(Arch::Aarch64, "seccomp_aarch64.txt");
}

#[test]
fn cases_name_calls_that_look_at_arguments_and_show_both_outcomes() {
    let private = program(Arch::X86_64, Network::Private);
    let conditional: Vec<_> =
        rules().filter(|rule| matches!(rule.action, Action::AllowIf(_) | Action::AllowUnless(_))).collect();
    let cases = cases();
    assert_eq!(cases.len(), conditional.len());
    for rule in conditional {
        let number = rule.x86_64.expect("conditional calls exist on x86_64");
        let outcomes: Vec<_> =
            cases[rule.name].iter().map(|(_, args)| says(&private, Arch::X86_64, number, *args)).collect();
        assert!(outcomes.contains(&"allow"), "{}", rule.name);
        assert!(outcomes.contains(&"EPERM"), "{}", rule.name);
    }
}
