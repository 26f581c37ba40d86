//! Asking for the end of a command, from any handle, and hearing of it where the command is watched.

use std::time::Duration;

use tokio::sync::watch;

/// How long a command that took too long has between the request to end and the end.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// Whoever may ask. A command whose asker is gone is to be killed.
#[derive(Debug)]
pub(crate) struct Asker(watch::Sender<Option<Duration>>);

/// Whoever hears of it.
#[derive(Debug)]
pub(crate) struct Asked(watch::Receiver<Option<Duration>>);

/// Both ends, for one command.
pub(crate) fn channel() -> (Asker, Asked) {
    let (sender, receiver) = watch::channel(None);
    (Asker(sender), Asked(receiver))
}

impl Asker {
    /// It is to end within this time. Whoever asked first has decided how much that is.
    pub(crate) fn stop(&self, grace: Duration) {
        self.0.send_if_modified(|asked| {
            let is_first = asked.is_none();
            asked.get_or_insert(grace);
            is_first
        });
    }

    /// It is to end now, whatever was asked for before.
    pub(crate) fn kill(&self) {
        self.0.send_replace(Some(Duration::ZERO));
    }
}

impl Asked {
    /// Waits until its end is wanted; how much time it is given, which is none for a kill.
    pub(crate) async fn stopped(&mut self) -> Duration {
        let asked = self.0.wait_for(Option::is_some).await;
        asked.ok().and_then(|grace| *grace).unwrap_or_default()
    }

    /// Waits until it is wanted at once.
    pub(crate) async fn killed(&mut self) {
        let _ = self.0.wait_for(|asked| *asked == Some(Duration::ZERO)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kill_is_stronger_than_a_stop() {
        let (asker, mut asked) = channel();
        asker.stop(Duration::from_secs(2));
        asker.stop(Duration::from_secs(9));
        assert_eq!(asked.stopped().await, Duration::from_secs(2));
        asker.kill();
        asked.killed().await;
        asker.stop(Duration::from_secs(2));
        assert_eq!(asked.stopped().await, Duration::ZERO);
    }

    #[tokio::test]
    async fn a_command_that_nobody_can_ask_is_killed() {
        let (asker, mut asked) = channel();
        drop(asker);
        assert_eq!(asked.stopped().await, Duration::ZERO);
        asked.killed().await;
    }
}
