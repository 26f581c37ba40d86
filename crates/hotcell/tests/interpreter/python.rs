//! Python: values, rich results, tracebacks, and what is remembered.

use hotcell::interpreter::{Code, CodeStatus};

use super::common::{LONG, text};
use super::place::{Place, value};

#[tokio::test]
async fn variables_imports_and_functions_are_remembered() {
    let Some(place) = Place::open("python::variables", "python3").await else { return };
    let first = place.tell("python", "import json\nx = 6\ndef double(n):\n    return 2 * n").await;
    assert_eq!((first.status, first.results.len()), (CodeStatus::Done, 0));
    let second = place.tell("py", "print(json.dumps([x]))\ndouble(x)").await;
    assert_eq!((Place::said(&second).as_str(), value(&second)), ("[6]\n", "12"));
    assert!(!second.context_was_replaced);
    // Another context knows nothing of it.
    let other = place.run(Code::new("python", "x").context("other")).await;
    assert_eq!(other.exception.unwrap().name, "NameError");
    place.close().await;
}

#[tokio::test]
async fn the_last_expression_is_shown_like_in_a_notebook() {
    let Some(place) = Place::open("python::last_expression", "python3").await else { return };
    assert_eq!(value(&place.tell("python", "a = 1\n[a, 'x'] if False else 'é😀'").await), "'é😀'");
    for silent in ["5;", "None", "y = 5", "", "# nothing"] {
        assert_eq!(place.tell("python", silent).await.results.len(), 0, "{silent}");
    }
    assert_eq!(value(&place.tell("python", "import asyncio\nawait asyncio.sleep(0, 'waited')").await), "'waited'");
    place.close().await;
}

const RICH: &str = "
class Rich:
    def _repr_html_(self): return '<b>h</b>'
    def _repr_markdown_(self): return '*m*'
    def _repr_json_(self): return {'a': [1]}
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): raise ValueError('not today')
    def _repr_latex_(self): return None
    def __repr__(self): return 'plain'
class Bundle:
    def _repr_mimebundle_(self, **_): return {'text/html': '<i>b</i>', 'application/json': [2]}
print('before')
display(Rich())
print('after')
Bundle()";

#[tokio::test]
async fn rich_results_come_back_in_all_their_formats() {
    let Some(place) = Place::open("python::rich", "python3").await else { return };
    let output = place.tell("python", RICH).await;
    assert_eq!(Place::said(&output), "before\nafter\n");
    let [shown, last] = output.results.as_slice() else { panic!("{output:?}") };
    assert!(!shown.is_value && last.is_value);
    let expected = [
        ("application/json", "{\"a\": [1]}"),
        ("image/png", "iVBORw=="),
        ("image/svg+xml", "<svg/>"),
        ("text/html", "<b>h</b>"),
        ("text/markdown", "*m*"),
        ("text/plain", "plain"),
    ];
    assert!(shown.data.iter().map(|(kind, content)| (kind.as_str(), content.as_str())).eq(expected), "{shown:?}");
    assert_eq!((last.data["text/html"].as_str(), last.data["application/json"].as_str()), ("<i>b</i>", "[2]"));
    place.close().await;
}

/// As much of matplotlib as the kernel knows of: figures that are open when the code ends.
const FIGURES: &str = "
import sys, types
class Figure:
    def savefig(self, file, format, **_): file.write(b'\\x89PNG figure')
pyplot = types.ModuleType('matplotlib.pyplot')
pyplot.open = [1]
pyplot.get_backend = lambda: 'Agg'
pyplot.get_fignums = lambda: list(pyplot.open)
pyplot.figure = lambda number: Figure()
pyplot.close = lambda what: pyplot.open.clear()
sys.modules['matplotlib.pyplot'] = pyplot";

#[tokio::test]
async fn open_figures_are_shown_and_closed() {
    let Some(place) = Place::open("python::figures", "python3").await else { return };
    let output = place.tell("python", FIGURES).await;
    assert_eq!(output.results.len(), 1, "{output:?}");
    assert_eq!(output.results[0].data["image/png"], "iVBORyBmaWd1cmU=");
    let next = place.tell("python", "import os\nprint(pyplot.get_fignums(), os.environ['MPLBACKEND'])").await;
    assert_eq!((Place::said(&next).as_str(), next.results.len()), ("[] Agg\n", 0));
    place.close().await;
}

#[tokio::test]
async fn tracebacks_have_the_users_lines_and_none_of_ours() {
    let Some(place) = Place::open("python::tracebacks", "python3").await else { return };
    place.tell("python", "def inner():\n    return 1 / 0").await;
    let output =
        place.tell("python", "\ntry:\n    inner()\nexcept Exception as e:\n    raise ValueError('outer') from e").await;
    assert_eq!(output.status, CodeStatus::Failed { exit_code: Some(1) });
    let raised = output.exception.unwrap();
    assert_eq!((raised.name.as_str(), raised.message.as_str()), ("ValueError", "outer"));
    for part in
        ["<code 1>\", line 2, in inner", "return 1 / 0", "<code 2>\", line 5", "ZeroDivisionError", "direct cause"]
    {
        assert!(raised.traceback.contains(part), "{part}: {}", raised.traceback);
    }
    assert!(!raised.traceback.contains("hotcell"), "{}", raised.traceback);

    let syntax = place.tell("python", "x = 1\nfor = 2").await.exception.unwrap();
    assert_eq!(syntax.name, "SyntaxError");
    assert!(syntax.traceback.contains("line 2") && syntax.traceback.contains("    for = 2\n"), "{}", syntax.traceback);
    let input = place.tell("python", "name = input('who? ')").await.exception.unwrap();
    assert_eq!(input.name, "EOFError");
    assert!(input.message.contains("no standard input") && !input.traceback.contains("hotcell"), "{input:?}");
    place.close().await;
}

#[tokio::test]
async fn what_is_missing_gets_a_hint() {
    let Some(place) = Place::open("python::hint", "python3").await else { return };
    let output = place.tell("python", "import yaml.not_there_at_all").await;
    if output.exception.as_ref().is_some_and(|raised| raised.message.contains("'yaml'")) {
        assert!(output.hint.unwrap().contains("pip install pyyaml"));
    }
    let output = place.tell("python", "from not_there_at_all.deep import x").await;
    let hint = output.hint.unwrap();
    assert!(hint.contains("pip install not_there_at_all`") && hint.contains("network"), "{hint}");
    assert_eq!(place.tell("python", "1 / 0").await.hint, None);
    place.close().await;
}

#[tokio::test]
async fn an_exit_is_no_end_of_the_context() {
    let Some(place) = Place::open("python::exit", "python3").await else { return };
    place.tell("python", "x = 5").await;
    for (source, status) in [
        ("import sys; sys.exit(3)", CodeStatus::Failed { exit_code: Some(3) }),
        ("raise SystemExit", CodeStatus::Done),
        ("exit('bye')", CodeStatus::Failed { exit_code: Some(1) }),
        ("raise SystemExit(-2)", CodeStatus::Failed { exit_code: Some(254) }),
        ("raise SystemExit(1 << 80)", CodeStatus::Failed { exit_code: Some(255) }),
        (
            "class E(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise E",
            CodeStatus::Failed { exit_code: Some(1) },
        ),
    ] {
        let output = place.tell("python", source).await;
        assert_eq!((output.status, output.context_was_replaced), (status, false), "{source}");
        assert!(output.exception.is_none() && output.exited);
    }
    for source in ["x", "1 / 0"] {
        assert!(!place.tell("python", source).await.exited, "{source}");
    }
    assert_eq!(value(&place.tell("python", "x").await), "5");
    place.close().await;
}

#[tokio::test]
async fn output_of_children_and_of_descriptors_is_captured_in_order() {
    let Some(place) = Place::open("python::children", "python3").await else { return };
    let source = "import os, subprocess, sys\nprint('one')\nos.system('echo two')\nos.write(1, b'three\\n')\n\
                  subprocess.run(['sh', '-c', 'echo four; echo err >&2'])\nprint('last', end='')\nprint('e', file=sys.stderr)";
    let output = place.tell("python", source).await;
    assert_eq!(Place::said(&output), "one\ntwo\nthree\nfour\nlast");
    assert_eq!(text(&output.stderr), "err\ne\n");
    // A child of the code has no share in the conversation.
    let output = place.tell("python", "import subprocess\nsubprocess.run(['cat'], capture_output=True).stdout").await;
    assert_eq!(value(&output), "b''");
    place.close().await;
}

#[tokio::test]
async fn what_was_written_to_standard_error_is_complete() {
    let Some(place) = Place::open("python::stderr", "python3").await else { return };
    for _ in 0..20 {
        // As much as is still in the pipe when the end of the call has come on the other.
        let output = place.tell("python", "import sys\nn = sys.stderr.write('e' * 60000)").await;
        assert_eq!((output.status, output.stderr.total), (CodeStatus::Done, 60000));
    }
    place.close().await;
}

#[tokio::test]
async fn a_forked_child_is_no_second_kernel() {
    let Some(place) = Place::open("python::forked", "python3").await else { return };
    let source = "import os\nif os.fork() == 0: raise RuntimeError('a child comes back')\nos.wait()[1] >> 8";
    let output = place.run(Code::new("python", source).context("main").timeout(LONG)).await;
    assert_eq!(value(&output), "1", "{output:?}");
    assert!(text(&output.stderr).contains("RuntimeError: a child comes back"), "{output:?}");
    place.close().await;
}

#[tokio::test]
async fn modules_of_the_workspace_do_not_replace_those_of_the_kernel() {
    let Some(place) = Place::open("python::modules", "python3").await else { return };
    let source =
        "import os\nopen('json.py', 'w').write('raise SystemError')\nopen('mine.py', 'w').write('x = 4')\nos.getcwd()";
    place.tell("python", source).await;
    let fresh = place.run(Code::new("python", "import mine\nmine.x").context("fresh")).await;
    assert_eq!(value(&fresh), "4");
    place.close().await;
}

#[tokio::test]
async fn text_with_half_a_surrogate_pair_is_shown_and_ends_nothing() {
    let Some(place) = Place::open("python::surrogates", "python3").await else { return };
    place.tell("python", "x = 5").await;
    let source = r"raise ValueError('bad \udcff é😀')";
    let raised = place.tell("python", source).await.exception.unwrap();
    assert_eq!(raised.message, r"bad \udcff é😀");
    assert!(raised.traceback.contains(r"ValueError: bad \udcff"), "{}", raised.traceback);
    let shown = r"
class Odd:
    def __repr__(self): return '<\ud800>'
    def _repr_html_(self): return '<b>\udfff</b>'
Odd()";
    let output = place.tell("python", shown).await;
    assert_eq!((value(&output), output.results[0].data["text/html"].as_str()), (r"<\ud800>", r"<b>\udfff</b>"));
    let listed = r"
import os
open(b'odd-\xff', 'w').close()
display({'text/plain': [name for name in os.listdir() if 'odd' in name][0]}, raw=True)";
    assert_eq!(place.tell("python", listed).await.results[0].data["text/plain"], r"odd-\udcff");
    let kept = place.tell("python", "x").await;
    assert_eq!((value(&kept), kept.context_was_replaced), ("5", false));
    let once = place.run(Code::new("python", source)).await;
    assert_eq!(once.exception.unwrap().message, r"bad \udcff é😀");
    place.close().await;
}
