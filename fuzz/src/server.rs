//! A server whose answers a target makes up, and the runtime that its client needs.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use futures_util::stream;
use hotcell_remote::fuzzing::answer_next;

/// Where the server would be. Nobody listens there, and nobody is asked.
pub const ADDRESS: &str = "http://127.0.0.1:1";

/// Answers the next call: with a success of this type of content, in these pieces.
pub fn will_answer(content: &str, pieces: &[&[u8]]) {
    let pieces: Vec<Result<Bytes, Infallible>> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let body = reqwest::Body::wrap_stream(stream::iter(pieces));
    let answer = http::Response::builder().header("content-type", content).body(body).expect("it is an answer");
    answer_next(answer.into());
}

/// Runs a client to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static RUNTIME: OnceCell<tokio::runtime::Runtime> = const { OnceCell::new() };
    }
    let make = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    RUNTIME.with(|runtime| runtime.get_or_init(make).block_on(future))
}
