//! The contexts of an interpreter, each with a kernel of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedMutexGuard, watch};

use super::code::ContextInfo;
use super::error::CodeError;
use super::kernel::{Kernel, Wish};
use super::languages::KernelKind;

/// The most contexts of one interpreter.
pub(super) const MOST: usize = 8;

/// A context. Calls to it queue: the kernel is behind a lock that is handed on in the order of asking.
pub(super) struct Context {
    name: String,
    language: String,
    pub(super) kind: KernelKind,
    kernel: Arc<tokio::sync::Mutex<Option<Kernel>>>,
    wishes: watch::Sender<Wish>,
    count: AtomicU64,
    busy: AtomicBool,
    /// Whether variables were lost that nobody was told of yet.
    lost: AtomicBool,
    removed: AtomicBool,
    /// How many want its process to end and wait for the lock. Calls whose turn comes before theirs let them go first.
    ends: AtomicUsize,
}

/// A call's hold of a kernel. Dropping it in the middle of a call interrupts that in the background.
pub(super) struct Held {
    context: Arc<Context>,
    kernel: Option<OwnedMutexGuard<Option<Kernel>>>,
}

impl Context {
    /// Waits for one's turn.
    pub(super) async fn hold(self: &Arc<Self>) -> Result<Held, CodeError> {
        loop {
            let kernel = Arc::clone(&self.kernel).lock_owned().await;
            // In this order: who wants an end either is seen here, or their wish comes after this one.
            self.wishes.send_replace(Wish::GoOn);
            self.check_removed()?;
            if self.ends.load(Ordering::Acquire) == 0 {
                return Ok(self.held(kernel));
            }
            drop(kernel);
            tokio::task::yield_now().await;
        }
    }

    /// Ends the process, also one that runs code, and keeps hold of its place.
    pub(super) async fn hold_anew(self: &Arc<Self>) -> Result<Held, CodeError> {
        let kernel = self.end().await;
        self.wishes.send_replace(Wish::GoOn);
        self.check_removed()?;
        Ok(self.held(kernel))
    }

    /// Ends the process, also one that runs code. Nobody starts another before the lock is given back.
    async fn end(&self) -> OwnedMutexGuard<Option<Kernel>> {
        let waiting = Waiting::new(&self.ends);
        self.wishes.send_replace(Wish::End);
        let mut place = Arc::clone(&self.kernel).lock_owned().await;
        drop(waiting);
        if let Some(mut kernel) = place.take() {
            kernel.end().await;
        }
        place
    }

    fn check_removed(&self) -> Result<(), CodeError> {
        match self.removed.load(Ordering::Acquire) {
            true => Err(CodeError::context(&self.name, "it was removed meanwhile")),
            false => Ok(()),
        }
    }

    fn held(self: &Arc<Self>, kernel: OwnedMutexGuard<Option<Kernel>>) -> Held {
        self.busy.store(true, Ordering::Release);
        Held { context: Arc::clone(self), kernel: Some(kernel) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn wishes(&self) -> watch::Receiver<Wish> {
        self.wishes.subscribe()
    }

    pub(super) fn counted(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether variables were lost since somebody was told; now somebody is.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::AcqRel)
    }

    /// Whether it has not run anything yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether it has nothing to keep, and nobody else knows of it. Only for whoever holds the list of all.
    fn is_unused(self: &Arc<Self>) -> bool {
        let has_kernel = self.kernel.try_lock().map_or(true, |kernel| kernel.is_some());
        self.is_fresh() && !self.is_lost() && !has_kernel && Arc::strong_count(self) == 1
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }
}

/// One more who waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Held {
    /// The kernel's place; empty where none runs.
    pub(super) fn place(&mut self) -> Option<&mut Option<Kernel>> {
        self.kernel.as_deref_mut()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.context.busy.store(false, Ordering::Release);
        let Some(mut place) = self.kernel.take() else { return };
        if !place.as_ref().is_some_and(Kernel::is_unfinished) {
            return;
        }
        let context = Arc::clone(&self.context);
        match tokio::runtime::Handle::try_current() {
            // The lock goes along: who comes next waits until the kernel can be used, or is gone.
            Ok(runtime) => drop(runtime.spawn(async move {
                let usable = match place.as_mut() {
                    Some(kernel) => kernel.recover().await,
                    None => true,
                };
                if !usable {
                    *place = None;
                    context.lose();
                }
            })),
            Err(_) => {
                *place = None;
                context.lose();
            }
        }
    }
}

/// All contexts, by name.
#[derive(Default)]
pub(super) struct Contexts {
    all: Mutex<BTreeMap<String, Arc<Context>>>,
}

impl Contexts {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Context>>> {
        // Nothing panics while it is held.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Context>> {
        self.all().get(name).cloned()
    }

    /// The context of this name, made if there is none.
    pub(super) fn open(&self, name: &str, language: &str, kind: KernelKind) -> Result<Arc<Context>, CodeError> {
        check_name(name)?;
        let mut all = self.all();
        if let Some(context) = all.get(name) {
            if context.language != language {
                let reason = format!("it is one of {}; use another name for {language}", context.language);
                return Err(CodeError::context(name, reason));
            }
            return Ok(Arc::clone(context));
        }
        // A place that a call took which ended before its process was ready, or before anybody waited for that, is free again.
        all.retain(|_, context| !context.is_unused());
        if all.len() >= MOST {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            let reason = format!(
                "there are {MOST} contexts, and no more are possible; use or remove one of {}",
                names.join(", ")
            );
            return Err(CodeError::context(name, reason));
        }
        let context = Arc::new(Context {
            name: name.to_owned(),
            language: language.to_owned(),
            kind,
            kernel: Arc::default(),
            wishes: watch::Sender::new(Wish::GoOn),
            count: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            ends: AtomicUsize::new(0),
        });
        all.insert(name.to_owned(), Arc::clone(&context));
        Ok(context)
    }

    /// Interrupts the call that a context runs; whether it ran one.
    pub(super) fn interrupt(&self, name: &str) -> bool {
        let Some(context) = self.get(name).filter(|context| context.is_busy()) else { return false };
        context.wishes.send_if_modified(|wish| match wish {
            // Who wants the end wants more than this.
            Wish::End => false,
            other => {
                *other = Wish::Interrupt;
                true
            }
        });
        true
    }

    /// Forgets a context that never got a kernel.
    pub(super) fn forget(&self, context: &Arc<Context>) {
        context.removed.store(true, Ordering::Release);
        let mut all = self.all();
        if all.get(context.name()).is_some_and(|there| Arc::ptr_eq(there, context)) {
            all.remove(context.name());
        }
    }

    /// Ends a context and its process; whether there was one.
    pub(super) async fn remove(&self, name: &str) -> bool {
        let Some(context) = self.all().remove(name) else { return false };
        context.removed.store(true, Ordering::Release);
        context.end().await;
        true
    }

    pub(super) async fn remove_all(&self) {
        let all = std::mem::take(&mut *self.all());
        for context in all.values() {
            context.removed.store(true, Ordering::Release);
            context.wishes.send_replace(Wish::End);
        }
        for context in all.values() {
            context.end().await;
        }
    }

    pub(super) fn list(&self) -> Vec<ContextInfo> {
        let info = |context: &Arc<Context>| ContextInfo {
            name: context.name.clone(),
            language: context.language.clone(),
            count: context.count.load(Ordering::Relaxed),
            busy: context.is_busy(),
        };
        self.all().values().map(info).collect()
    }
}

/// Names become parts of messages and of lists: nothing but plain characters.
fn check_name(name: &str) -> Result<(), CodeError> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    Err(CodeError::invalid("the context's name", "it has 1 to 64 of the characters a-z, 0-9, `-` and `_`"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A removal between the two things that a call does when its turn comes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_removal_is_not_missed_by_a_call_whose_turn_comes() {
        let context = Contexts::default().open("main", "bash", KernelKind::Bash).unwrap();
        let wishes = context.wishes();
        // While this is read, nobody can write to it: the call gets as far as that and waits.
        let read = wishes.borrow();
        let call = tokio::spawn({
            let context = Arc::clone(&context);
            async move { context.hold().await.is_err() }
        });
        std::thread::sleep(Duration::from_millis(200));
        context.removed.store(true, Ordering::Release);
        drop(read);
        assert!(call.await.unwrap(), "it goes on, and the wish to end it is overwritten");
    }

    /// A restart between the two things that a call does when its turn comes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_whose_turn_comes_lets_a_restart_go_first() {
        let context = Contexts::default().open("main", "bash", KernelKind::Bash).unwrap();
        let first = context.hold().await.unwrap();
        let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
        let call = tokio::spawn({
            let (context, told) = (Arc::clone(&context), told.clone());
            async move {
                let held = context.hold().await.unwrap();
                told.send("call").unwrap();
                drop(held);
            }
        });
        // The call is in the queue before the restart is.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let restart = tokio::spawn({
            let context = Arc::clone(&context);
            async move {
                let held = context.hold_anew().await.unwrap();
                told.send("restart").unwrap();
                drop(held);
            }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(*context.wishes().borrow(), Wish::End);
        drop(first);
        assert_eq!((order.recv().await, order.recv().await), (Some("restart"), Some("call")));
        call.await.unwrap();
        restart.await.unwrap();
        assert_eq!(context.ends.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn an_interrupt_does_not_take_the_place_of_the_end() {
        let contexts = Contexts::default();
        let context = contexts.open("main", "bash", KernelKind::Bash).unwrap();
        let _held = context.hold().await.unwrap();
        assert!(contexts.interrupt("main"));
        assert_eq!(*context.wishes().borrow(), Wish::Interrupt);
        context.wishes.send_replace(Wish::End);
        assert!(contexts.interrupt("main"));
        assert_eq!(*context.wishes().borrow(), Wish::End);
    }
}
