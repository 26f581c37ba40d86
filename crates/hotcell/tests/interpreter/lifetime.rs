//! Time limits, interrupts, restarts, and futures that are dropped.

use std::sync::Arc;
use std::time::Duration;

use hotcell::interpreter::{Code, CodeError, CodeEvent, CodeStatus, Interpreter, Languages};
use hotcell::{Policy, Status};

use super::common::{LONG, engine, eventually, marker, processes_with, text};
use super::place::{Place, SHORT, value};

/// For each language: code that defines `x`, code that never ends after it said so, and code that shows `x`.
const ENDLESS: &[(&str, &str, &[&str], &str)] = &[
    (
        "python",
        "x = 5",
        &[
            "print('begun', flush=True)\nwhile True: pass",
            "import time\nprint('begun', flush=True)\ntime.sleep(1000)",
            "import asyncio\nprint('begun', flush=True)\nawait asyncio.sleep(1000)",
            "import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '1000'])",
        ],
        "x",
    ),
    (
        "javascript",
        "const x = 5",
        &[
            "console.log('begun'); while (true) {}",
            "console.log('begun'); await 1; for (;;) {}",
            "console.log('begun'); await new Promise(() => {})",
            "console.log('begun'); try { for (;;) {} } catch { for (;;) {} } finally { for (;;) {} }",
        ],
        "x",
    ),
];

#[tokio::test]
async fn a_timeout_interrupts_and_the_variables_stay() {
    for (language, define, endless, show) in ENDLESS {
        let program = if *language == "python" { "python3" } else { "node" };
        let Some(place) = Place::open("lifetime::timeout", program).await else { return };
        place.tell(language, define).await;
        for source in *endless {
            let output = place.run(Code::new(*language, *source).context("main").timeout(SHORT)).await;
            assert_eq!((&output.status, text(&output.stdout).as_str()), (&CodeStatus::TimedOut, "begun\n"), "{source}");
            assert!(!output.context_was_replaced, "{source}");
            assert_eq!(value(&place.tell(language, show).await), "5", "{source}");
        }
        place.close().await;
    }
}

#[tokio::test]
async fn what_does_not_obey_is_replaced_and_the_box_stays() {
    let Some(place) = Place::open("lifetime::disobedient", "python3").await else { return };
    let file = place.tell("python", "open('kept', 'w').write('still here')").await;
    assert_eq!(file.status, CodeStatus::Done);
    let source = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx = 1\nwhile True: pass";
    let output = place.run(Code::new("python", source).context("main").timeout(SHORT)).await;
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, true));
    assert_eq!(output.process, Some(Status::Canceled));
    let next = place.tell("python", "print(open('kept').read(), 'x' in globals())").await;
    assert_eq!((Place::said(&next).as_str(), next.context_was_replaced), ("still here False\n", true));
    assert!(!place.tell("python", "1").await.context_was_replaced);
    place.close().await;
}

/// Runs code until it has written something; the future is dropped then.
async fn drop_when_begun(place: &Place, code: Code) {
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |_: CodeEvent<'_>| begun.send(()).unwrap_or_default();
    tokio::select! {
        output = place.interpreter.run(&*place.sandbox, &code, &tell) => panic!("it ended: {output:?}"),
        _ = has_begun.recv() => {}
    }
}

#[tokio::test]
async fn a_dropped_future_interrupts_and_the_next_call_works() {
    for (language, define, endless, show) in ENDLESS {
        let program = if *language == "python" { "python3" } else { "node" };
        let Some(place) = Place::with("lifetime::dropped", program, Policy::builder().timeout(LONG)).await else {
            return;
        };
        place.tell(language, define).await;
        for source in *endless {
            drop_when_begun(&place, Code::new(*language, *source).context("main")).await;
            let output = place.tell(language, show).await;
            assert_eq!((value(&output), output.context_was_replaced), ("5", false), "{source}");
        }
        place.close().await;
    }
    let Some(place) = Place::open("lifetime::dropped", "python3").await else { return };
    let word = marker();
    let stubborn = format!(
        "import signal, subprocess\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\np = subprocess.Popen(['sleep', '{word}'])\n\
         print('begun', flush=True)\nwhile True: pass"
    );
    drop_when_begun(&place, Code::new("python", stubborn).context("main")).await;
    let output = place.tell("python", "'next'").await;
    assert_eq!((value(&output), output.context_was_replaced), ("'next'", true));
    eventually("what it started is gone", || processes_with(&word).is_empty()).await;
    place.close().await;
}

#[tokio::test]
async fn a_dropped_call_does_not_hide_that_variables_were_lost() {
    let Some(place) = Place::open("lifetime::hidden", "python3").await else { return };
    assert!(place.tell("python", "import os\nos._exit(3)").await.context_was_replaced);
    drop_when_begun(&place, Code::new("python", "print('begun', flush=True)\nwhile True: pass").context("main")).await;
    assert!(place.tell("python", "1").await.context_was_replaced);
    assert!(!place.tell("python", "2").await.context_was_replaced, "it was told");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_interrupt_restart_and_remove() {
    let Some(place) = Place::open("lifetime::others", "python3").await else { return };
    let place = Arc::new(place);
    assert!(!place.interpreter.interrupt("main").await.unwrap());
    assert!(!place.interpreter.restart(&*place.sandbox, "main").await.unwrap());
    assert!(!place.interpreter.remove("main").await.unwrap());
    place.tell("python", "x = 5").await;
    assert!(!place.interpreter.interrupt("main").await.unwrap(), "it runs nothing");

    let endless = "print('begun', flush=True)\nwhile True: pass";
    let start = || {
        let (begun, has_begun) = tokio::sync::mpsc::unbounded_channel();
        let place = Arc::clone(&place);
        let run = tokio::spawn(async move {
            let tell = move |_: CodeEvent<'_>| begun.send(()).unwrap_or_default();
            let code = Code::new("python", endless).context("main");
            place.interpreter.run(&*place.sandbox, &code, &tell).await
        });
        (run, has_begun)
    };
    let (run, mut has_begun) = start();
    has_begun.recv().await.unwrap();
    assert!(place.interpreter.contexts()[0].busy);
    assert!(place.interpreter.interrupt("main").await.unwrap());
    let output = run.await.unwrap().unwrap();
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::Interrupted, false));
    let output = place.tell("python", "x").await;
    assert_eq!(value(&output), "5");

    let (run, mut has_begun) = start();
    has_begun.recv().await.unwrap();
    assert!(place.interpreter.restart(&*place.sandbox, "main").await.unwrap());
    let output = run.await.unwrap().unwrap();
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::Interrupted, true));
    let output = place.tell("python", "x").await;
    assert_eq!((output.exception.unwrap().name.as_str(), output.context_was_replaced), ("NameError", false));

    let (run, mut has_begun) = start();
    has_begun.recv().await.unwrap();
    assert!(place.interpreter.remove("main").await.unwrap());
    assert_eq!(run.await.unwrap().unwrap().status, CodeStatus::Interrupted);
    assert!(place.interpreter.contexts().is_empty());
    Arc::into_inner(place).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_in_time_and_on_demand_while_its_process_starts() {
    let Some(place) = Place::open("lifetime::start", "python3").await else { return };
    // From now on a new Python sleeps before it is ready; this one runs already.
    let trap = "import os, site\nplace = site.getusersitepackages()\nos.makedirs(place, exist_ok=True)\n\
                open(place + '/usercustomize.py', 'w').write('import time; time.sleep(1000)')";
    assert_eq!(place.run(Code::new("python", trap).context("other")).await.status, CodeStatus::Done);
    let output = place.run(Code::new("python", "1").context("main").timeout(SHORT)).await;
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, false));
    let place = Arc::new(place);
    for remove in [false, true] {
        let run = tokio::spawn({
            let place = Arc::clone(&place);
            async move { place.run(Code::new("python", "1").context("main")).await }
        });
        let is_busy = || place.interpreter.contexts().iter().any(|context| context.name == "main" && context.busy);
        eventually("it starts", is_busy).await;
        match remove {
            false => assert!(place.interpreter.interrupt("main").await.unwrap()),
            true => assert!(place.interpreter.remove("main").await.unwrap()),
        }
        assert_eq!(run.await.unwrap().status, CodeStatus::Interrupted);
    }
    place.run(Code::new("python", "os.remove(place + '/usercustomize.py')").context("other")).await;
    assert_eq!(value(&place.tell("python", "1").await), "1");
    Arc::into_inner(place).unwrap().close().await;
}

#[tokio::test]
async fn a_call_that_ends_before_its_process_is_ready_takes_no_place() {
    let Some(place) = Place::open("lifetime::places", "python3").await else { return };
    for n in 0..9 {
        let code = Code::new("python", "1").context(format!("c{n}")).timeout(Duration::from_nanos(1));
        assert_eq!(place.run(code).await.status, CodeStatus::TimedOut);
    }
    place.close().await;
}

/// The process is stopped until the interrupt has reached it: then that comes before the code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_is_interrupted_before_it_begins_ends_and_the_variables_stay() {
    let Some(place) = Place::open("lifetime::early", "python3").await else { return };
    let stop = "import os, threading\nx = 5\ndef stop():\n    open('/tmp/stopped', 'w').write(str(os.getpid()))\n    \
                os.kill(os.getpid(), 19)\nthreading.Timer(0.01, stop).start()";
    let is_stopped = "until grep -q 'State:.T' /proc/$(cat /tmp/stopped)/status; do sleep 0.05; done";
    let go_on = "pid=$(cat /tmp/stopped)\n\
                 until grep -q 'ShdPnd:.*2$' /proc/$pid/status; do sleep 0.05; done; kill -CONT $pid";
    for dropped in [false, true] {
        place.tell("python", stop).await;
        assert_eq!(place.run(Code::new("bash", is_stopped)).await.status, CodeStatus::Done);
        let endless = Code::new("python", "import time\ntime.sleep(1000)").context("main");
        let call = async {
            if dropped {
                assert!(tokio::time::timeout(SHORT, place.run(endless)).await.is_err());
            } else {
                let output = place.run(endless.timeout(SHORT)).await;
                assert_eq!((output.status, output.context_was_replaced), (CodeStatus::TimedOut, false));
            }
        };
        let ((), helper) = tokio::join!(call, place.run(Code::new("bash", go_on)));
        assert_eq!(helper.status, CodeStatus::Done);
        assert_eq!(value(&place.tell("python", "x").await), "5", "dropped: {dropped}");
    }
    place.close().await;
}

#[tokio::test]
async fn code_that_is_interrupted_while_it_begins_does_not_run() {
    let Some(place) = Place::open("lifetime::begin", "python3").await else { return };
    // Asked for between the message that the code begins and the code.
    let trap = "import linecache, os, signal\nclass Cache(dict):\n    def __setitem__(self, name, value):\n        \
                linecache.cache = {}\n        os.kill(os.getpid(), signal.SIGINT)\n\
                linecache.cache = Cache()\nran = False";
    place.tell("python", trap).await;
    assert_eq!(place.tell("python", "ran = True").await.status, CodeStatus::Interrupted);
    assert_eq!(value(&place.tell("python", "ran").await), "False");
    place.close().await;
}

#[tokio::test]
async fn a_call_ends_in_time_where_earlier_code_keeps_its_process_busy() {
    let Some(place) = Place::open("lifetime::busy", "node").await else { return };
    place
        .tell("javascript", "setTimeout(() => { require('fs').writeFileSync('/tmp/busy', ''); for (;;) {} }, 10)")
        .await;
    place.run(Code::new("bash", "until [ -e /tmp/busy ]; do sleep 0.05; done")).await;
    // It would have to wait for the end of the loop before it begins.
    let output = place.run(Code::new("javascript", "1").context("main").timeout(SHORT)).await;
    assert_eq!(output.status, CodeStatus::TimedOut);
    assert_eq!(value(&place.tell("javascript", "1 + 1").await), "2");
    place.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_in_time_and_on_demand_where_its_process_does_not_read() {
    let Some(place) = Place::open("lifetime::stopped", "python3").await else { return };
    let place = Arc::new(place);
    for remove in [false, true] {
        let stop = "import os, threading\ndef stop():\n    open('/tmp/stopped', 'w').close()\n    os.kill(os.getpid(), 19)\n\
                    threading.Timer(0.01, stop).start()";
        place.tell("python", stop).await;
        place.run(Code::new("bash", "until [ -e /tmp/stopped ]; do sleep 0.05; done; rm /tmp/stopped")).await;
        // More than fits into a pipe.
        let mut code = Code::new("python", format!("'{}'", "x".repeat(1 << 20))).context("main");
        code.timeout = (!remove).then_some(SHORT);
        let run = tokio::spawn({
            let place = Arc::clone(&place);
            async move { place.run(code).await }
        });
        if remove {
            eventually("it is asked", || place.interpreter.contexts().iter().any(|context| context.busy)).await;
            assert!(place.interpreter.remove("main").await.unwrap());
        }
        let expected = if remove { CodeStatus::Interrupted } else { CodeStatus::TimedOut };
        assert_eq!(run.await.unwrap().status, expected);
        assert_eq!(value(&place.tell("python", "1").await), "1");
    }
    Arc::into_inner(place).unwrap().close().await;
}

#[tokio::test]
async fn calls_to_one_context_queue_and_contexts_are_limited() {
    let Some(place) = Place::open("lifetime::queue", "bash").await else { return };
    place.tell("bash", "n=0").await;
    let add = || place.tell("bash", "m=$n; sleep 0.05; n=$((m + 1)); echo $n");
    let (a, b, c) = tokio::join!(add(), add(), add());
    assert_eq!([a, b, c].map(|output| Place::said(&output)), ["1\n", "2\n", "3\n"]);

    let wrong = place.interpreter.run(&*place.sandbox, &Code::new("python", "1").context("main"), &|_| {}).await;
    assert!(matches!(&wrong, Err(CodeError::Context { reason, .. }) if reason.contains("bash")), "{wrong:?}");
    for n in 1..8 {
        place.run(Code::new("bash", "true").context(format!("c{n}"))).await;
    }
    let many = Code::new("bash", "true").context("one-more");
    let refused = place.interpreter.run(&*place.sandbox, &many, &|_| {}).await;
    assert!(matches!(&refused, Err(CodeError::Context { reason, .. }) if reason.contains("c7")), "{refused:?}");
    assert!(place.interpreter.remove("c7").await.unwrap());
    place.run(many).await;
    let main = &place.interpreter.contexts()[6];
    assert_eq!((main.name.as_str(), main.language.as_str(), main.count, main.busy), ("main", "bash", 4, false));
    place.close().await;
}

#[tokio::test]
async fn the_limits_of_the_box_hold_for_a_context() {
    let policy = Policy::builder().timeout(Duration::from_secs(6)).memory(256 << 20);
    let Some(place) = Place::with("lifetime::limits", "python3", policy).await else { return };
    let output = place.tell("python", "x = 1\nwhile True: pass").await;
    assert_eq!((&output.status, output.context_was_replaced), (&CodeStatus::TimedOut, true));
    let output = place.tell("python", "data = b'x' * (1 << 30)\nlen(data)").await;
    assert!(output.context_was_replaced);
    match &output.status {
        CodeStatus::Crashed { reason } => assert!(reason.contains("memory"), "{reason}"),
        CodeStatus::Failed { .. } => assert_eq!(output.exception.unwrap().name, "MemoryError"),
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&place.tell("python", "1").await), "1");
    place.close().await;
}

#[tokio::test]
async fn a_context_ends_with_its_interpreter_and_belongs_to_one_box() {
    let Some(place) = Place::open("lifetime::belongs", "python3").await else { return };
    let word = marker();
    place.tell("python", &format!("import subprocess\np = subprocess.Popen(['sleep', '{word}'])")).await;
    eventually("it runs", || processes_with(&word).len() == 1).await;
    let other = place.engine.create(&Policy::default()).await.unwrap();
    let refused = place.interpreter.run(&*other, &Code::new("python", "1").context("main"), &|_| {}).await;
    assert!(matches!(refused, Err(CodeError::Context { .. })), "{refused:?}");
    other.destroy().await.unwrap();
    place.interpreter.close().await;
    assert!(place.interpreter.contexts().is_empty());
    eventually("what it started is gone", || processes_with(&word).is_empty()).await;
    // Nothing of a context is left that would keep others from the box's changes.
    assert_eq!(value(&place.tell("python", "2").await), "2");
    place.close().await;
}

/// Says how long a print in a warm context takes; nothing depends on it.
#[tokio::test]
async fn a_warm_print_is_measured() {
    let Some(engine) = engine("interpreter lifetime::warm").await else { return };
    let sandbox = engine.create(&Policy::builder().timeout(LONG).build().unwrap()).await.unwrap();
    let interpreter = Interpreter::new(Languages::default());
    for (language, source) in [("python", "print(1)"), ("javascript", "console.log(1)"), ("bash", "echo 1")] {
        let code = Code::new(language, source).context(language);
        if interpreter.run(&*sandbox, &code, &|_| {}).await.is_err() {
            continue;
        }
        let mut times = Vec::new();
        for _ in 0..100 {
            let output = interpreter.run(&*sandbox, &code, &|_| {}).await.unwrap();
            assert_eq!(text(&output.stdout), "1\n");
            times.push(output.wall);
        }
        times.sort_unstable();
        println!("{language}: p50 {:?}, p95 {:?}, worst {:?}", times[50], times[95], times[99]);
    }
    interpreter.close().await;
    sandbox.destroy().await.unwrap();
    engine.close().await;
}
