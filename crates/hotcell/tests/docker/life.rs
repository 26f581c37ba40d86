//! Boxes in containers: what runs in them, and what it can reach.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use hotcell::policy::{BoxUser, NetworkMode};
use hotcell::{Capability, Control, FilesError, Isolation, SpawnConfig, Status, StdinMode, TtySize};
use hotcell_backends::docker::{DockerBackend, DockerOptions};

use crate::common::{self, Place, python, run_in, sh, stdout};
use crate::support::{hosts, policy};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_and_its_end_is_told() {
    for host in hosts("a_command_runs_and_its_end_is_told").await {
        let engine = host.engine().await;
        let policy = policy().build().unwrap();
        let output = engine.run_with(&policy, sh("echo out; echo err >&2; exit 7")).await.unwrap();
        assert_eq!(output.status(), Status::Exited(7));
        assert_eq!(common::text(&output.stdout), "out\n");
        assert_eq!(common::text(&output.stderr), "err\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_box_is_closed() {
    for host in hosts("the_box_is_closed").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        let script = r"
import os, socket, json
status = dict(line.rstrip('\n').split(':\t', 1) for line in open('/proc/self/status') if ':\t' in line)
def errno(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return 0
print(json.dumps({
    'uid': os.getuid(), 'gid': os.getgid(), 'groups': [group for group in os.getgroups() if group != os.getgid()],
    'capabilities': [status[name] for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')],
    'no_new_privs': status['NoNewPrivs'], 'filters': int(status['Seccomp_filters']) > 1,
    'root': errno(lambda: open('/x', 'w')), 'etc': errno(lambda: open('/etc/passwd', 'a')),
    'proc': errno(lambda: open('/proc/sys/kernel/hostname', 'w')),
    'network': [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line],
    'sys': os.listdir('/sys'), 'keys': len(open('/proc/key-users').read()),
    'host': socket.gethostname(), 'pid1': open('/proc/1/comm').read().strip(),
    'tmp': errno(lambda: open('/tmp/x', 'w')), 'home': errno(lambda: open(os.environ['HOME'] + '/x', 'w')),
    'shm': errno(lambda: open('/dev/shm/x', 'w')), 'mknod': errno(lambda: os.mknod('/tmp/d', 0o20666, 259)),
    'unshare': errno(lambda: os.unshare(0x10000000)), 'init': errno(lambda: os.kill(1, 9)),
    'init_fds': errno(lambda: os.listdir('/proc/1/fd')),
}, sort_keys=True))
";
        let found = stdout(&run_in(&*sandbox, python(script)).await);
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let zero = "0000000000000000";
        assert_eq!(found["capabilities"], serde_json::json!([zero, zero, zero, zero, zero]), "{found}");
        assert_ne!(found["uid"], 0);
        for (name, expected) in [
            ("groups", serde_json::json!([])),
            ("no_new_privs", "1".into()),
            ("filters", true.into()),
            ("root", 30.into()),
            ("etc", 13.into()),
            ("network", serde_json::json!(["lo"])),
            ("sys", serde_json::json!([])),
            ("keys", 0.into()),
            ("host", "hotcell".into()),
            ("tmp", 0.into()),
            ("home", 0.into()),
            ("shm", 0.into()),
            ("mknod", 1.into()),
            ("unshare", 1.into()),
            ("init_fds", 13.into()),
        ] {
            assert_eq!(found[name], expected, "{name}: {found}");
        }
        assert_ne!(found["proc"], 0, "{found}");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_whole_in_both_directions() {
    for host in hosts("streams_are_whole_in_both_directions").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        // More than every buffer on the way.
        let sent: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
        let mut process = sandbox.spawn(SpawnConfig::new("cat").stdin(StdinMode::Piped)).await.unwrap();
        let mut io = process.take_io();
        let (mut stdin, mut output) = (io.stdin.take().unwrap(), io.output.take().unwrap());
        let writer = {
            let sent = sent.clone();
            tokio::spawn(async move {
                for part in sent.chunks(100_000) {
                    stdin.write_all(part).await.unwrap();
                }
                drop(stdin);
            })
        };
        let mut received = Vec::new();
        while let Some(event) = output.next().await {
            received.extend_from_slice(&event.bytes);
        }
        writer.await.unwrap();
        assert!(process.wait().await.unwrap().status.success());
        assert_eq!(received.len(), sent.len());
        assert!(received == sent, "bytes are changed on the way");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_held_and_told_apart() {
    for host in hosts("limits_are_held_and_told_apart").await {
        let engine = host.engine().await;
        if !matches!(host.backend.capabilities().of(Control::Memory), Capability::Enforced { .. }) {
            common::skip("life::limits_are_held_and_told_apart", "the engine has no cgroups to hold limits with");
            continue;
        }
        let limited = policy()
            .memory(64 << 20)
            .processes(24)
            .cpus(1.5)
            .cpu_time(Duration::from_secs(1))
            .disk(32 << 20)
            .output(1 << 20)
            .open_files(64)
            .timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        let sandbox = engine.create(&limited).await.unwrap();
        for (command, expected) in [
            (python("b = bytearray(200 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1"), Status::OutOfMemory),
            (python("while True: pass"), Status::CpuTime),
            (sh("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"), Status::Output),
            (sh("sleep 60").timeout(Duration::from_millis(300)), Status::TimedOut),
        ] {
            let output = run_in(&*sandbox, command).await;
            assert_eq!(output.status(), expected, "{}", common::text(&output.stderr));
        }
        let files = run_in(&*sandbox, python("f = [open('/dev/null') for i in range(100)]")).await;
        assert!(common::text(&files.stderr).contains("Too many open files"));
        let disk = run_in(&*sandbox, sh("head -c 64M /dev/zero > /tmp/a")).await;
        assert!(common::text(&disk.stderr).contains("No space left"), "{}", common::text(&disk.stderr));
        let disk = "for p in /tmp /home/hotcell /var/tmp /dev/shm; do cat /dev/zero > $p/a 2>/dev/null; done; \
                    cat /tmp/a /home/hotcell/a /var/tmp/a /dev/shm/a | wc -c";
        let written: u64 = stdout(&run_in(&*sandbox, sh(disk)).await).trim().parse().unwrap();
        assert!(written <= 32 << 20 && written > 30 << 20, "{written}");
        // In a box whose files take no memory.
        sandbox.destroy().await.unwrap();
        let sandbox = engine.create(&limited).await.unwrap();
        let forks = python("import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(2); os._exit(0)");
        assert_eq!(run_in(&*sandbox, forks).await.status(), Status::Processes);
        sandbox.destroy().await.unwrap();
        let sandbox = engine.create(&limited).await.unwrap();
        run_in(&*sandbox, python("bytearray(40 << 20)")).await;
        let usage = run_in(&*sandbox, sh("true")).await.outcome.usage;
        assert!(usage.peak_memory.is_some_and(|peak| peak > 32 << 20 && peak <= 64 << 20), "{usage:?}");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_end_with_their_command_when_it_times_out() {
    for host in hosts("daemons_end_with_their_command_when_it_times_out").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        let marker = common::marker();
        let script = format!("setsid sleep {marker} & sleep {marker}");
        let output = run_in(&*sandbox, sh(&script).timeout(Duration::from_millis(500))).await;
        assert_eq!(output.status(), Status::TimedOut);
        assert_eq!(common::processes_with(&marker), Vec::<u32>::new());
        assert_eq!(stdout(&run_in(&*sandbox, sh("echo still here")).await), "still here\n");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_one() {
    for host in hosts("a_terminal_is_one").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().tty(true).build().unwrap()).await.unwrap();
        let size = TtySize { rows: 33, columns: 101 };
        let mut process = sandbox.spawn(sh("stty size; read line; stty size; echo $line").tty(size)).await.unwrap();
        let mut io = process.take_io();
        let (mut stdin, mut output) = (io.stdin.take().unwrap(), io.output.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("33 101") {
            seen.push_str(&String::from_utf8_lossy(&output.next().await.unwrap().bytes));
        }
        process.resize(TtySize { rows: 44, columns: 55 }).await.unwrap();
        stdin.write_all(b"typed\n").await.unwrap();
        while let Some(event) = output.next().await {
            seen.push_str(&String::from_utf8_lossy(&event.bytes));
        }
        assert!(process.wait().await.unwrap().status.success());
        assert!(seen.contains("44 55") && seen.trim_end().ends_with("typed"), "{seen:?}");
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_are_shown_as_the_policy_says() {
    for host in hosts("trees_are_shown_as_the_policy_says").await {
        let place = Place::new();
        let (read, write) = (place.dir("read"), place.dir("write"));
        place.file("read/file", "readable");
        place.file("read/key", "secret");
        place.file("read/hidden/inner", "secret");
        place.file("write/.git/config", "[core]");
        let place_owner = own(&place, &host.backend);
        let policy =
            policy().read(&read).write(&write).deny(read.join("key")).deny(read.join("hidden")).build().unwrap();
        let engine = host.engine().await;
        let sandbox = engine.create(&policy).await.unwrap();
        let script = format!(
            "cd {}; cat read/file; echo; echo x > read/new; cat read/key; ls -A read/hidden; echo x > read/hidden/new; \
             echo new > write/made; echo bad >> write/.git/config; echo bad > write/.bashrc; mv write/.git write/gone; \
             mkdir write/.vscode/x; rm -rf write/.bashrc; echo done",
            place.path().display()
        );
        let output = run_in(&*sandbox, sh(&script)).await;
        assert_eq!(common::text(&output.stdout), "readable\ndone\n", "{}", common::text(&output.stderr));
        assert_eq!(fs::read_to_string(write.join("made")).unwrap(), "new\n");
        assert_eq!(fs::metadata(write.join("made")).unwrap().uid(), place_owner);
        sandbox.destroy().await.unwrap();
        assert_eq!(
            place.listing(),
            [
                "read",
                "read/file",
                "read/hidden",
                "read/hidden/inner",
                "read/key",
                "write",
                "write/.git",
                "write/.git/config",
                "write/made",
            ]
        );
        assert_eq!(fs::read_to_string(write.join(".git/config")).unwrap(), "[core]");
    }
}

/// Gives everything below a place to the user that boxes are, and says who that is.
pub(crate) fn own(place: &Place, backend: &DockerBackend) -> u32 {
    if !common::is_root() || backend.engine().rootless {
        return fs::metadata("/proc/self").unwrap().uid();
    }
    for path in place.listing() {
        std::os::unix::fs::chown(place.join(&path), Some(4242), Some(4242)).unwrap();
    }
    4242
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out() {
    for host in hosts("files_go_in_and_out").await {
        let engine = host.engine().await;
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        let files = sandbox.files().unwrap();
        let path = Path::new("/home/hotcell/deep/file");
        files.make_directory(Path::new("/home/hotcell/deep")).await.unwrap();
        files.write(path, b"content", 0o640).await.unwrap();
        assert_eq!(files.read(path, 100).await.unwrap(), b"content");
        assert_eq!(
            stdout(&run_in(&*sandbox, sh("cat /home/hotcell/deep/file; stat -c %a /home/hotcell/deep/file")).await),
            "content640\n"
        );
        assert!(matches!(files.read(path, 3).await, Err(FilesError::TooLarge { .. })));
        assert!(matches!(files.read(Path::new("/none"), 3).await, Err(FilesError::NotFound { .. })));
        assert!(files.write(Path::new("/etc/x"), b"", 0o644).await.is_err());
        sandbox.destroy().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_network_is_the_engines_bridge() {
    for host in hosts("an_open_network_is_the_engines_bridge").await {
        let engine = host.engine().await;
        let policy = policy().network(NetworkMode::Open).build().unwrap();
        let output = engine.run_with(&policy, sh("cat /proc/net/dev | grep -c :")).await;
        if output
            .as_ref()
            .is_err_and(|error| ["slirp4netns", "rootless netns"].iter().any(|part| error.to_string().contains(part)))
        {
            common::skip("life::an_open_network_is_the_engines_bridge", "slirp4netns is not installed");
            continue;
        }
        let output = output.unwrap();
        assert_eq!(stdout(&output).trim(), "2");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_held_is_refused_before_anything_runs() {
    for host in hosts("what_cannot_be_held_is_refused_before_anything_runs").await {
        let engine = host.engine().await;
        let missing = policy().image("hotcell-test:missing").build().unwrap();
        let error = engine.create(&missing).await.err().unwrap().to_string();
        assert!(error.contains("the engine has no image `hotcell-test:missing`"), "{error}");
        if !host.backend.engine().rootless {
            let root = policy().user(BoxUser::ROOT).build().unwrap();
            let error = engine.create(&root).await.err().unwrap().to_string();
            assert!(error.contains("is the host's root"), "{error}");
        }
        // As an ordinary user, who cannot mount into a container.
        if !common::is_root() {
            let overlay = policy().overlay("/usr/share").build().unwrap();
            let error = engine.create(&overlay).await.err().unwrap().to_string();
            assert!(error.contains("overlay"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_boxes_at_once() {
    for host in hosts("many_boxes_at_once").await {
        let engine = host.engine().await;
        let mut running = Vec::new();
        for number in 0..12 {
            let (engine, policy) = (engine.clone(), policy().build().unwrap());
            running.push(tokio::spawn(async move {
                let output = engine.run_with(&policy, sh(&format!("echo {number}"))).await.unwrap();
                assert_eq!(stdout(&output), format!("{number}\n"));
            }));
        }
        for task in running {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gvisors_kernel_answers() {
    for host in hosts("life::gvisors_kernel_answers").await {
        let options = DockerOptions::default().host(&host.address).runtime(Some("runsc".into()));
        let backend = DockerBackend::start(options).await.unwrap();
        let engine = hotcell::Engine::with_backends(vec![std::sync::Arc::new(backend)]).await.unwrap();
        // Looking for processes from time to time is good enough here.
        let policy = || policy().isolation(Isolation::UserKernel);
        if let Err(refusal) = engine.plan(&policy().build().unwrap()).await {
            assert!(refusal.to_string().contains("has no OCI runtime `runsc`"), "{refusal}");
            common::skip("life::gvisors_kernel_answers", "the engine has no runtime `runsc`");
            continue;
        }
        let sandbox = engine.create(&policy().build().unwrap()).await.unwrap();
        let host_kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let kernel = stdout(&run_in(&*sandbox, sh("uname -r; exit 0")).await);
        assert_ne!(kernel.trim(), host_kernel.trim());
        assert_eq!(run_in(&*sandbox, sh("exit 7")).await.status(), Status::Exited(7));
        let late = run_in(&*sandbox, sh("sleep 60").timeout(Duration::from_millis(500))).await;
        assert_eq!(late.status(), Status::TimedOut);
        sandbox.destroy().await.unwrap();
        // What it would not hold on the host is refused.
        let place = Place::new();
        place.file("tree/file", "content");
        let error = engine.create(&policy().read(place.join("tree")).build().unwrap()).await.err().unwrap();
        assert!(error.to_string().contains("could be truncated"), "{error}");
        assert!(engine.create(&policy().tty(true).build().unwrap()).await.is_err());
    }
}
