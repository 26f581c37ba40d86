//! Real work: what people do in a box has to work in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests assert by panicking")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{PYTHON, Place, engine, has_program, python, python_outside, sh, skip};
use hotcell::{Policy, SpawnConfig, Status, TtySize};

/// Runs a script that must succeed, in a box with a place of its own to write to; its stdout.
async fn works_in(test: &str, place: &Place, script: &str) -> Option<String> {
    let engine = engine(test).await?;
    let policy =
        Policy::builder().write(place.path()).cwd(place.path()).timeout(Duration::from_secs(60)).build().unwrap();
    Some(common::stdout(&engine.run_with(&policy, sh(script)).await.unwrap()))
}

async fn works(test: &str, script: &str) -> Option<String> {
    let engine = engine(test).await?;
    Some(common::stdout(&engine.run(sh(script)).await.unwrap()))
}

#[tokio::test]
async fn git() {
    if !has_program("git", "/usr/bin/git") {
        return;
    }
    let script = "cd ~ && mkdir repo && cd repo && git init -q . && git config user.name a && git config user.email a@b && \
                  echo hello > f && git add f && git commit -qm first && git mv f g && git commit -qam second && \
                  git clone -q . ../copy && git -C ../copy log --format=%s";
    assert_eq!(works("git", script).await.unwrap_or("second\nfirst\n".into()), "second\nfirst\n");
}

#[tokio::test]
async fn git_in_a_tree_of_the_host() {
    let test = "git_in_a_tree_of_the_host";
    if !has_program(test, "/usr/bin/git") {
        return;
    }
    let place = Place::new();
    let outside = |args: &[&str]| {
        let output = Command::new("/usr/bin/git").arg("-C").arg(place.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    outside(&["init", "-q", "."]);
    place.file("f", "hello\n");
    let script = "git -c user.name=a -c user.email=a@b add f && git -c user.name=a -c user.email=a@b commit -qm inside && git log --format=%s";
    let Some(said) = works_in(test, &place, script).await else { return };
    assert_eq!(said, "inside\n");
    assert_eq!(outside(&["log", "--format=%s"]), "inside\n");
    outside(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_c_compiler() {
    if !has_program("a_c_compiler", "/usr/bin/gcc") {
        return;
    }
    let place = Place::new();
    place.file(
        "m.c",
        "#include <stdio.h>\n#include <math.h>\nint main(void) { printf(\"%.0f\\n\", sqrt(1764.0)); return 0; }\n",
    );
    let Some(said) = works_in("a_c_compiler", &place, "gcc -O2 -o m m.c -lm && ./m").await else { return };
    assert_eq!(said, "42\n");
    // It is a real file of the caller's.
    let outside = Command::new(place.join("m")).output().unwrap();
    assert_eq!(outside.stdout, b"42\n");
}

#[tokio::test]
async fn make_in_parallel() {
    let test = "make_in_parallel";
    if !has_program(test, "/usr/bin/make") {
        return;
    }
    let place = Place::new();
    place.file("Makefile", "all: a b c d\n\tcat a b c d\na b c d:\n\tsleep 0.05; echo $@ > $@\n");
    let Some(said) = works_in(test, &place, "make -s -j4").await else { return };
    assert_eq!(said, "a\nb\nc\nd\n");
}

#[tokio::test]
async fn multiprocessing() {
    let test = "multiprocessing";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let place = Place::new();
    let program = "import multiprocessing as m\n\ndef f(x): return x * x\n\nif __name__ == '__main__':\n    for kind in ['fork', 'spawn', 'forkserver']:\n        c = m.get_context(kind)\n        with c.Pool(3) as p: print(sum(p.map(f, range(100))))\n        q = c.Queue(); l = c.Lock(); v = c.Value('i', 5); v.value += 1; q.put(v.value); print(q.get())\n    from concurrent.futures import ThreadPoolExecutor as T\n    print(sum(T(8).map(f, range(10))))\n    from multiprocessing import shared_memory as s\n    b = s.SharedMemory(create=True, size=1 << 20); b.buf[0] = 7; print(b.buf[0]); b.close(); b.unlink()\n";
    let file = place.file("work.py", program);
    let policy = Policy::builder().read(place.path()).build().unwrap();
    let output = engine.run_with(&policy, SpawnConfig::new(PYTHON).arg("-I").arg(&file)).await.unwrap();
    assert_eq!(common::stdout(&output), "328350\n6\n".repeat(3) + "285\n7\n");
}

/// Makes a wheel by hand: it is a zip file with a list of what is in it.
fn wheel(place: &Place) -> bool {
    let program = format!(
        "import zipfile\nz = zipfile.ZipFile({:?}, 'w')\nd = 'pocket-1.0.dist-info/'\nz.writestr('pocket/__init__.py', 'ANSWER = 42\\n')\nz.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: pocket\\nVersion: 1.0\\n')\nz.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: hand\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\nz.writestr(d + 'RECORD', 'pocket/__init__.py,,\\n' + d + 'METADATA,,\\n' + d + 'WHEEL,,\\n' + d + 'RECORD,,\\n')\nz.close()",
        place.join("pocket-1.0-py3-none-any.whl")
    );
    python_outside(&program);
    place.join("pocket-1.0-py3-none-any.whl").exists()
}

#[tokio::test]
async fn pip_installs_a_local_wheel() {
    let test = "pip_installs_a_local_wheel";
    if !has_program(test, PYTHON) {
        return;
    }
    let pip = Command::new(PYTHON).args(["-I", "-m", "pip", "--version"]).output().unwrap();
    if !pip.status.success() {
        return skip(test, "pip is not installed for the system's Python");
    }
    let Some(engine) = engine(test).await else { return };
    let place = Place::new();
    assert!(wheel(&place));
    let policy = Policy::builder().read(place.path()).timeout(Duration::from_secs(60)).build().unwrap();
    let script = format!(
        "{PYTHON} -m pip install -q --no-index --target ~/lib {}/*.whl && PYTHONPATH=~/lib {PYTHON} -c 'import pocket; print(pocket.ANSWER)'",
        place.path().display()
    );
    let output = engine.run_with(&policy, sh(&script)).await.unwrap();
    assert_eq!(common::stdout(&output), "42\n");
}

#[tokio::test]
async fn node() {
    if !has_program("node", "/usr/bin/node") {
        return;
    }
    let script = "cat > ~/w.js <<'E'\nconst { Worker, isMainThread, parentPort } = require('worker_threads');\nif (isMainThread) {\n  const { execFileSync } = require('child_process');\n  console.log(execFileSync('echo', ['child']).toString().trim());\n  require('fs').writeFileSync('/tmp/x', 'y');\n  new Worker(__filename).on('message', m => console.log(m));\n} else parentPort.postMessage('worker ' + 6 * 7);\nE\nnode ~/w.js";
    let Some(said) = works("node", script).await else { return };
    assert_eq!(said, "child\nworker 42\n");
}

#[tokio::test]
async fn an_interactive_shell() {
    let test = "an_interactive_shell";
    if !has_program(test, "/bin/bash") {
        return;
    }
    let Some(engine) = engine(test).await else { return };
    let policy = Policy::builder().tty(true).timeout(Duration::from_secs(30)).build().unwrap();
    let config =
        SpawnConfig::new("/bin/bash").args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").tty(TtySize::default());
    let mut command = engine.start(&policy, config).await.unwrap();
    let io = command.take_io();
    let (mut stdin, mut output) = (io.stdin.unwrap(), io.output.unwrap());
    // Job control needs a terminal that is its own.
    stdin.write_all(b"sleep 600 &\njobs; kill %1; echo $((6*7))-done; exit 5\n").await.unwrap();
    let mut seen = String::new();
    while let Some(event) = output.next().await {
        seen.push_str(&String::from_utf8_lossy(&event.bytes));
    }
    assert!(seen.contains("42-done") && seen.contains("Running"), "{seen}");
    assert!(!seen.contains("no job control"), "{seen}");
    assert_eq!(command.finish().await.unwrap().status, Status::Exited(5));
}

#[tokio::test]
async fn terminals_made_inside() {
    let test = "terminals_made_inside";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let program = "import os, pty\npid, fd = pty.fork()\nif pid == 0: os.execvp('sh', ['sh', '-c', 'test -t 0 && stty size'])\nseen = b''\nwhile not seen.endswith(b'\\n'): seen += os.read(fd, 99)\nprint(seen); print(os.waitpid(pid, 0)[1])";
    assert_eq!(common::stdout(&engine.run(python(program)).await.unwrap()), "b'0 0\\r\\n'\n0\n");
    if has_program(test, "/usr/bin/script") {
        let output = engine.run(sh("script -qec 'test -t 1 && echo terminal' /dev/null")).await.unwrap();
        assert_eq!(common::stdout(&output).trim_end(), "terminal");
    }
}

#[tokio::test]
async fn archives() {
    let script = "mkdir -p ~/a/b && echo x > ~/a/b/f && ln -s f ~/a/b/l && chmod 750 ~/a/b/f && tar -C ~ -czf /tmp/a.tgz a && \
                  mkdir ~/out && tar -C ~/out -xzf /tmp/a.tgz && readlink ~/out/a/b/l && cat ~/out/a/b/l && stat -c %a ~/out/a/b/f";
    let Some(said) = works("archives", script).await else { return };
    assert_eq!(said, "f\nx\n750\n");
}

#[tokio::test]
async fn names_users_and_languages() {
    let test = "names_users_and_languages";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let program = "import getpass, grp, locale, os, pwd, socket, sys, tempfile, time\nprint(sorted({a[4][0] for a in socket.getaddrinfo('localhost', 80)})[0])\nprint(pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name, getpass.getuser())\nprint(os.path.expanduser('~'), tempfile.gettempdir(), os.getcwd())\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')\nprint('\\u00e9', sys.getfilesystemencoding())\nassert time.tzname and os.cpu_count() >= 1 and os.getloadavg()\nassert len(os.urandom(8)) == 8 and os.getpid() > 1";
    let output = engine.run(python(program).env("LC_ALL", "C.UTF-8")).await.unwrap();
    assert_eq!(
        common::stdout(&output),
        "127.0.0.1\nhotcell hotcell hotcell\n/home/hotcell /tmp /home/hotcell\n\u{e9} utf-8\n"
    );
}

#[tokio::test]
async fn sockets_inside_the_box() {
    let test = "sockets_inside_the_box";
    let Some(engine) = engine(test).await else { return };
    if !has_program(test, PYTHON) {
        return;
    }
    let program = "import asyncio, os, socket\nasync def main():\n  async def serve(r, w): w.write(await r.readline()); await w.drain(); w.close()\n  for make in ('tcp', 'unix'):\n    if make == 'tcp': s = await asyncio.start_server(serve, '127.0.0.1', 0); r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\n    else: s = await asyncio.start_unix_server(serve, '/tmp/s'); r, w = await asyncio.open_unix_connection('/tmp/s')\n    w.write(b'hello\\n'); print((await r.readline()).decode().strip())\n  p = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1); print((await p.communicate())[0].decode().strip())\nasyncio.run(main())\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))";
    assert_eq!(common::stdout(&engine.run(python(program)).await.unwrap()), "hello\nhello\nchild\nb'x'\n");
}

#[tokio::test]
async fn what_debuggers_and_profilers_of_ones_own_need() {
    // A program may look at itself and at what it started.
    let script = "cat /proc/self/status >/dev/null && cat /proc/self/maps >/dev/null && ls /proc/self/fd >/dev/null && \
                  cat /proc/cpuinfo /proc/meminfo /proc/uptime /proc/loadavg >/dev/null && \
                  sleep 600 & ps=$!; tr '\\0' ' ' < /proc/$ps/cmdline; readlink /proc/$ps/exe >/dev/null && echo seen; kill $ps";
    let Some(said) = works("what_debuggers_and_profilers_of_ones_own_need", script).await else { return };
    assert!(said.contains("seen"), "{said}");
    assert!(Path::new("/proc/self/maps").exists());
}
