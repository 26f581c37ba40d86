//! Which parts of the kernel a box can reach.
//!
//! Every probe that the box must refuse runs outside as well. Where it fails there too, the test proves nothing and says
//! so in the list of skipped tests.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use common::*;
use hotcell::capability::Control;
use hotcell::outcome::ViolationKind;
use hotcell::policy::BoxUser;
use hotcell::{Engine, Policy, SandboxOutput, SpawnConfig, TtySize};

/// What the probes have in common: `call` prints a name and the error of a raw system call.
const PRELUDE: &str = r"
import ctypes, errno, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
arm = platform.machine() == 'aarch64'
def call(name, numbers, *arguments):
    number = numbers[1] if arm else numbers[0]
    values = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *values)
    print(name, 'ok' if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
    return result
def child(probe):
    # What changes the caller for good happens in a child.
    sys.stdout.flush()
    if os.fork() == 0:
        probe()
        sys.stdout.flush()
        os._exit(0)
    os.wait()
";

/// Name and result of each line.
fn results(text: &str) -> BTreeMap<String, String> {
    text.lines().filter_map(|line| line.split_once(' ')).map(|(name, result)| (name.into(), result.into())).collect()
}

/// Runs a probe inside and outside, and asserts that every call is refused inside, and by the filter: either the kernel
/// vouches for that, or the same call fares differently outside. What neither shows is listed as not shown.
async fn assert_refused(test: &str, engine: &Engine, policy: &Policy, probe: &str) {
    let probe = format!("{PRELUDE}{probe}");
    let outside = results(&python_outside(&probe));
    let output = engine.run_with(policy, python(&probe)).await.unwrap();
    let inside = results(&stdout(&output));
    assert_eq!(inside.keys().collect::<Vec<_>>(), outside.keys().collect::<Vec<_>>(), "{}", text(&output.stderr));
    for (name, result) in &inside {
        let filtered = result == "EPERM" || result == "ENOSYS";
        assert!(filtered, "{name} gave {result}: it is not filtered (outside: {})", outside[name]);
    }
    let counted: u64 = refused_calls(&output).values().sum();
    let vouched = counts_refusals(&output);
    if vouched {
        let refused = inside.values().filter(|result| *result == "EPERM").count();
        assert_eq!(counted, refused as u64, "something else than the filter refused: {inside:?}");
    }
    let unclear = |name: &&String| inside[*name] == outside[*name] && !(vouched && inside[*name] == "EPERM");
    let unclear: Vec<&String> = inside.keys().filter(unclear).collect();
    if !unclear.is_empty() {
        skip(test, &format!("refused here without a box too, so being refused in one shows nothing: {unclear:?}"));
    }
}

/// Whether the kernel tells which calls the filter refused.
fn counts_refusals(output: &SandboxOutput) -> bool {
    output.outcome.visibility.seen.iter().any(|seen| seen.contains("system calls"))
}

/// The calls that the filter refused, and how often.
fn refused_calls(output: &SandboxOutput) -> BTreeMap<&str, u64> {
    let violations = output.outcome.violations.iter();
    let calls = violations.filter(|violation| violation.kind == ViolationKind::Syscall);
    calls.map(|violation| (violation.what.as_str(), violation.count)).collect()
}

#[tokio::test]
async fn namespaces_and_mounts_are_refused() {
    const NAME: &str = "namespaces_and_mounts_are_refused";
    let Some(engine) = engine(NAME).await else { return };
    // Arguments that the kernel would complain about, had the call reached it.
    let probe = r"
for flag, name in [(0x10000000, 'user'), (0x20000, 'mount'), (0x40000000, 'network'), (0x20000000, 'pid'), (0x8000000, 'ipc'),
                   (0x4000000, 'uts'), (0x2000000, 'cgroup'), (0x80, 'time')]:
    child(lambda: call('unshare-' + name, (272, 97), flag))
    # clone with the flag and SIGCHLD; the child ends at once.
    def cloned():
        if call('clone-' + name, (56, 220), flag | 17, 0, 0, 0, 0) == 0: os._exit(0)
    if not (flag in (0x80,)): child(cloned)
call('clone3', (435, 435), struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 1)
call('setns', (308, 268), -1, 0)
call('mount', (165, 40), 0, b'/nowhere', 0, 0x1000, 0)
call('umount2', (166, 39), b'/nowhere', 0)
call('pivot_root', (155, 41), b'/nowhere', b'/nowhere')
call('chroot', (161, 51), b'/nowhere')
call('open_tree', (428, 428), -1, b'nowhere', 0)
call('move_mount', (429, 429), -1, b'nowhere', -1, b'nowhere', 0)
call('fsopen', (430, 430), b'no such type', 0)
call('fsconfig', (431, 431), -1, 0, 0, 0, 0)
call('fsmount', (432, 432), -1, 0, 0)
call('fspick', (433, 433), -1, b'nowhere', 0)
call('mount_setattr', (442, 442), -1, b'nowhere', 0, bytes(32), 32)
call('listmount', (458, 458), 0, 0, 0, 0)
call('statmount', (457, 457), 0, 0, 0, 0)
call('open_by_handle_at', (304, 265), -1, bytes(16), 0)
call('name_to_handle_at', (303, 264), -1, b'nowhere', bytes(16), bytes(8), 0)
";
    for user in [BoxUser::HOTCELL, BoxUser::ROOT] {
        let policy = Policy::builder().user(user).build().unwrap();
        assert_refused(NAME, &engine, &policy, probe).await;
    }
}

#[tokio::test]
async fn dangerous_calls_are_refused() {
    const NAME: &str = "dangerous_calls_are_refused";
    let Some(engine) = engine(NAME).await else { return };
    let probe = r"
call('io_uring_setup', (425, 425), 1, bytes(120))
call('io_uring_enter', (426, 426), -1, 0, 0, 0, 0, 0)
call('io_uring_register', (427, 427), -1, 0, 0, 0)
call('bpf', (321, 280), 999, bytes(128), 128)
call('perf_event_open', (298, 241), bytes(128), 0, -1, -1, 0)
call('userfaultfd', (323, 282), 1)
# -2: the keyring that ends with the process.
call('add_key', (248, 217), b'user', b'hotcell-probe', b'x', 1, -2)
call('keyctl', (250, 219), 0, -2, 1)
call('request_key', (249, 218), b'user', b'hotcell-none', 0, -2)
call('ptrace', (101, 117), 0x4206, 999999, 0, 0)
call('process_vm_readv', (310, 270), os.getpid(), 0, 0, 0, 0, 0)
call('process_vm_writev', (311, 271), os.getpid(), 0, 0, 0, 0, 0)
call('pidfd_getfd', (438, 438), -1, 0, 0)
call('kcmp', (312, 272), os.getpid(), os.getpid(), 99, 0, 0)
call('personality', (135, 92), 0x0040000)
call('personality-read-implies-exec', (135, 92), 0x0400000)
call('personality-high-bits', (135, 92), 0x100000000 | 0x0040000)
call('syslog', (103, 116), 3, 0, 0)
call('init_module', (175, 105), 0, 0, b'')
call('finit_module', (313, 273), -1, b'', 0)
call('delete_module', (176, 106), b'hotcell-none', 0)
call('kexec_load', (246, 104), 0, 0, 0, 0xffff0000)
call('reboot', (169, 142), 0, 0, 0, 0)
call('swapon', (167, 224), b'/nowhere', 0)
call('swapoff', (168, 225), b'/nowhere')
call('acct', (163, 89), b'/nowhere')
call('quotactl', (179, 60), -1, 0, 0, 0)
call('settimeofday', (164, 170), 1, 0)
call('clock_settime', (227, 112), 99, bytes(16))
call('sethostname', (170, 161), b'', -1)
call('fanotify_init', (300, 262), 0xffff, 0)
call('open_tree_attr', (467, 467), -1, b'', 0, 0, 0)
call('memfd_secret', (447, 447), 0xff)
if not arm:
    call('modify_ldt', (154, 0), 99, 0, 0)
    call('iopl', (172, 0), 0)
    call('ioperm', (173, 0), 0, 0, 0)
";
    assert_refused(NAME, &engine, &Policy::default(), probe).await;
}

#[tokio::test]
async fn a_sibling_cannot_be_traced() {
    const NAME: &str = "a_sibling_cannot_be_traced";
    let Some(engine) = engine(NAME).await else { return };
    let probe = r"
import time, signal
def sleeper():
    made = os.fork()
    if made == 0:
        time.sleep(60)
        os._exit(0)
    return made
victim, other = sleeper(), sleeper()
call('attach', (101, 117), 16, victim, 0, 0)
call('seize', (101, 117), 0x4206, other, 0, 0)
here = ctypes.create_string_buffer(8)
vector = struct.pack('QQ', ctypes.addressof(here), 8)
call('read', (310, 270), victim, vector, 1, vector, 1, 0)
for made in (victim, other): os.kill(made, signal.SIGKILL)
";
    assert_refused(NAME, &engine, &Policy::default(), probe).await;
}

#[tokio::test]
async fn only_ordinary_sockets_can_be_made() {
    const NAME: &str = "only_ordinary_sockets_can_be_made";
    let Some(engine) = engine(NAME).await else { return };
    let probe = r"
families = [('ax25', 3), ('ipx', 4), ('x25', 9), ('key', 15), ('packet', 17), ('rds', 21), ('llc', 26), ('can', 29), ('tipc', 30),
            ('bluetooth', 31), ('rxrpc', 33), ('phonet', 35), ('alg', 38), ('nfc', 39), ('vsock', 40), ('kcm', 41),
            ('qipcrtr', 42), ('smc', 43), ('xdp', 44), ('mctp', 45), ('none', 99)]
for name, family in families:
    call(name, (41, 198), family, 1 if name in ('alg', 'vsock') else 2, 0) if name != 'alg' else call(name, (41, 198), 38, 5, 0)
    call(name + '-high-bits', (41, 198), (7 << 32) | family, 3, 0)
for protocol in [2, 3, 4, 6, 9, 12, 15, 16]:
    call('netlink-%d' % protocol, (41, 198), 16, 3, protocol)
for name, family in [('inet', 2), ('inet6', 10)]:
    call(name + '-raw', (41, 198), family, 3, 1)
    call(name + '-raw-any', (41, 198), family, 3, 255)
    call(name + '-ping', (41, 198), family, 2, 58 if family == 10 else 1)
    call(name + '-mptcp', (41, 198), family, 1, 262)
    call(name + '-sctp', (41, 198), family, 1, 132)
    call(name + '-dccp', (41, 198), family, 6, 33)
call('packet-cloexec', (41, 198), 17, 3 | 0x80000, 0)
call('pair-of-inet', (53, 199), 2, 1, 0, bytes(8))
";
    let open = Policy::builder().network(hotcell::policy::NetworkMode::Open).build().unwrap();
    for policy in [Policy::default(), open] {
        assert_refused(NAME, &engine, &policy, probe).await;
    }
    let ordinary = r"
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        socket.socket(family, kind).close()
socket.socketpair()
print([name for _, name in socket.if_nameindex()])
";
    assert_eq!(stdout(&engine.run(python(ordinary)).await.unwrap()), "['lo']\n");
}

#[tokio::test]
async fn a_terminal_cannot_be_typed_into() {
    const NAME: &str = "a_terminal_cannot_be_typed_into";
    let Some(engine) = engine(NAME).await else { return };
    let probe = format!(
        "{PRELUDE}
import fcntl, termios
for high in (0, 1 << 32, 0xffffffff << 32):
    call('sti-%x' % high, (16, 29), 0, high | 0x5412, b'x')
    call('linux-%x' % high, (16, 29), 0, high | 0x541c, bytes([3]))
call('console', (16, 29), 0, 0x541d, 0)
print('size', *struct.unpack('HH', fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))[:4]))
"
    );
    let policy = Policy::builder().tty(true).build().unwrap();
    let config = python(&probe).tty(TtySize { columns: 91, rows: 37 });
    let output = engine.run_with(&policy, config).await.unwrap();
    let inside = results(&stdout(&output).replace('\r', ""));
    assert_eq!(inside["size"], "37 91", "the probe has no terminal");
    assert_eq!(inside.len(), 8, "{inside:?}");
    for (name, result) in inside.iter().filter(|(name, _)| *name != "size") {
        assert_eq!(result, "EPERM", "{name}");
    }
    // Outside, a bad address shows that the kernel gets as far as the call itself.
    let outside = python_outside(&format!(
        "{PRELUDE}
import pty
master, slave = pty.openpty()
call('linux', (16, 29), slave, 0x541c, 0)
call('unknown', (16, 29), slave, 0x54ff, 0)
"
    ));
    if results(&outside).values().any(|result| result == "EPERM") {
        skip(NAME, &format!("terminal requests are refused here without a box too: {outside}"));
    }
}

/// A program that makes system calls through the interface of 32-bit programs.
const OLD_INTERFACE: &str = r#"
#include <stdio.h>
static long old(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return result;
}
int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) { printf("runs\n"); return 0; }
    printf("%s\n", old(20, 0, 0, 0) > 0 ? "reached" : "refused");
    fflush(stdout);
    printf("%ld\n", old(310, 0x10000000, 0, 0));
    return 0;
}
"#;

#[tokio::test]
async fn the_interface_of_32_bit_programs_is_closed() {
    const NAME: &str = "the_interface_of_32_bit_programs_is_closed";
    if !cfg!(target_arch = "x86_64") {
        return skip(NAME, "only x86_64 has it");
    }
    let Some(engine) = engine(NAME).await else { return };
    let Some(compiler) = ["/usr/bin/cc", "/usr/bin/gcc"].into_iter().find(|path| std::path::Path::new(path).exists())
    else {
        return skip(NAME, "/usr/bin/cc is not installed");
    };
    let place = Place::new();
    let source = place.file("tree/probe.c", OLD_INTERFACE);
    let program = place.join("tree/probe");
    let built = Command::new(compiler).arg("-o").arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let outside = Command::new(&program).output().unwrap();
    if !outside.stdout.starts_with(b"reached") {
        return skip(NAME, "this kernel has no such interface");
    }
    let policy = Policy::builder().read(place.join("tree")).build().unwrap();
    let output = engine.run_with(&policy, SpawnConfig::new(&program).arg("harmless")).await.unwrap();
    assert_eq!(stdout(&output), "runs\n");
    let output = engine.run_with(&policy, SpawnConfig::new(&program)).await.unwrap();
    assert!(!text(&output.stdout).contains("reached"), "{:?} {}", output.status(), text(&output.stdout));
}

#[tokio::test]
async fn a_box_has_no_privileges_in_any_thread() {
    const NAME: &str = "a_box_has_no_privileges_in_any_thread";
    let Some(engine) = engine(NAME).await else { return };
    let probe = r"
import os, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
for task in os.listdir('/proc/self/task'):
    for line in open('/proc/self/task/%s/status' % task):
        if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:', 'Groups', 'Uid')):
            print(line.strip().replace('\t', ' '))
import resource
print('core', *resource.getrlimit(resource.RLIMIT_CORE))
print(' '.join(open('/proc/self/setgroups').read().split()))
";
    for (user, uid) in [(BoxUser::HOTCELL, 1000), (BoxUser::ROOT, 0)] {
        let policy = Policy::builder().user(user).build().unwrap();
        let output = engine.run_with(&policy, python(probe)).await.unwrap();
        let seen = stdout(&output);
        let count = |line: &str| seen.lines().filter(|found| *found == line).count();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(count(&format!("{set}: 0000000000000000")), 2, "{seen}");
        }
        assert_eq!(count(&format!("Uid: {uid} {uid} {uid} {uid}")), 2, "{seen}");
        assert_eq!((count("NoNewPrivs: 1"), count("Seccomp: 2")), (2, 2), "{seen}");
        if is_root() {
            assert_eq!(count("Groups:"), 2, "{seen}");
        }
        assert_eq!(count("core 0 0"), 1, "{seen}");
    }
}

#[tokio::test]
async fn a_box_is_nobody_on_the_host() {
    let Some(engine) = engine("a_box_is_nobody_on_the_host").await else { return };
    let mut users = Vec::new();
    let boxes = [engine.create(&Policy::default()).await.unwrap(), engine.create(&Policy::default()).await.unwrap()];
    let mut processes = Vec::new();
    for sandbox in &boxes {
        let word = marker();
        processes.push(sandbox.spawn(SpawnConfig::new("sleep").arg(&word)).await.unwrap());
        until("the command runs", || processes_with(&word).len() == 1);
        let pid = processes_with(&word)[0];
        let ids = status_of(pid, "Uid").unwrap();
        let uid: u32 = ids.split_whitespace().next().unwrap().parse().unwrap();
        assert!(ids.split_whitespace().all(|id| id == uid.to_string()), "{ids}");
        for (key, value) in
            [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapBnd", "0000000000000000"), ("CapEff", "0000000000000000")]
        {
            assert_eq!(status_of(pid, key).as_deref(), Some(value), "{key}");
        }
        // The first process of the box, which does not execute anything, is held by the same rules.
        let init: u32 = status_of(pid, "PPid").unwrap().parse().unwrap();
        assert_eq!(status_of(init, "Name").as_deref(), Some("hotcell-init"));
        for (key, value) in [
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
            ("CapBnd", "0000000000000000"),
            ("CapEff", "0000000000000000"),
            ("Uid", &ids),
        ] {
            assert_eq!(status_of(init, key).as_deref(), Some(value), "init: {key}");
        }
        for namespace in ["user", "mnt", "pid", "net", "ipc", "uts"] {
            let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}"));
            let Ok(inside) = of(&pid.to_string()) else { continue };
            assert_ne!(inside, of("self").unwrap(), "{namespace}");
        }
        users.push(uid);
    }
    if is_root() {
        assert!(users.iter().all(|uid| *uid >= 0x7800_0000), "{users:?}");
        assert_ne!(users[0], users[1], "boxes that live at the same time are strangers to each other");
    } else {
        let own = status_of(std::process::id(), "Uid").unwrap();
        assert!(users.iter().all(|uid| own.starts_with(&format!("{uid}\t"))), "{users:?} {own}");
    }
}

#[tokio::test]
async fn refused_calls_are_counted() {
    const NAME: &str = "refused_calls_are_counted";
    let Some(engine) = engine(NAME).await else { return };
    let probe = format!(
        "{PRELUDE}
for _ in range(5): call('keyctl', (250, 219), 0, -2, 1)
for _ in range(2): call('unshare', (272, 97), 0x10000000)
call('socket', (41, 198), 40, 1, 0)
"
    );
    let output = engine.run_with(&Policy::default(), python(&probe)).await.unwrap();
    assert!(stdout(&output).lines().all(|line| line.ends_with("EPERM")));
    if !counts_refusals(&output) {
        return skip(NAME, "this kernel cannot count refused calls, and the outcome says so");
    }
    assert_eq!(refused_calls(&output), BTreeMap::from([("keyctl", 5), ("unshare", 2), ("socket", 1)]));
    assert!(output.outcome.violations.iter().all(|violation| violation.control == Control::Syscalls));
    // What is allowed is not counted.
    let output = engine.run(sh("true")).await.unwrap();
    assert_eq!(output.outcome.violations, []);
}
