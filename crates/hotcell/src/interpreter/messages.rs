//! What a kernel says, and what is kept of it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_core::backend::{CaptureLimits, Stream, StreamCapture};
use serde::Deserialize;

use super::code::{CodeEvent, Exception, OnEvent, RichResult};
use super::languages::KernelKind;

/// The most results of one call.
const RESULTS: usize = 64;

/// The most bytes of all results of one call together.
const RESULT_BYTES: usize = 16 << 20;

/// The most formats of one result.
const FORMATS: usize = 16;

/// The most bytes of what an exception says, and of its traceback.
const EXCEPTION_BYTES: usize = 64 << 10;

/// Something that a kernel says. It shares its process with untrusted code: whatever is in here is what that code says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(super) enum Message {
    /// It is up.
    Ready {
        /// Whether it can run TypeScript.
        #[serde(default)]
        typescript: bool,
    },
    /// It begins with this call.
    Begin { id: u64 },
    /// The code shows something.
    Result { id: u64, is_value: bool, data: BTreeMap<String, String> },
    /// The call is over, as far as standard output goes.
    Done {
        id: u64,
        status: Ended,
        exit_code: Option<i32>,
        exception: Option<Raised>,
        /// A package that the code wants and that is not there.
        missing: Option<String>,
    },
    /// The call is over, as far as standard error goes.
    End { id: u64 },
}

/// How a call ended, in the kernel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ended {
    Done,
    Failed,
    Interrupted,
}

/// An exception, in the kernel's words.
#[derive(Debug, Deserialize)]
pub(super) struct Raised {
    name: String,
    message: String,
    traceback: String,
}

impl Raised {
    pub(super) fn bounded(self) -> Exception {
        Exception {
            name: shortened(&self.name, 256),
            message: shortened(&self.message, EXCEPTION_BYTES),
            traceback: shortened(&self.traceback, EXCEPTION_BYTES),
        }
    }
}

/// Head and tail of a text, with a line that says how much is missing.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let is_boundary = |index: &usize| text.is_char_boundary(*index);
    let head = (0..=most / 2).rev().find(is_boundary).unwrap_or(0);
    let tail = (text.len() - most / 2..text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{}\n[{} bytes are left out]\n{}", &text[..head], tail - head, &text[tail..])
}

/// What a call has written and shown so far, within bounds.
pub(super) struct Collector<'a> {
    stdout: StreamCapture,
    stderr: StreamCapture,
    results: Vec<RichResult>,
    result_bytes: usize,
    left_out: u64,
    on_event: OnEvent<'a>,
}

/// What a call has written and shown.
pub(super) struct Collected {
    pub(super) stdout: hotcell_core::backend::CapturedStream,
    pub(super) stderr: hotcell_core::backend::CapturedStream,
    pub(super) results: Vec<RichResult>,
    pub(super) left_out: u64,
}

impl<'a> Collector<'a> {
    pub(super) fn new(limits: CaptureLimits, on_event: OnEvent<'a>) -> Self {
        Self {
            stdout: StreamCapture::new(limits),
            stderr: StreamCapture::new(limits),
            results: Vec::new(),
            result_bytes: 0,
            left_out: 0,
            on_event,
        }
    }

    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(bytes),
            Stream::Stderr => self.stderr.push(bytes),
        }
        (self.on_event)(CodeEvent::Output(stream, bytes));
    }

    pub(super) fn result(&mut self, is_value: bool, data: BTreeMap<String, String>) {
        let bytes: usize = data.iter().map(|(media_type, content)| media_type.len() + content.len()).sum();
        let valid = (1..=FORMATS).contains(&data.len()) && data.iter().all(|(kind, content)| is_valid(kind, content));
        if !valid || self.results.len() >= RESULTS || self.result_bytes.saturating_add(bytes) > RESULT_BYTES {
            return self.leave_out();
        }
        self.result_bytes += bytes;
        let result = RichResult { is_value, data };
        (self.on_event)(CodeEvent::Result(&result));
        self.results.push(result);
    }

    pub(super) fn leave_out(&mut self) {
        self.left_out = self.left_out.saturating_add(1);
    }

    pub(super) fn finish(self) -> Collected {
        Collected {
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            results: self.results,
            left_out: self.left_out,
        }
    }
}

/// Whether it is a media type, with content as others may rely on: text, or Base64.
fn is_valid(media_type: &str, content: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
    };
    let Some((kind, subtype)) = media_type.split_once('/') else { return false };
    media_type.len() <= 128
        && is_word(kind)
        && is_word(subtype)
        && (is_text(media_type) || STANDARD.decode(content.trim_end()).is_ok())
}

/// Whether content of this type is text as it is; else it is in Base64.
fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || matches!(media_type, "application/json" | "application/javascript" | "application/xml")
}

/// How to install what is missing; none for a name that is none.
pub(super) fn install_hint(kind: KernelKind, missing: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@/".contains(&byte);
    if missing.is_empty() || missing.len() > 100 || !missing.bytes().all(plain) {
        return None;
    }
    let command = match kind {
        KernelKind::Python => format!("python3 -m pip install {}", python_package(missing)),
        KernelKind::Node | KernelKind::TypeScript => format!("npm install {missing}"),
        KernelKind::Bash => return None,
    };
    Some(format!(
        "`{missing}` is not installed in the box: run `{command}` in it, if its policy allows a network, or use an image that has it"
    ))
}

/// What a module's package is called, where that is another name.
fn python_package(module: &str) -> &str {
    match module.split('.').next().unwrap_or(module) {
        "PIL" => "pillow",
        "bs4" => "beautifulsoup4",
        "cv2" => "opencv-python-headless",
        "dateutil" => "python-dateutil",
        "dotenv" => "python-dotenv",
        "skimage" => "scikit-image",
        "sklearn" => "scikit-learn",
        "yaml" => "pyyaml",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(media_type: &str, content: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(media_type.to_owned(), content.to_owned())])
    }

    fn collected(results: Vec<BTreeMap<String, String>>) -> Collected {
        let mut collector = Collector::new(CaptureLimits::default(), &|_| {});
        results.into_iter().for_each(|data| collector.result(false, data));
        collector.finish()
    }

    #[test]
    fn results_are_bounded_in_number_and_size() {
        let many = collected(vec![one("text/plain", "x"); RESULTS + 3]);
        assert_eq!((many.results.len(), many.left_out), (RESULTS, 3));
        let large = collected(vec![one("text/plain", &"x".repeat(RESULT_BYTES / 3)); 4]);
        assert_eq!((large.results.len(), large.left_out), (2, 2));
    }

    #[test]
    fn results_are_what_they_say() {
        for (media_type, content) in [("image/png", "no base64!"), ("text", "x"), ("text/\u{1b}", "x"), ("/", "")] {
            assert_eq!(collected(vec![one(media_type, content)]).left_out, 1, "{media_type}");
        }
        assert_eq!(collected(vec![BTreeMap::new()]).left_out, 1);
        for (media_type, content) in [("image/png", "aGk=\n"), ("image/svg+xml", "<svg/>"), ("application/json", "1")] {
            assert_eq!(collected(vec![one(media_type, content)]).left_out, 0, "{media_type}");
        }
    }

    #[test]
    fn long_text_keeps_head_and_tail() {
        let text = format!("head{}tail", "ä".repeat(500));
        let shown = shortened(&text, 101);
        assert!(
            shown.starts_with("head") && shown.ends_with("tail") && shown.contains("bytes are left out"),
            "{shown}"
        );
        assert!(shown.len() < 140);
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn a_hint_is_a_command_that_can_be_run() {
        let hint = install_hint(KernelKind::Python, "yaml").unwrap();
        assert!(hint.contains("pip install pyyaml`"), "{hint}");
        assert!(install_hint(KernelKind::Node, "@scope/name").unwrap().contains("npm install @scope/name"));
        for bad in ["", "a b", "$(x)", "a`b", &"x".repeat(101)] {
            assert_eq!(install_hint(KernelKind::Python, bad), None, "{bad}");
        }
    }
}
