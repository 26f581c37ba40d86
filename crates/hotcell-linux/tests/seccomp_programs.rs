//! Real programs under the filter: what people run in a box has to work.
//!
//! Only the filter is tested here, not the box around it. A program that is not installed is skipped
//! by name.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the filter has to be loaded between fork and exec")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests assert by panicking and print what they skip"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotcell_linux::seccomp::{Arch, FilterOptions, SockFilter, compile};

/// Runs a shell script under the filter, in a fresh directory, and expects `output` on its stdout.
fn run(needs: &str, script: &str, output: &str) {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(needs).is_file()));
    if !found {
        println!("SKIP {needs} is not installed");
        return;
    }
    let directory = scratch(needs);
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(&directory);
    // Nothing that the tools keep in the real home directory may matter, or be changed.
    command.env("HOME", &directory).env("TMPDIR", &directory);
    filter(&mut command);
    let result = command.output().expect("the shell starts under the filter");
    std::fs::remove_dir_all(&directory).ok();
    let stdout = String::from_utf8_lossy(&result.stdout);
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(
        result.status.success() && stdout.trim_end() == output,
        "{needs}: {}\nstdout: {stdout}\nstderr: {stderr}",
        result.status
    );
}

fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("seccomp-{name}"));
    std::fs::remove_dir_all(&directory).ok();
    std::fs::create_dir_all(&directory).expect("the scratch directory can be made");
    directory
}

fn filter(command: &mut Command) {
    #[repr(C)]
    struct Fprog {
        length: u16,
        instructions: *const SockFilter,
    }
    let arch = Arch::native().expect("the tests run on a supported architecture");
    let program = compile(arch, &FilterOptions::default());
    let load = move || {
        let fprog = Fprog {
            length: u16::try_from(program.instructions.len()).unwrap_or(u16::MAX),
            instructions: program.instructions.as_ptr(),
        };
        // SAFETY: `fprog` describes a live slice, and the kernel only reads it.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(libc::SYS_seccomp, 1, 0, &raw const fprog)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure only makes two system calls and neither allocates nor locks.
    unsafe { command.pre_exec(load) };
}

#[test]
fn shell_and_core_utilities() {
    run(
        "bash",
        r#"bash -c 'cp /bin/sh copy; ln -s copy link; mkfifo pipe; (echo through > pipe) & read -r word < pipe
           tar cf a.tar copy link; mkdir d; tar xf a.tar -C d; cmp copy d/copy
           chmod 755 copy; find . -name "c*" | sort | xargs -n1 basename | uniq; wait; echo "$word" | tr a-z A-Z'"#,
        "copy\nTHROUGH",
    );
}

#[test]
fn python_threads_processes_sockets_and_terminals() {
    run(
        "python3",
        r"cat > work.py <<'PY'
import asyncio, multiprocessing, os, pty, socket, sqlite3, subprocess, tempfile, threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import shared_memory

def square(n):
    return n * n

async def echo():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b'echo\n')
    return (await reader.readline()).decode().strip()

if __name__ == '__main__':
    for method in ('fork', 'spawn', 'forkserver'):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(square, range(4))) == 14
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.close(); block.unlink()
    with tempfile.NamedTemporaryFile() as file:
        with sqlite3.connect(file.name) as db:
            db.execute('create table t(x)')
    assert subprocess.run(['true']).returncode == 0
    socket.if_nameindex()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp('tty', ['tty'])
    assert b'/dev/pts' in os.read(terminal, 100)
    os.waitpid(pid, 0)
    print(asyncio.run(echo()))
PY
python3 work.py",
        "echo",
    );
}

#[test]
fn python_packages() {
    run(
        "pip3",
        r"python3 - <<'PY'
import zipfile
info = 'hello-1.dist-info'
with zipfile.ZipFile('hello-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('hello.py', 'x = 42')
    wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\nName: hello\nVersion: 1\n')
    wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(f'{info}/RECORD', '')
PY
pip3 install --quiet --no-index --target out hello-1-py3-none-any.whl >&2
PYTHONPATH=out python3 -c 'import hello; print(hello.x)'",
        "42",
    );
}

#[test]
fn node_workers_children_and_servers() {
    run(
        "node",
        r"cat > work.js <<'JS'
const { Worker } = require('worker_threads');
const { execFileSync } = require('child_process');
const fs = require('fs'), http = require('http'), os = require('os');
os.networkInterfaces();
fs.watch('.').close();
execFileSync('true');
new Worker('require(`worker_threads`).parentPort.postMessage(7)', { eval: true }).on('message', (seven) => {
  const server = http.createServer((_, answer) => answer.end('six times ' + seven)).listen(0, '127.0.0.1', () => {
    http.get(server.address(), (answer) => answer.on('data', (data) => { console.log(String(data)); server.close(); }));
  });
});
JS
node work.js",
        "six times 7",
    );
}

#[test]
fn node_packages() {
    run(
        "npm",
        r#"mkdir dep; echo '{"name":"dep","version":"1.0.0"}' > dep/package.json
echo 'module.exports=42' > dep/index.js
echo '{"name":"app","version":"1.0.0","dependencies":{"dep":"file:./dep"}}' > package.json
npm install --offline --no-audit --no-fund >&2; node -p 'require("dep")'"#,
        "42",
    );
}

#[test]
fn c_compiler() {
    run(
        "gcc",
        r#"cat > a.c <<'C'
#include <pthread.h>
#include <stdio.h>
static void *thread(void *nothing) { return nothing; }
int main(void) {
    pthread_t handle;
    pthread_create(&handle, 0, thread, 0);
    pthread_join(handle, 0);
    puts("compiled");
}
C
gcc -O2 -pthread a.c -o a; ./a"#,
        "compiled",
    );
}

#[test]
fn git_repositories() {
    run(
        "git",
        r"git init -q repo; cd repo; git config user.name t; git config user.email t@example.com
echo 1 > file; git add file; git commit -qm one; git gc -q; git clone -q . ../copy
git -C ../copy log --format=%s",
        "one",
    );
}

#[test]
fn rust_compiler() {
    // The toolchain proxy looks into the home directory; the compiler itself does not need one.
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Ok(sysroot) = sysroot else {
        println!("SKIP rustc is not installed");
        return;
    };
    let sysroot = String::from_utf8_lossy(&sysroot.stdout);
    let sysroot = sysroot.trim_end();
    // The empty workspace keeps cargo from looking for one in the directories above.
    run(
        "cc",
        &format!(
            r#"export PATH="{sysroot}/bin:$PATH" CARGO_TARGET_DIR=target; mkdir src
printf '[package]\nname = "hello"\nedition = "2024"\n[workspace]\n' > Cargo.toml
echo 'fn main() {{ println!("Hello, world!"); }}' > src/main.rs
cargo run -q --offline"#
        ),
        "Hello, world!",
    );
}

#[test]
fn go_programs() {
    run(
        "go",
        r#"cat > a.go <<'GO'
package main

import ("fmt"; "net"; "os/exec")

func main() {
    listener, err := net.Listen("tcp", "127.0.0.1:0")
    if err != nil { panic(err) }
    listener.Close()
    if _, err := net.Interfaces(); err != nil { panic(err) }
    output, err := exec.Command("echo", "ran").Output()
    fmt.Print(string(output), err)
}
GO
# Building Go's library takes seconds, so its cache is the one thing that stays.
export GOCACHE="$PWD/../seccomp-go-cache" GOTOOLCHAIN=local
go run a.go"#,
        "ran\n<nil>",
    );
}

#[test]
fn java_programs() {
    run(
        "javac",
        r#"cat > A.java <<'JAVA'
public class A {
    public static void main(String[] none) throws Exception {
        Thread thread = new Thread(() -> System.gc());
        thread.start();
        thread.join();
        java.net.NetworkInterface.getNetworkInterfaces();
        System.out.println(new ProcessBuilder("true").start().waitFor());
    }
}
JAVA
javac A.java; java A"#,
        "0",
    );
}

#[test]
fn terminal_multiplexer() {
    run(
        "tmux",
        r#"export TERM=xterm; tmux -S socket new-session -d -x 80 -y 24 'tty > which; sleep 5'
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s which ] && break; sleep 0.1; done
tmux -S socket kill-server; cut -d/ -f1-3 which"#,
        "/dev/pts",
    );
}
