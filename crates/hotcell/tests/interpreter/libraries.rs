//! Real matplotlib and pandas, and a Node that takes types off by itself, where `cargo xtask test` has installed them.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell::Policy;
use hotcell::interpreter::{Code, CodeOutput};

use super::common::{LONG, skip, text};
use super::place::{Place, value};

/// A box in which the programs of the directory that `variable` names come first.
async fn open(test: &str, program: &str, variable: &str) -> Option<Place> {
    let Some(directory) = std::env::var_os(variable).map(PathBuf::from) else {
        skip(&format!("interpreter {test}"), &format!("{variable} is not set; `cargo xtask test` sets it"));
        return None;
    };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", directory.join("bin").display());
    let policy = Policy::builder().read(&directory).set_env("PATH", path).timeout(6 * LONG);
    Place::with(test, program, policy).await
}

/// The images among the results, decoded.
fn images(output: &CodeOutput) -> Vec<Vec<u8>> {
    let encoded = output.results.iter().filter_map(|result| result.data.get("image/png"));
    encoded.map(|image| STANDARD.decode(image).unwrap()).collect()
}

/// Width and height, which are at the same place of every PNG.
fn size(image: &[u8]) -> (u32, u32) {
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.ends_with(b"IEND\xaeB`\x82"), "{} bytes", image.len());
    let number = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn figures_and_tables_are_shown() {
    let Some(place) = open("libraries::python", "python3", "HOTCELL_TEST_PYTHON_LIBRARIES").await else { return };
    // Each `show` is a figure of its own, and what is open at the end is shown too.
    let source = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()\nprint('between')\n\
                  plt.bar([1], [2]); plt.show(block=False)\nprint(plt.get_fignums())\nplt.figure(figsize=(2, 1)); plt.plot([1]);";
    let output = place.tell("python", source).await;
    assert_eq!(Place::said(&output), "between\n[]\n");
    let sizes: Vec<(u32, u32)> = images(&output).iter().map(|image| size(image)).collect();
    let [first, second, third] = sizes[..] else { panic!("{output:?}") };
    assert!(first.0 > 400 && second.0 > 400 && third.0 < 300, "{sizes:?}");
    assert!(output.results.iter().all(|result| result.data["text/plain"].starts_with("<Figure")), "{output:?}");
    assert_ne!(images(&output)[0], images(&output)[1]);

    let output = place.tell("python", "import matplotlib\nmatplotlib.use('svg')\nplt.plot([1, 2]); plt.show()").await;
    assert!(output.results[0].data["image/svg+xml"].contains("</svg>"), "{output:?}");

    let table = "import pandas as pd\npd.DataFrame({'name': ['a<b', 'c'], 'n': [1, 2]})";
    let output = place.tell("python", table).await;
    assert_eq!(value(&output), "  name  n\n0  a<b  1\n1    c  2");
    let html = &output.results[0].data["text/html"];
    assert!(html.contains("<table") && html.contains("a&lt;b"), "{html}");
    assert!(text(&output.stderr).is_empty(), "{output:?}");
    place.close().await;
}

#[tokio::test]
async fn typescript_runs_on_a_node_that_takes_types_off() {
    let Some(place) = open("libraries::typescript", "node", "HOTCELL_TEST_NODE").await else { return };
    // What is only taken off, and what has to be written anew.
    let source = "interface P { n: number }\nenum E { A = 20 }\nconst p: P = { n: E.A as number };\np.n + 1";
    for code in [Code::new("typescript", source), Code::new("ts", source).context("types")] {
        let output = place.run(code).await;
        assert_eq!((value(&output), text(&output.stderr).as_str()), ("21", ""), "{output:?}");
    }
    let output = place.run(Code::new("ts", "const again: number = p.n;\nagain").context("types")).await;
    assert_eq!(value(&output), "20");
    let output = place.run(Code::new("typescript", "let x: number = ;")).await;
    assert_eq!(output.exception.unwrap().name, "SyntaxError");
    place.close().await;
}
