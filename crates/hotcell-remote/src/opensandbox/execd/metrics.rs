//! What the sandbox uses of its machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Deserialize;

use super::super::super::http::{CallError, Chunks, Why};
use super::super::sse::Events;
use super::Execd;

/// The most that a measurement may have.
const LARGEST_MEASUREMENT: usize = 64 << 10;

/// A measurement. Execd reads `/proc`, so that in a container much of it is about the machine around it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// How many processors execd may use.
    pub cpu_count: f64,
    /// How busy the machine's processors are, in percent.
    pub cpu_used_percent: f64,
    /// The memory of the machine, in MiB.
    pub memory_total_mib: f64,
    /// How much of that is used, in MiB.
    pub memory_used_mib: f64,
    /// When it was taken.
    pub at: SystemTime,
}

#[derive(Deserialize)]
struct Answer {
    cpu_count: f64,
    cpu_used_pct: f64,
    mem_total_mib: f64,
    mem_used_mib: f64,
    timestamp: u64,
}

impl Answer {
    fn read(self) -> Metrics {
        Metrics {
            cpu_count: self.cpu_count,
            cpu_used_percent: self.cpu_used_pct,
            memory_total_mib: self.mem_total_mib,
            memory_used_mib: self.mem_used_mib,
            at: UNIX_EPOCH.checked_add(Duration::from_millis(self.timestamp)).unwrap_or(UNIX_EPOCH),
        }
    }
}

/// Measurements, about one every two seconds.
#[derive(Debug)]
pub struct MetricsWatch {
    chunks: Chunks,
    piece: Bytes,
    events: Events,
}

impl Execd {
    /// A measurement, which takes a second.
    pub async fn metrics(&self) -> Result<Metrics, CallError> {
        let call = self.server.get("measure a sandbox", &["metrics"]);
        Ok(call.send().await?.json::<Answer>().await?.read())
    }

    /// Measurements for as long as they are asked for.
    pub async fn watch_metrics(&self) -> Result<MetricsWatch, CallError> {
        let call = self.server.get("watch a sandbox", &["metrics", "watch"]);
        let chunks = call.send().await?.chunks();
        Ok(MetricsWatch { chunks, piece: Bytes::new(), events: Events::new(LARGEST_MEASUREMENT) })
    }
}

impl MetricsWatch {
    /// The next measurement; none when the server has no more. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Metrics>, CallError> {
        loop {
            while !self.piece.is_empty() {
                let (taken, data) = self.events.take(&self.piece).map_err(|why| self.chunks.failed(why))?;
                self.piece = self.piece.split_off(taken);
                let Some(data) = data else { continue };
                let answer: Answer = serde_json::from_slice(&data).map_err(|error| {
                    self.chunks.failed(Why::Garbled { what: format!("a measurement is none: {error}") })
                })?;
                return Ok(Some(answer.read()));
            }
            match self.chunks.next().await? {
                Some(piece) => self.piece = piece,
                None if self.events.rest().is_empty() => return Ok(None),
                None => return Err(self.chunks.failed(Why::Broken { reason: "a measurement is cut off".to_owned() })),
            }
        }
    }
}
