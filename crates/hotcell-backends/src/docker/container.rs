//! One container: made, attached to, started, and removed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::Docker;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
    StartContainerOptions,
};
use futures_core::Stream;
use hotcell_linux::{Cell, Keeper};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::engine_error;

/// How long a removal may take before it counts as failed.
const REMOVAL: Duration = Duration::from_secs(30);
/// How often a removal that somebody else has begun is looked at.
const REMOVAL_LOOK: Duration = Duration::from_millis(20);
/// How much of what the init complains about is kept.
const MOST_COMPLAINTS: usize = 4096;

/// What became of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    Pending,
    Done,
    Failed(String),
}

/// A container of ours. It is removed when it is killed or released, in the background.
#[derive(Debug)]
pub(super) struct Container {
    client: Docker,
    id: String,
    runtime: Handle,
    begun: AtomicBool,
    removal: watch::Sender<Removal>,
    /// Holds names on the host for it, until it is gone.
    holder: Mutex<Option<Arc<Cell>>>,
    /// Its first process, whose end is everybody's in it.
    first: OnceLock<OwnedFd>,
}

impl Container {
    /// Asks the engine for a container.
    pub(super) async fn create(client: &Docker, name: &str, body: ContainerCreateBody) -> Result<Arc<Self>, Error> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..CreateContainerOptions::default() };
        let created = client.create_container(Some(options), body).await?;
        Ok(Arc::new(Self {
            client: client.clone(),
            id: created.id,
            runtime: Handle::current(),
            begun: AtomicBool::new(false),
            removal: watch::Sender::new(Removal::Pending),
            holder: Mutex::new(None),
            first: OnceLock::new(),
        }))
    }

    /// Has it keep what holds names on the host: whoever let go of them while something still runs inside would let it
    /// take them.
    /// If the holder ends before the container does, the container ends with it.
    pub(super) fn keep(self: &Arc<Self>, holder: Option<Cell>) {
        let Some(holder) = holder.map(Arc::new) else { return };
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&holder));
        let container = Arc::downgrade(self);
        self.runtime.spawn(async move {
            holder.gone().await;
            if let Some(container) = container.upgrade() {
                container.begin_removal();
            }
        });
    }

    /// Holds its first process. Whether that is its first process is to be asked after this: from then on the number cannot
    /// have become another's.
    pub(super) fn hold_first(&self, pid: i64) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(first) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            let _ = self.first.set(first);
        }
    }

    /// The engine's name for it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Connects to its standard streams.
    pub(super) async fn attach(&self) -> Result<AttachContainerResults, Error> {
        let options = AttachContainerOptions {
            stream: true,
            stdin: true,
            stdout: true,
            stderr: true,
            ..AttachContainerOptions::default()
        };
        self.client.attach_container(&self.id, Some(options)).await
    }

    /// Starts it.
    pub(super) async fn start(&self) -> Result<(), Error> {
        self.client.start_container(&self.id, None::<StartContainerOptions>).await
    }

    /// What the engine says about it.
    pub(super) async fn inspect(&self) -> Result<ContainerInspectResponse, Error> {
        self.client.inspect_container(&self.id, None::<InspectContainerOptions>).await
    }

    /// Begins the removal, unless that has been done; it kills everything inside. Without a runtime that still runs nothing
    /// happens here: the end of the connection ends the container, and the engine removes it.
    pub(super) fn begin_removal(&self) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        // At once, where that is allowed: whoever drops a box may not let the runtime do anything for a while.
        if let Some(first) = self.first.get() {
            let _ = pidfd_send_signal(first, Signal::KILL);
        }
        let (client, id, removal) = (self.client.clone(), self.id.clone(), self.removal.clone());
        let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.runtime.spawn(async move {
            let ended = match tokio::time::timeout(REMOVAL, remove(&client, &id)).await {
                Ok(Ok(())) => Removal::Done,
                Ok(Err(error)) => Removal::Failed(engine_error(&error)),
                Err(_) => Removal::Failed(format!("it is still there after {} s", REMOVAL.as_secs())),
            };
            if let Some(holder) = holder {
                holder.kill();
                holder.gone().await;
            }
            removal.send_replace(ended);
        });
    }

    /// Removes it, and waits until it is gone.
    pub(super) async fn removed(&self) -> Result<(), String> {
        self.begin_removal();
        let mut removal = self.removal.subscribe();
        match removal.wait_for(|removal| *removal != Removal::Pending).await.as_deref() {
            Ok(Removal::Failed(reason)) => Err(reason.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err("its removal was given up".into()),
        }
    }
}

impl Keeper for Container {
    fn kill(&self) {
        self.begin_removal();
    }

    fn release(&self) {
        self.begin_removal();
    }
}

/// Removes the container when it is dropped, unless it was taken.
pub(super) struct Guard(Option<Arc<Container>>);

impl Guard {
    pub(super) fn new(container: &Arc<Container>) -> Self {
        Self(Some(Arc::clone(container)))
    }

    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(container) = self.0.take() {
            container.begin_removal();
        }
    }
}

/// Kills and removes a container, with the volumes that are its own, and returns when it is gone.
pub(super) async fn remove(client: &Docker, id: &str) -> Result<(), Error> {
    let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
    loop {
        match client.remove_container(id, Some(options.clone())).await {
            Ok(()) => return Ok(()),
            Err(error) if is_status(&error, 404) => return Ok(()),
            // The engine is at it already, because the container ended by itself.
            Err(error) if is_ending(&error) => tokio::time::sleep(REMOVAL_LOOK).await,
            Err(error) => return Err(error),
        }
    }
}

/// Whether the engine answered with this status.
fn is_status(error: &Error, status: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == status)
}

/// Whether the engine is about to remove the container, or sees it end. Podman says the latter in words only.
fn is_ending(error: &Error) -> bool {
    let Error::DockerResponseServerError { status_code, message } = error else { return false };
    *status_code == 409 || *status_code == 500 && message.contains("container state improper")
}

/// Whether the engine refused because the name is taken. Podman has no status of its own for that.
pub(super) fn is_taken(error: &Error) -> bool {
    let Error::DockerResponseServerError { status_code, message } = error else { return false };
    *status_code == 409 || *status_code == 500 && message.contains("name is already in use")
}

/// What the init said when it could not say it properly.
#[derive(Debug, Clone, Default)]
pub(super) struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Complaints {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_COMPLAINTS.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
    }

    /// As one line of text.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

/// The stdout of a container as bytes.
pub(super) struct Output {
    frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    /// The frame that is being read, and how much of it has been.
    current: Option<(LogOutput, usize)>,
    complaints: Complaints,
}

impl Output {
    pub(super) fn new(
        frames: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
        complaints: Complaints,
    ) -> Self {
        Self { frames, current: None, complaints }
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Some((frame, read)) = &mut this.current {
                let rest = frame.as_ref().get(*read..).unwrap_or_default();
                if !rest.is_empty() {
                    let count = rest.len().min(buffer.remaining());
                    buffer.put_slice(&rest[..count]);
                    *read += count;
                    return Poll::Ready(Ok(()));
                }
                this.current = None;
            }
            match std::task::ready!(this.frames.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(engine_error(&error)))),
                Some(Ok(frame @ LogOutput::StdOut { .. })) => this.current = Some((frame, 0)),
                Some(Ok(LogOutput::StdErr { message })) => this.complaints.add(&message),
                // Nothing of ours has a terminal, and nothing echoes what we write.
                Some(Ok(_)) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            }
        }
    }
}

/// Whether the process of this number is that container's first: an engine's numbers may be those of another machine, or of
/// another process namespace, and then its files are not ours either. Where the engine makes no cgroups, which would name the
/// container, the process is known by what it executes.
pub(super) fn is_here(pid: i64, container: &str, has_cgroups: bool) -> bool {
    let directory = Path::new("/proc").join(pid.to_string());
    let read = |file: &str| std::fs::read(directory.join(file)).unwrap_or_default();
    if pid <= 0 {
        return false;
    }
    if has_cgroups {
        return read("cgroup").windows(container.len().max(1)).any(|part| part == container.as_bytes());
    }
    read("cmdline") == format!("{}\0agent\0", super::hardened::INIT).into_bytes()
}
