//! `/metrics`

use std::fs;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::{clock, go, reply};

/// Over what time the use of processors is measured. The real one takes a second.
const MEASURE: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
struct Metrics {
    cpu_count: f64,
    cpu_used_pct: f64,
    mem_total_mib: f64,
    mem_used_mib: f64,
    timestamp: u64,
}

/// `GET /metrics`
pub(super) async fn once() -> Response {
    reply::json(StatusCode::OK, &measure().await)
}

/// `GET /metrics/watch`
pub(super) async fn watch() -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let line = go::json(&measure().await) + "\n";
            if sender.send(Bytes::from(line)).await.is_err() {
                return;
            }
        }
    });
    let response = reply::with_type(StatusCode::OK, "text/event-stream", reply::chunks(receiver));
    reply::with_headers(response, &[("cache-control", "no-cache"), ("x-accel-buffering", "no")])
}

async fn measure() -> Metrics {
    let before = ticks();
    tokio::time::sleep(MEASURE).await;
    let after = ticks();
    let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let busy = all.saturating_sub(idle);
    let (total, available) = memory();
    Metrics {
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from) as f64,
        cpu_used_pct: if all == 0 { 0.0 } else { busy as f64 * 100.0 / all as f64 },
        mem_total_mib: total as f64 / 1024.0,
        mem_used_mib: total.saturating_sub(available) as f64 / 1024.0,
        timestamp: clock::milliseconds(),
    }
}

/// Time that processors were idle, and all of their time.
fn ticks() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers: Vec<u64> =
        text.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let idle = numbers.iter().skip(3).take(2).sum();
    (idle, numbers.iter().take(8).sum())
}

/// Memory in KiB: all, and what is available.
fn memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (value("MemTotal:"), value("MemAvailable:"))
}
