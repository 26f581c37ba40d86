//! JavaScript and TypeScript: values, rich results, imports, and what is remembered.

use hotcell::interpreter::{Code, CodeError, CodeStatus};

use super::common::{Place as Host, skip, text};
use super::place::{Place, value};

#[tokio::test]
async fn declarations_are_remembered_and_may_be_repeated() {
    let Some(place) = Place::open("node::declarations", "node").await else { return };
    place.tell("javascript", "const a = 1; let b = 2; class C { n = a }\nfunction f() { return b }").await;
    assert_eq!(value(&place.tell("js", "[a, b, f(), new C()]").await), "[ 1, 2, 2, C { n: 1 } ]");
    assert_eq!(value(&place.tell("js", "const a = 'again'; a").await), "'again'");
    assert_eq!(
        value(&place.tell("js", "const later = await new Promise(r => setTimeout(r, 1, 7)); later + 1").await),
        "8"
    );
    assert_eq!(value(&place.tell("js", "later").await), "7");
    assert_eq!(value(&place.tell("js", "{ a: 1, b: [2] }").await), "{ a: 1, b: [ 2 ] }");
    assert_eq!(place.tell("js", "{ let inner = 1 }\nvar z = 3").await.results.len(), 0);
    place.close().await;
}

#[tokio::test]
async fn modules_are_required_and_imported() {
    let Some(place) = Place::open("node::modules", "node").await else { return };
    let source = "import fs, { existsSync as there,\n  readFileSync } from 'fs';\nimport * as path from \"node:path\"\nimport 'node:os';\n\
                  // import nothing from 'comment'\nconst text = `import('x') ${(await import('util')).types.isDate(1)}`;\n\
                  [there('/'), typeof readFileSync, typeof fs.statSync, path.join('a', 'b'), text, /import('y')/.source]";
    let output = place.tell("javascript", source).await;
    let expected = "[ true, 'function', 'function', 'a/b', \"import('x') false\", \"import('y')\" ]";
    assert_eq!(value(&output), expected, "{output:?}");
    let source = "require('fs').writeFileSync('mine.mjs', 'export default 5; export const six = 6');\n\
                  const { six } = await import('./mine.mjs'); six";
    assert_eq!(value(&place.tell("js", source).await), "6");
    for source in ["require('not-there-at-all')", "await import('not-there-at-all/deep')"] {
        let output = place.tell("js", source).await;
        assert!(output.hint.unwrap().contains("npm install not-there-at-all`"), "{source}");
    }
    place.close().await;
}

#[tokio::test]
async fn rich_results_and_consoles() {
    let Some(place) = Place::open("node::rich", "node").await else { return };
    let source = "console.log('out', { a: 1 }); console.error('err'); process.stdout.write('é');\n\
                  require('child_process').execSync('echo child; cat', { stdio: 'inherit' });\n\
                  display(display.json({ a: [1] })); display({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b/>' }) });\n\
                  display.png(Buffer.from('hi'))";
    let output = place.tell("javascript", source).await;
    assert_eq!(Place::said(&output), "out { a: 1 }\néchild\n");
    assert_eq!(text(&output.stderr), "err\n");
    let shown: Vec<(bool, &str, &str)> = output
        .results
        .iter()
        .flat_map(|result| result.data.iter().map(|(kind, content)| (result.is_value, kind.as_str(), content.as_str())))
        .collect();
    let expected =
        [(false, "application/json", "{\"a\":[1]}"), (false, "text/html", "<b/>"), (true, "image/png", "aGk=")];
    assert_eq!(shown, expected);
    place.close().await;
}

#[tokio::test]
async fn errors_have_the_users_lines_and_none_of_ours() {
    let Some(place) = Place::open("node::errors", "node").await else { return };
    place.tell("javascript", "function inner() {\n  return null.x;\n}").await;
    let output = place.tell("javascript", "\ninner()").await;
    assert_eq!(output.status, CodeStatus::Failed { exit_code: Some(1) });
    let raised = output.exception.unwrap();
    assert_eq!(raised.name, "TypeError");
    for part in ["code-1.js:2\n  return null.x;\n", "at inner (code-1.js:2:", "code-2.js:2:1"] {
        assert!(raised.traceback.contains(part), "{part}: {}", raised.traceback);
    }
    assert!(!raised.traceback.contains("inspector") && !raised.traceback.contains("hotcell"), "{}", raised.traceback);
    let syntax = place.tell("js", "let ok = 1;\nlet x = ;").await.exception.unwrap();
    assert!(syntax.traceback.contains("code-3.js:2\nlet x = ;\n        ^"), "{}", syntax.traceback);
    let thrown = place.tell("js", "throw { odd: 1 }").await.exception.unwrap();
    assert_eq!(thrown.traceback, "Uncaught { odd: 1 }");
    place.close().await;
}

#[tokio::test]
async fn what_nobody_catches_does_not_end_the_context() {
    let Some(place) = Place::open("node::uncaught", "node").await else { return };
    let source = "const kept = 1; Promise.reject(new Error('rejected'));\n\
                  setTimeout(() => { throw new Error('thrown') }, 1); await new Promise(r => setTimeout(r, 20)); kept";
    let output = place.tell("javascript", source).await;
    assert_eq!(value(&output), "1");
    let told = text(&output.stderr);
    assert!(told.contains("Error: rejected") && told.contains("Error: thrown"), "{told}");
    let output = place.tell("js", "process.exit(4)").await;
    assert_eq!((output.status, output.context_was_replaced), (CodeStatus::Failed { exit_code: Some(4) }, false));
    assert_eq!(value(&place.tell("js", "kept").await), "1");
    place.close().await;
}

/// A stand-in for the `typescript` package: it takes `: number` off.
const TYPES: &str = "exports.ScriptTarget = {}; exports.ModuleKind = {};\n\
    exports.transpileModule = (source) => ({ outputText: source.replaceAll(': number', '') });";

#[tokio::test]
async fn typescript_is_run_or_refused_with_a_hint() {
    let Some(place) = Place::open("node::typescript", "node").await else { return };
    let source = "const n: number = 20;\nn + 1";
    let once = Code::new("typescript", source);
    let context = once.clone().context("types");
    match place.interpreter.run(&*place.sandbox, &once, &|_| {}).await {
        Ok(output) => assert_eq!(value(&output), "21"),
        Err(CodeError::NotInstalled { program, hint }) => {
            assert_eq!(program, "typescript");
            assert!(hint.contains("22.13") && hint.contains("deno"), "{hint}");
            let refused = place.interpreter.run(&*place.sandbox, &context, &|_| {}).await;
            assert!(matches!(refused, Err(CodeError::NotInstalled { .. })), "{refused:?}");
            assert!(place.interpreter.contexts().is_empty());
            skip("interpreter node::typescript", "Node is older than 22.13: its own removal of types was not tried");
        }
        Err(error) => panic!("{error}"),
    }
    place.close().await;

    // With a package beside the code.
    let host = Host::new();
    host.file("node_modules/typescript/index.js", TYPES);
    let policy = hotcell::Policy::builder().read(host.path()).cwd(host.path());
    let Some(place) = Place::with("node::typescript_package", "node", policy).await else { return };
    assert_eq!(value(&place.run(once).await), "21");
    assert_eq!(value(&place.run(context).await), "21");
    place.close().await;
}

#[tokio::test]
async fn text_with_half_a_surrogate_pair_is_shown_and_ends_nothing() {
    let Some(place) = Place::open("node::surrogates", "node").await else { return };
    place.tell("javascript", "const x = 5").await;
    let source = r"throw new Error('bad \udcff é😀')";
    let raised = place.tell("javascript", source).await.exception.unwrap();
    assert_eq!(raised.message, r"bad \udcff é😀");
    assert!(raised.traceback.contains(r"Error: bad \udcff"), "{}", raised.traceback);
    let output = place.tell("javascript", r"display.of({ 'text/plain': '<\ud800>', 'text/html': '\udfff' })").await;
    assert_eq!((value(&output), output.results[0].data["text/html"].as_str()), (r"<\ud800>", r"\udfff"));
    // What is too long is cut between characters, wherever that falls.
    for (begin, end) in [("", ""), ("a", ""), ("", "a")] {
        let source = format!("throw new Error('{begin}' + '😀'.repeat(40000) + '{end}')");
        let message = place.tell("javascript", &source).await.exception.unwrap().message;
        assert!(message.contains("are left out") && !message.contains(r"\u"), "{begin} {end}");
    }
    let kept = place.tell("javascript", "x").await;
    assert_eq!((value(&kept), kept.context_was_replaced), ("5", false));
    let once = place.run(Code::new("javascript", source)).await;
    assert_eq!(once.exception.unwrap().message, r"bad \udcff é😀");
    place.close().await;
}
