//! Terminals on the far side of a stream.

use hotcell_linux::{Standard, Terminal};

use crate::common::{agent, in_time, launch, sh};

/// Reads until `word` has come.
async fn until_shown(terminal: &Terminal, word: &str) -> String {
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&shown).into_owned();
        if text.contains(word) {
            return text;
        }
        match in_time(word, terminal.read(&mut buffer)).await {
            Ok(length @ 1..) => shown.extend_from_slice(&buffer[..length]),
            other => panic!("{other:?} before {word:?} in {text:?}"),
        }
    }
}

#[tokio::test]
async fn a_terminal_has_a_size_a_keyboard_and_an_end() {
    let agent = agent().await;
    // Sizes and keys take ways of their own: the size may come after the keys.
    let script =
        "stty size; read line; echo \"<$line>\"; while [ \"$(stty size)\" = '24 80' ]; do :; done; stty size; exit 5";
    let mut launch = launch("sh", &["-c", script]);
    launch.standard = Standard::Terminal { rows: 24, columns: 80 };
    let mut running = agent.cell.launch(launch).await.unwrap();
    let terminal = Terminal::new(running.take_terminal().unwrap()).unwrap();
    until_shown(&terminal, "24 80").await;
    running.signaler().resize(50, 132).await.unwrap();
    terminal.write(b"typed\n").await.unwrap();
    let shown = until_shown(&terminal, "50 132").await;
    assert!(shown.contains("<typed>"), "{shown:?}");
    assert_eq!(in_time("the end", running.wait()).await.unwrap().code, Some(5));
    let mut rest = [0; 64];
    while in_time("the end of the terminal", terminal.read(&mut rest)).await.unwrap() > 0 {}
}

#[tokio::test]
async fn a_terminal_that_nobody_has_any_more_hangs_up() {
    let agent = agent().await;
    let mut launch = launch("sh", &["-c", "exec sleep 600"]);
    launch.standard = Standard::Terminal { rows: 24, columns: 80 };
    let mut running = agent.cell.launch(launch).await.unwrap();
    drop(running.take_terminal());
    assert_eq!(in_time("the end", running.wait()).await.unwrap().signal, Some(libc::SIGHUP));
}

#[tokio::test]
async fn much_is_shown_and_all_of_it() {
    let agent = agent().await;
    let mut launch = sh("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done");
    launch.standard = Standard::Terminal { rows: 24, columns: 80 };
    let mut running = agent.cell.launch(launch).await.unwrap();
    let terminal = Terminal::new(running.take_terminal().unwrap()).unwrap();
    let shown = until_shown(&terminal, "line 2999\r\n").await;
    let expected: String = (0..3000).map(|number| format!("line {number}\r\n")).collect();
    assert!(shown == expected);
    in_time("the end", running.wait()).await.unwrap();
}

#[tokio::test]
async fn a_size_is_not_for_a_program_on_a_socket() {
    let init = crate::common::init().await;
    let running = init.sh("exit 0").await;
    assert!(running.signaler().resize(1, 1).await.is_err());
}
