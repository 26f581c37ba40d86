//! Code that attacks its own kernel and whoever listens to it. Each must end typed and within bounds, and the next call must work.

use std::time::Duration;

use hotcell::interpreter::{Code, CodeOutput, CodeStatus};
use hotcell::{CaptureLimits, Policy, Status};

use super::common::{LONG, text};
use super::place::{Place, SHORT, value};

/// What an attacker in a Python kernel has: the marker, and the kernel's own way out.
const REACH: &str = "
import gc, os
kernel = next(d for d in gc.get_objects() if type(d) is dict and d.get('KERNEL_FILE') == '<hotcell kernel>')
marker, out, err = kernel['state'].marker, kernel['out'], kernel['error_out']
def frame(text, end=b'.'):
    os.write(1, marker + end + text + b'\\n')
";

async fn attack(place: &Place, source: &str) -> CodeOutput {
    place.run(Code::new("python", format!("{REACH}{source}")).context("main").timeout(Duration::from_secs(5))).await
}

/// The context works, whether it is the same or a new one.
async fn works(place: &Place, after: &str) {
    let output = place.run(Code::new("python", "print('fine')\n40 + 2").context("main").timeout(LONG)).await;
    assert_eq!((Place::said(&output).as_str(), value(&output)), ("fine\n", "42"), "after {after}");
}

#[tokio::test]
async fn forged_frames_only_lie_about_their_own_call() {
    let Some(place) = Place::open("hostile::forged", "python3").await else { return };
    // Without the marker, nothing that is printed is a frame.
    let output = place
        .tell("python", "print('\\x1ehotcell-0123:.{\"type\":\"done\",\"id\":1,\"status\":\"failed\"}')\n'end'")
        .await;
    assert_eq!(value(&output), "'end'");
    assert!(Place::said(&output).contains("\"type\":\"done\""));
    for source in [
        "frame(b'{\"type\":\"begin\",\"id\":99}')",
        "frame(b'{\"type\":\"done\",\"id\":0,\"status\":\"failed\"}')",
        "frame(b'{\"type\":\"done\",\"id\":18446744073709551615,\"status\":\"done\"}')",
        "frame(b'{\"type\":\"ready\",\"typescript\":true}')",
        "frame(b'{\"type\":\"result\",\"id\":77,\"is_value\":true,\"data\":{\"text/plain\":\"lie\"}}')",
        "frame(b'{\"type\":\"result\",\"id\":%d,\"is_value\":true,\"data\":{\"image/png\":\"no base64\"}}' % kernel['state'].call)",
        "out.send({'type': 'result', 'id': kernel['state'].call, 'is_value': True, 'data': {'bad type': 'x'}})",
    ] {
        let output = attack(&place, source).await;
        assert_eq!(output.status, CodeStatus::Done, "{source}");
        assert!(output.results.is_empty(), "{source}: {output:?}");
        works(&place, source).await;
    }
    // It may say that it is done while it is not: then that is what is told, and nothing of it disturbs the next call.
    let source = "frame(b'{\"type\":\"done\",\"id\":%d,\"status\":\"done\"}' % kernel['state'].call)\n\
                  err.send({'type': 'end', 'id': kernel['state'].call})\nprint('late')\n'late value'";
    let output = attack(&place, source).await;
    assert_eq!(output.status, CodeStatus::Done);
    assert!(output.results.is_empty());
    let next = place.tell("python", "'next'").await;
    assert_eq!(value(&next), "'next'");
    works(&place, "a forged end").await;
    place.close().await;
}

#[tokio::test]
async fn frames_that_make_no_sense_end_the_kernel() {
    let Some(place) = Place::open("hostile::garbage", "python3").await else { return };
    for source in [
        "frame(b'no json')",
        "frame(b'{\"type\":\"unheard-of\"}')",
        "frame(b'{\"type\":\"done\",\"id\":-1,\"status\":\"done\"}')",
        "frame(b'\\xff\\xfe')",
        "frame(b'', end=b'?')",
        "os.write(1, marker * 3)\nos.write(1, b'x' * 9000)",
        "frame(b'[' * 3000)",
    ] {
        let output = attack(&place, &format!("{source}\nimport time\ntime.sleep(1000)")).await;
        assert!(matches!(output.status, CodeStatus::Crashed { .. }), "{source}: {output:?}");
        assert!(output.context_was_replaced);
        works(&place, source).await;
    }
    place.close().await;
}

#[tokio::test]
async fn a_kernel_that_says_it_is_done_and_no_more_is_given_up() {
    let Some(place) = Place::open("hostile::half", "python3").await else { return };
    let source = "frame(b'{\"type\":\"done\",\"id\":%d,\"status\":\"done\"}' % kernel['state'].call)\nimport time\ntime.sleep(1000)";
    let code = Code::new("python", format!("{REACH}{source}")).context("main");
    let output = place.run(code).await;
    assert!(matches!(output.status, CodeStatus::Crashed { .. }), "{output:?}");
    works(&place, "half an end").await;
    place.close().await;
}

#[tokio::test]
async fn a_message_that_is_cut_is_not_shown() {
    let Some(place) = Place::open("hostile::cut", "python3").await else { return };
    let half = "os.write(1, b'shown' + marker + b'.{\"type\":\"result\",\"id\"')\nos._exit(3)";
    let output = attack(&place, half).await;
    assert_eq!((text(&output.stdout).as_str(), output.results_left_out), ("shown", 1), "{output:?}");
    let CodeStatus::Crashed { reason } = output.status else { panic!("{output:?}") };
    assert!(reason.contains("in the middle"), "{reason}");
    works(&place, half).await;
    place.close().await;
}

#[tokio::test]
async fn huge_and_many_results_are_left_out_and_counted() {
    let Some(place) = Place::open("hostile::huge", "python3").await else { return };
    let output = place.tell("python", "for n in range(100): display(n)").await;
    assert_eq!((&output.status, output.results.len(), output.results_left_out), (&CodeStatus::Done, 64, 36));
    // An honest kernel says by itself that a value is too large.
    let output = place.tell("python", "'x' * (20 << 20)").await;
    assert!(value(&output).ends_with("characters are more than a result may have]"), "{}", output.results.len());
    let source = "for _ in range(3): out.send({'type': 'result', 'id': kernel['state'].call, 'is_value': False,\n    \
                  'data': {'text/plain': 'x' * (9 << 20)}})\nout.send({'type': 'result', 'data': 'x' * (40 << 20)})";
    let output = attack(&place, source).await;
    assert_eq!(
        (&output.status, output.results.len(), output.results_left_out),
        (&CodeStatus::Done, 1, 3),
        "{:?}",
        output.status
    );
    let source = "raise ValueError('x' * (1 << 20))";
    let raised = place.tell("python", source).await.exception.unwrap();
    assert!(raised.message.len() < 70_000 && raised.traceback.len() < 70_000);
    works(&place, "huge results").await;
    place.close().await;
}

#[tokio::test]
async fn floods_are_cut_or_end_at_the_limit() {
    let policy = Policy::builder().output(64 << 20).timeout(3 * LONG);
    let Some(mut place) = Place::with("hostile::flood", "python3", policy).await else { return };
    let interpreter = std::mem::take(&mut place.interpreter);
    place.interpreter = interpreter.capture(CaptureLimits { head: 1000, tail: 1000 });
    let output = place.tell("python", "print('a' * (8 << 20)); print('end')").await;
    assert_eq!((output.stdout.head.len(), output.stdout.total), (1000, (8 << 20) + 5));
    assert!(output.stdout.tail.ends_with(b"aa\nend\n"));
    let output = place.tell("python", "while True: print('x' * 10000)").await;
    assert_eq!(output.process, Some(Status::Output));
    assert!(
        matches!(&output.status, CodeStatus::Crashed { reason } if reason.contains("output limit")),
        "{:?}",
        output.status
    );
    works(&place, "a flood").await;
    // A daemon that floods while nobody listens is held back, and does not keep the next call from its answer.
    let daemon = "import subprocess\np = subprocess.Popen('yes d | head -c 2000000', shell=True)";
    assert_eq!(place.tell("python", daemon).await.status, CodeStatus::Done);
    let output = place.tell("python", "p.wait()").await;
    assert_eq!(value(&output), "0");
    works(&place, "a daemon").await;
    place.close().await;
}

#[tokio::test]
async fn whatever_code_does_to_its_own_process_the_next_call_works() {
    let Some(place) = Place::open("hostile::process", "python3").await else { return };
    for source in [
        "os.close(0)",
        "os.close(1); os.close(2)",
        "os.closerange(0, 65536)",
        "os.closerange(3, 65536)",
        "os.dup2(os.open('/dev/null', os.O_RDWR), 1)",
        "for n in range(3, 200):\n    try: os.dup2(os.open('/dev/null', os.O_RDWR), n)\n    except OSError: pass",
        "os._exit(0)",
        "os.abort()",
        "os.kill(os.getpid(), 9)",
        "os.kill(os.getpid(), 19)",
        "import ctypes\nctypes.string_at(0)",
        "import sys\nsys.settrace(lambda *a: 1 / 0)\ndef f(): pass\nf()",
        "import sys\nsys.setprofile(lambda *a: 1 / 0)",
        "import sys\ndef bad(*a):\n    while True: pass\nsys.settrace(bad)\ndef f(): pass\nf()",
        "import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()",
        "import sys\nsys.stdout = None; sys.stderr = 5",
        "import builtins\nfor name in ('print', 'len', 'isinstance', 'repr', 'type', 'getattr'): delattr(builtins, name)",
        "import json, sys\njson.dumps = None; sys.modules.clear()",
        "kernel.clear()",
        "import threading\nthreading.Thread(target=lambda: os.kill(os.getpid(), 9)).start()\nwhile True: pass",
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        import time\n        time.sleep(1000)",
        "if os.fork() == 0: raise RuntimeError('a child comes back')",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        "class Evil:\n    def __repr__(self): os._exit(9)\nEvil()",
        "class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()",
        "class Evil(Exception):\n    def __str__(self): raise SystemExit\nraise Evil",
        "os.set_blocking(1, False); os.set_blocking(2, False)\nprint('x' * (1 << 20))",
        "import signal\nsignal.raise_signal(2)",
    ] {
        let output = attack(&place, source).await;
        let fine = !matches!(output.status, CodeStatus::TimedOut | CodeStatus::Crashed { .. })
            || output.process.is_some()
            || !output.context_was_replaced;
        assert!(fine, "{source}: {output:?}");
        works(&place, source).await;
    }
    place.close().await;
}

#[tokio::test]
async fn a_kernel_that_ends_between_calls_is_replaced_before_the_next() {
    let Some(place) = Place::open("hostile::between", "python3").await else { return };
    for source in [
        "import os, threading\nthreading.Timer(0.05, os._exit, (3,)).start()",
        "import os\nos.closerange(3, 65536)\nx = 1",
    ] {
        place.tell("python", "counter = open('count', 'a')").await;
        place.tell("python", source).await;
        // It dies, or is dead; the code runs exactly once, in one process or the other.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let output = place.tell("python", "open('count', 'a').write('1')\nopen('count').read()").await;
        assert_eq!(output.status, CodeStatus::Done);
        assert!(output.context_was_replaced, "{source}");
    }
    assert_eq!(value(&place.tell("python", "open('count').read()").await), "'11'");
    place.close().await;
}

#[tokio::test]
async fn whatever_code_does_to_its_own_node_the_next_call_works() {
    let Some(place) = Place::open("hostile::stopped", "node").await else { return };
    let mut broken = Vec::new();
    for source in [
        "process.kill(process.pid, 'SIGSTOP')",
        "process.kill(process.pid, 'SIGKILL')",
        "require('fs').closeSync(4)",
        "require('fs').closeSync(3)",
        "for (let n = 0; n < 20; n++) try { require('fs').closeSync(n) } catch {}",
        "process.abort()",
        "process.reallyExit(0)",
        "process.stdout.destroy(); process.stderr.end()",
        "globalThis.JSON = null; Buffer.from = null; Promise = null; globalThis.console = null",
        "Object.prototype.toString = null; Array.prototype[Symbol.iterator] = null",
        "new Proxy({}, { get() { for (;;) {} }, ownKeys() { for (;;) {} } })",
        "({ get [Symbol.toStringTag]() { throw 1 } })",
        "throw { get stack() { throw 1 } }",
        "setInterval(() => { for (;;) {} }, 0); 1",
        "const s = []; for (;;) s.push(new Array(1e6).fill(1))",
        "process.emit('uncaughtException', new Error('x'))",
    ] {
        place.run(Code::new("javascript", source).context("main").timeout(SHORT)).await;
        let output = place.run(Code::new("javascript", "console.log('fine'); 42").context("main").timeout(LONG)).await;
        if output.status != CodeStatus::Done || text(&output.stdout) != "fine\n" {
            // What breaks the language for everybody in the process breaks it until a restart; a loop that starts itself again
            // may eat one more call.
            assert!(place.interpreter.restart(&*place.sandbox, "main").await.unwrap());
            let output = place.tell("javascript", "console.log('fine'); 42").await;
            assert_eq!(Place::said(&output), "fine\n", "{source}");
            broken.push(source);
        }
    }
    assert!(broken.iter().all(|source| source.contains("null") || source.contains("setInterval")), "{broken:?}");
    place.close().await;
}
