//! All sandboxes, and when they end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use tokio::sync::Mutex;

use super::sandbox::{Facts, Sandbox};
use crate::identity;

/// How often is looked for sandboxes whose time is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a sandbox is made of.
#[derive(Debug)]
pub(super) struct Create {
    pub(super) template: String,
    pub(super) timeout: Duration,
    pub(super) auto_pause: bool,
    pub(super) secure: bool,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) variables: BTreeMap<String, String>,
}

/// Everything that there is.
#[derive(Debug)]
pub(super) struct Cloud {
    pub(super) key: String,
    pub(super) v1_only: bool,
    keepalive: Option<Duration>,
    sandboxes: Mutex<BTreeMap<String, (Facts, Sandbox)>>,
}

impl Cloud {
    pub(super) fn new(key: String, v1_only: bool, keepalive: Option<Duration>) -> Self {
        Self { key, v1_only, keepalive, sandboxes: Mutex::default() }
    }

    /// Ends or pauses sandboxes when their time is over, for ever.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = SystemTime::now();
            let mut over = Vec::new();
            {
                let mut sandboxes = self.sandboxes.lock().await;
                for (id, (facts, _)) in sandboxes.iter_mut() {
                    if facts.paused || facts.ends > now {
                        continue;
                    }
                    if facts.auto_pause {
                        facts.paused = true;
                    } else {
                        over.push(id.clone());
                    }
                }
            }
            for id in over {
                self.remove(&id).await;
            }
        }
    }

    pub(super) async fn create(&self, create: Create) -> Result<Facts> {
        let token = create.secure.then(|| identity::random_hex(32));
        let sandbox = Sandbox::start(token.clone(), create.variables, self.keepalive).await?;
        let started = SystemTime::now();
        let facts = Facts {
            id: format!("i{}", identity::random_hex(19)),
            template: create.template,
            metadata: create.metadata,
            token,
            started,
            ends: started + create.timeout,
            auto_pause: create.auto_pause,
            paused: false,
        };
        self.sandboxes.lock().await.insert(facts.id.clone(), (facts.clone(), sandbox));
        Ok(facts)
    }

    pub(super) async fn get(&self, id: &str) -> Option<Facts> {
        self.sandboxes.lock().await.get(id).map(|(facts, _)| facts.clone())
    }

    pub(super) async fn all(&self) -> Vec<Facts> {
        self.sandboxes.lock().await.values().map(|(facts, _)| facts.clone()).collect()
    }

    /// Changes what is known of a sandbox.
    pub(super) async fn change<T>(&self, id: &str, change: impl FnOnce(&mut Facts) -> T) -> Option<T> {
        self.sandboxes.lock().await.get_mut(id).map(|(facts, _)| change(facts))
    }

    /// Where the envd of a sandbox that runs listens.
    pub(super) async fn address(&self, id: &str) -> Option<std::net::SocketAddr> {
        let sandboxes = self.sandboxes.lock().await;
        sandboxes.get(id).filter(|(facts, _)| !facts.paused).map(|(_, sandbox)| sandbox.address)
    }

    /// Ends a sandbox; false if there is none.
    pub(super) async fn remove(&self, id: &str) -> bool {
        let removed = self.sandboxes.lock().await.remove(id);
        let Some((_, sandbox)) = removed else { return false };
        sandbox.end().await;
        true
    }

    /// Ends all of them.
    pub(super) async fn end(&self) {
        let all = std::mem::take(&mut *self.sandboxes.lock().await);
        for (_, (_, sandbox)) in all {
            sandbox.end().await;
        }
    }
}
