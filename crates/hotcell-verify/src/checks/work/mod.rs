//! What must still work in a box: a box in which nothing works holds everything.
//!
//! Each script does some ordinary work in a place of its own and prints `works` if the result is right. Most places are
//! private to the box; `{workspace}` is a tree of the host's.

mod host_side;

use hotcell::policy::PolicyBuilder;

use crate::arena::Arena;
use crate::check::Group::Work;
use crate::check::{Check, Impact, Need, check};

/// Scripts, and work with what a box leaves on the host's side.
pub(super) const CHECKS: &[&[Check]] = &[SCRIPTS, host_side::CHECKS];

/// The Python that boxes see: the system's own, not one in somebody's home.
const PYTHON: Need = Need::Program("/usr/bin/python3");

fn writable_workspace(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    policy.write(arena.workspace())
}

/// Toolchains are shown where they are, as far as they are not in a system directory.
fn with_rust(policy: PolicyBuilder, arena: &Arena) -> PolicyBuilder {
    match arena.rust() {
        Some(toolchain) => policy.read(toolchain),
        None => policy,
    }
}

/// A case that is a shell script, in an empty directory of its own.
macro_rules! script {
    ($id:literal, $tries:literal, $($line:literal),+ $(,)?) => {
        check(concat!("work.", $id), Work, $tries).safe("it works as it does outside").impact(Impact::SelfDoS).shell(concat!(
            "place=$(mktemp -d 2> /dev/null || mktemp -d '{workspace}/XXXXXX') || exit; trap 'rm -rf \"$place\"' EXIT; cd \"$place\" || exit; export HOME=\"$place\"\n",
            $($line, "\n"),+,
            "echo done"
        ))
    };
}

/// A case that is a Python program; it prints `works` itself.
macro_rules! python {
    ($id:literal, $tries:literal, $($line:literal),+ $(,)?) => {
        script!($id, $tries, "cat > program.py <<'END'", $($line),+, "END", "/usr/bin/python3 -I program.py").needs(&[PYTHON])
    };
}

const SCRIPTS: &[Check] = &[
    python!(
        "pip",
        "install a wheel with pip and import what it brings",
        "import os, subprocess, sys, zipfile",
        "name = 'pocket-1.0-py3-none-any.whl'",
        "info = 'pocket-1.0.dist-info/'",
        "with zipfile.ZipFile(name, 'w') as wheel:",
        "    wheel.writestr('pocket/__init__.py', 'ANSWER = 42\\n')",
        "    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: pocket\\nVersion: 1.0\\n')",
        "    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: hand\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')",
        "    wheel.writestr(info + 'RECORD', ''.join(n + ',,\\n' for n in ['pocket/__init__.py', info + 'METADATA', info + 'WHEEL', info + 'RECORD']))",
        "pip = [sys.executable, '-I', '-m', 'pip', '--isolated', '--disable-pip-version-check', 'install', '-q', '--no-index']",
        "subprocess.run(pip + ['--no-cache-dir', '--no-compile', '--target', 'lib', name], check=True)",
        "sys.path.insert(0, os.path.abspath('lib'))",
        "import pocket",
        "print('works' if pocket.ANSWER == 42 else 'no')",
    )
    .needs(&[PYTHON, Need::Program("pip3")]),
    script!(
        "git",
        "make a repository, commit to it, clone it",
        "git init -q repository && cd repository || exit",
        "git config user.name a && git config user.email a@example.org",
        "echo hello > file && git add file && git commit -qm first && git mv file moved && git commit -qam second",
        "git clone -q . ../copy && test \"$(git -C ../copy log --format=%s | tr '\\n' ' ')\" = 'second first ' && echo works",
    )
    .needs(&[Need::Program("git")]),
    script!(
        "git-in-a-tree",
        "commit to a repository of the host's",
        "cd '{workspace}' && mkdir -p .git/objects .git/refs || exit",
        "git -c safe.directory='*' -c user.name=a -c user.email=a@example.org add file || exit",
        "git -c safe.directory='*' -c user.name=a -c user.email=a@example.org commit -qm inside || exit",
        "test \"$(git -c safe.directory='*' log --format=%s)\" = inside && echo works",
    )
    .grant(writable_workspace)
    .needs(&[Need::Program("git")]),
    script!(
        "npm",
        "pack a package and install it offline",
        "mkdir pocket user && cd pocket || exit",
        "printf '{\"name\":\"pocket\",\"version\":\"1.0.0\",\"main\":\"m.js\"}' > package.json; echo 'module.exports = 42' > m.js",
        "npm pack --silent --offline > /dev/null && cd ../user && echo '{}' > package.json || exit",
        "npm install --silent --offline --no-audit --no-fund ../pocket/pocket-1.0.0.tgz || exit",
        "test \"$(node -p 'require(\"pocket\")')\" = 42 && echo works",
    )
    .needs(&[Need::Program("npm"), Need::Program("node")]),
    script!(
        "cargo",
        "build a crate with cargo, offline, and run it",
        "export CARGO_HOME=\"$place/cargo\" PATH=\"{rust}/bin:$PATH\"",
        "mkdir -p hello/src && cd hello || exit",
        "printf '[package]\\nname = \"hello\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' > Cargo.toml",
        "echo 'fn main() { println!(\"works\"); }' > src/main.rs",
        "cargo build -q --offline && ./target/debug/hello",
    )
    .grant(with_rust)
    .needs(&[Need::Program("cargo"), Need::Program("cc")]),
    script!(
        "compiler",
        "compile and link a C program and run it",
        "printf '#include <stdio.h>\\n#include <math.h>\\nint main(int n, char **v) { (void)v; printf(\"%%.0f\\\\n\", sqrt(1763.0 + n)); return 0; }\\n' > m.c",
        "gcc -O1 -o m m.c -lm && test \"$(./m)\" = 42 && echo works",
    )
    .needs(&[Need::Program("gcc")]),
    script!(
        "make",
        "run a makefile in parallel",
        "printf 'all: a b c d\\n\\tcat a b c d\\na b c d:\\n\\techo $@ > $@\\n' > Makefile",
        "test \"$(make -s -j4 | tr '\\n' ' ')\" = 'a b c d ' && echo works",
    )
    .needs(&[Need::Program("make")]),
    python!(
        "multiprocessing",
        "share work among Python processes, with a lock, a queue and shared memory",
        "import multiprocessing",
        "from multiprocessing import shared_memory",
        "def square(x): return x * x",
        "if __name__ == '__main__':",
        "    right = True",
        "    for kind in ['fork', 'spawn']:",
        "        context = multiprocessing.get_context(kind)",
        "        with context.Pool(2) as pool: right &= sum(pool.map(square, range(100))) == 328350",
        "        queue, lock, value = context.Queue(), context.Lock(), context.Value('i', 5)",
        "        with lock: value.value += 1",
        "        queue.put(value.value)",
        "        right &= queue.get() == 6",
        "    block = shared_memory.SharedMemory(create=True, size=1 << 20)",
        "    block.buf[0] = 7",
        "    other = shared_memory.SharedMemory(name=block.name)",
        "    right &= other.buf[0] == 7",
        "    other.close(); block.close(); block.unlink()",
        "    print('works' if right else 'no')",
    ),
    python!(
        "threads",
        "run many threads that wait for one another",
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "barrier = threading.Barrier(16)",
        "def wait(x): barrier.wait(5); return x",
        "with ThreadPoolExecutor(16) as pool: print('works' if sum(pool.map(wait, range(16))) == 120 else 'no')",
    ),
    python!(
        "sqlite",
        "write to an SQLite database with a journal and read it from a second connection",
        "import sqlite3",
        "one = sqlite3.connect('data'); one.execute('pragma journal_mode=wal'); one.execute('create table t (x)')",
        "with one: one.executemany('insert into t values (?)', [(n,) for n in range(100)])",
        "print('works' if sqlite3.connect('data').execute('select sum(x) from t').fetchone() == (4950,) else 'no')",
    ),
    script!(
        "node",
        "run Node with files, a child process and a worker thread",
        "cat > m.js <<'END'",
        "const { Worker, isMainThread, parentPort } = require('worker_threads');",
        "if (!isMainThread) { parentPort.postMessage(6 * 7); } else {",
        "  require('fs').writeFileSync('x', require('child_process').execFileSync('echo', ['child']));",
        "  const child = require('fs').readFileSync('x', 'utf8').trim();",
        "  new Worker(__filename).on('message', m => console.log(m === 42 && child === 'child' ? 'works' : 'no'));",
        "}",
        "END",
        "node m.js",
    )
    .needs(&[Need::Program("node")]),
    script!(
        "java",
        "start a Java virtual machine",
        "timeout 5 java -XshowSettings:none -version > out 2>&1 && grep -q 'version \"' out && echo works",
    )
    .needs(&[Need::Program("java")]),
    python!(
        "terminal",
        "open a pseudo-terminal and run a shell on it",
        "import os, pty",
        "pid, master = pty.fork()",
        "if pid == 0: os.execv('/bin/sh', ['sh', '-c', 'test -t 0 && test -t 1 && stty size && tty'])",
        "said = b''",
        "while True:",
        "    try: piece = os.read(master, 99)",
        "    except OSError: break",
        "    if not piece: break",
        "    said += piece",
        "print('works' if os.waitpid(pid, 0)[1] == 0 and b'/dev/pts/' in said else said)",
    ),
    python!(
        "names",
        "look up localhost, the user and the group",
        "import getpass, grp, os, pwd, socket",
        "addresses = {a[4][0] for a in socket.getaddrinfo('localhost', 80)}",
        "user = pwd.getpwuid(os.getuid()).pw_name",
        "right = '127.0.0.1' in addresses and user and grp.getgrgid(os.getgid()).gr_name and socket.gethostname()",
        "print('works' if right else 'no')",
    )
    .needs(&[PYTHON, Need::UserName]),
    script!(
        "users-and-time",
        "ask for the user, the date and the time zone",
        "whoami > /dev/null && id -un > /dev/null && test \"$(TZ=UTC date -d @0 +%Y-%m-%d)\" = 1970-01-01 || exit",
        "test \"$(date +%s)\" -gt 1700000000 && test -n \"$(date +%Z)\" && echo works",
    )
    .needs(&[Need::UserName]),
    python!(
        "locale",
        "print and sort text that is not ASCII",
        "import locale, os, subprocess, sys",
        "os.environ['LC_ALL'] = 'C.UTF-8'; locale.setlocale(locale.LC_ALL, 'C.UTF-8')",
        "word = '\\u00e9\\u6570'",
        "open(word, 'w').write(word)",
        "said = subprocess.run(['sort', word], capture_output=True).stdout.decode().strip()",
        "print('works' if said == word and word in os.listdir('.') and sys.getfilesystemencoding() == 'utf-8' else said)",
    ),
    script!(
        "pipelines",
        "connect programs by pipes, process substitution and named pipes",
        "mkfifo pipe && (echo through > pipe &) && test \"$(timeout 2 cat pipe)\" = through || exit",
        "test \"$(bash -c 'set -o pipefail; paste -d+ <(seq 3) <(seq 4 6) | tail -n 1')\" = 3+6 || exit",
        "test \"$(head -c 33554432 /dev/zero | cat | wc -c)\" = 33554432 && echo works",
    )
    .needs(&[Need::Program("bash")]),
    script!(
        "archives",
        "pack and unpack files with links, modes and times",
        "mkdir -p a/b && echo x > a/b/f && ln -s f a/b/l && ln a/b/f a/b/h && chmod 750 a/b/f && touch -d @1000000000 a/b/f || exit",
        "tar -czf a.tgz a && mkdir out && tar -C out -xpzf a.tgz || exit",
        "test \"$(stat -c '%a %h %Y' out/a/b/f) $(readlink out/a/b/l) $(cat out/a/b/h)\" = '750 2 1000000000 f x' && echo works",
    ),
    script!(
        "links-in-a-tree",
        "make, rename and remove files and links in a tree of the host's",
        "cd '{workspace}' && mkdir d && echo x > d/f && ln d/f d/h && ln -s f d/l && chmod 640 d/f || exit",
        "test \"$(stat -c %h d/f) $(cat d/l)\" = '2 x' && mv d/f d/g && ! test -e d/l && rm -r d && ! test -e d && echo works",
    )
    .grant(writable_workspace),
    python!(
        "descriptors",
        "send a descriptor over a Unix socket",
        "import array, os, socket",
        "a, b = socket.socketpair()",
        "r, w = os.pipe()",
        "a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [w]).tobytes())])",
        "message, extra, flags, who = b.recvmsg(1, socket.CMSG_SPACE(4))",
        "os.write(array.array('i', extra[0][2][:4])[0], b'through')",
        "print('works' if os.read(r, 7) == b'through' else 'no')",
    ),
    python!(
        "loopback",
        "serve and connect inside the box, by TCP, UDP and a Unix socket",
        "import asyncio, socket",
        "async def main():",
        "    async def serve(r, w): w.write(await r.readline()); await w.drain(); w.close()",
        "    right = True",
        "    for kind in ('tcp', 'unix'):",
        "        if kind == 'tcp':",
        "            s = await asyncio.start_server(serve, '127.0.0.1', 0)",
        "            r, w = await asyncio.open_connection(*s.sockets[0].getsockname())",
        "        else:",
        "            s = await asyncio.start_unix_server(serve, 'socket')",
        "            r, w = await asyncio.open_unix_connection('socket')",
        "        w.write(b'hello\\n')",
        "        right &= await r.readline() == b'hello\\n'",
        "    return right",
        "right = asyncio.run(main())",
        "one, two = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)",
        "one.bind(('127.0.0.1', 0)); two.sendto(b'x', one.getsockname())",
        "print('works' if right and one.recv(1) == b'x' else 'no')",
    ),
    script!(
        "limits-of-ones-own",
        "lower limits for a command of one's own",
        "test \"$(ulimit -n 64; ulimit -n)\" = 64 && (ulimit -f 8; head -c 65536 /dev/zero > big) 2> /dev/null; test $? -gt 128 && echo works",
    ),
    script!(
        "processes-of-ones-own",
        "look at and end processes of one's own",
        "sleep 5 & child=$!",
        "until test \"$(tr '\\0' ' ' < /proc/$child/cmdline)\" = 'sleep 5 '; do kill -0 $child || exit; done; kill -TERM $child",
        "wait $child; test $? = 143 && cat /proc/self/status /proc/self/maps /proc/cpuinfo /proc/meminfo > /dev/null && echo works",
    ),
];
