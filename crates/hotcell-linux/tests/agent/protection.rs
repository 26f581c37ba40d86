//! What programs of the same user can do to the helper that started them: nothing.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use crate::common::{Box, agent_by, helper, init_by, without_rights};

async fn boxes() -> [Box; 2] {
    let [mut agent, mut init] = ["agent", "init"].map(helper);
    without_rights(&mut agent);
    without_rights(&mut init);
    [agent_by(agent, Vec::new()).await.unwrap(), init_by(init, Vec::new()).await.unwrap()]
}

/// The attack works on a process that does not protect itself: else these tests would prove nothing.
#[tokio::test]
async fn the_descriptors_of_an_ordinary_process_can_be_opened() {
    for cell in boxes().await {
        let script = "exec </dev/zero; ls /proc/$$/fd >/dev/null && head -c 1 /proc/$$/fd/0 | od -An -tx1";
        let (output, error, _) = cell.run(script).await;
        assert_eq!(output.trim(), "00", "{error}");
    }
}

#[tokio::test]
async fn the_conversation_cannot_be_reached_by_programs() {
    for cell in boxes().await {
        let pid = cell.pid();
        let script = format!(
            "ls /proc/{pid}/fd && echo LISTED; for n in 0 1 2 3 4 5 6; do \
             (exec 9</proc/{pid}/fd/$n) && echo READ $n; (exec 9>/proc/{pid}/fd/$n) && echo WROTE $n; done; \
             cat /proc/{pid}/environ && echo ENVIRON; head -c 1 /proc/{pid}/mem && echo MEMORY; exit 0"
        );
        let (output, error, _) = cell.run(&script).await;
        assert_eq!(output, "", "{error}");
        assert!(error.contains("denied"), "{error}");
        // And it is as well as before.
        assert_eq!(cell.run("echo fine").await.0, "fine\n");
    }
}

#[tokio::test]
async fn programs_get_three_descriptors_and_no_others() {
    for cell in boxes().await {
        let (output, _, _) = cell.run("ls /proc/self/fd | wc -l; [ -e /proc/$$/fd/3 ] || echo none").await;
        // And the directory that `ls` itself reads.
        assert_eq!(output, "4\nnone\n");
    }
}

#[tokio::test]
async fn descriptors_that_were_left_open_are_closed() {
    let secret = std::fs::File::open("/dev/zero").unwrap();
    let number = secret.as_raw_fd();
    let leaky = |mode| {
        let mut command = helper(mode);
        let image: i32 = command.get_program().to_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        // SAFETY: copying descriptors is all that is done between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for place in [3, 4, 5, 77].into_iter().filter(|place| *place != image) {
                    libc::dup2(number, place);
                }
                Ok(())
            });
        }
        command
    };
    let agent = agent_by(leaky("agent"), Vec::new()).await.unwrap();
    let init = init_by(leaky("init"), Vec::new()).await.unwrap();
    for cell in [agent, init] {
        assert_eq!(cell.run("ls /proc/self/fd | wc -l").await.0, "4\n");
        // Only root may look.
        let Ok(inside) = std::fs::read_dir(format!("/proc/{}/fd", cell.pid())) else { continue };
        let targets: Vec<_> = inside.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        let shown = |name: &str| targets.iter().filter(|target| target.to_str() == Some(name)).count();
        assert_eq!((shown("/dev/zero"), shown("/dev/null")), (0, 3), "{targets:?}");
    }
}

#[tokio::test]
async fn signals_of_programs_do_not_end_the_helper() {
    for cell in boxes().await {
        let script =
            format!("for signal in HUP INT TERM USR1 USR2 PIPE ALRM CHLD; do kill -$signal {}; done", cell.pid());
        assert_eq!(cell.run(&script).await.2, Some(0));
        assert_eq!(cell.run("echo fine").await.0, "fine\n");
    }
}
