//! A door for the fuzz targets, which play the server. It exists only in a build for fuzzing (`--cfg fuzzing`).

use std::cell::RefCell;

use reqwest::Response;

thread_local! {
    static ANSWER: RefCell<Option<Response>> = const { RefCell::new(None) };
}

/// Answers the next call of this thread; no connection is made for it.
pub fn answer_next(response: Response) {
    ANSWER.set(Some(response));
}

/// The answer that was prepared, once.
pub(crate) fn prepared() -> Option<Response> {
    ANSWER.take()
}
