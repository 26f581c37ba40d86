//! What a kernel says, and what is kept of it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_core::backend::{CaptureLimits, Stream, StreamCapture};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

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
#[derive(Debug)]
pub(super) enum Message {
    /// It is up.
    Ready {
        /// Whether it can run TypeScript.
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

/// A message as it is written, with the fields of all kinds.
///
/// An enum with a tag would be shorter to write, but is read into a tree first, which takes many times the memory of its text.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    typescript: bool,
    id: Option<u64>,
    is_value: Option<bool>,
    data: Option<Formats>,
    status: Option<Ended>,
    exit_code: Option<i32>,
    exception: Option<Raised>,
    missing: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Ready,
    Begin,
    Result,
    Done,
    End,
}

impl Message {
    /// None for what makes no sense.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(text).ok()?;
        Some(match written.kind {
            Kind::Ready => Self::Ready { typescript: written.typescript },
            Kind::Begin => Self::Begin { id: written.id? },
            Kind::Result => Self::Result { id: written.id?, is_value: written.is_value?, data: written.data?.0 },
            Kind::Done => Self::Done {
                id: written.id?,
                status: written.status?,
                exit_code: written.exit_code,
                exception: written.exception,
                missing: written.missing,
            },
            Kind::End => Self::End { id: written.id? },
        })
    }
}

/// Content by media type. Of more than a result may have, one more is kept, by which that can be seen.
struct Formats(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Formats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FormatsVisitor)
    }
}

struct FormatsVisitor;

impl<'de> Visitor<'de> for FormatsVisitor {
    type Value = Formats;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("content by media type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Formats, A::Error> {
        let mut formats = BTreeMap::new();
        while formats.len() <= FORMATS {
            let Some((media_type, content)) = map.next_entry()? else { return Ok(Formats(formats)) };
            formats.insert(media_type, content);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Formats(formats))
    }
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

    /// The most memory that this process ever had.
    #[cfg(target_os = "linux")]
    fn peak() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reading_takes_no_more_memory_than_a_few_times_the_text() {
        let numbers = format!(r#"{{"type":"done","id":1,"status":"done","more":[0{}]}}"#, ",0".repeat(9 << 20));
        let formats: String = (0..1_500_000).map(|number| format!(r#""{number:x}":"","#)).collect();
        let formats = format!(r#"{{"type":"result","id":1,"is_value":true,"data":{{{formats}"x":""}}}}"#);
        let before = peak();
        assert!(matches!(Message::read(numbers.as_bytes()), Some(Message::Done { id: 1, .. })));
        let Some(Message::Result { data, .. }) = Message::read(formats.as_bytes()) else { panic!("no result") };
        assert!(peak() - before < 100 << 20, "{} bytes", peak() - before);
        assert_eq!(collected(vec![data]).left_out, 1);
    }

    #[test]
    fn messages_are_whole_or_nothing() {
        let result = r#"{"type":"result","id":1,"is_value":true,"data":{"text/plain":"é"},"new":[{}]}"#;
        assert!(matches!(Message::read(result.as_bytes()), Some(Message::Result { id: 1, is_value: true, data })
            if data == one("text/plain", "é")));
        assert!(matches!(Message::read(br#"{"type":"ready"}"#), Some(Message::Ready { typescript: false })));
        let done = r#"{"type":"done","id":1,"status":"failed","exception":{"name":"n","message":"m","traceback":"t"},"missing":null}"#;
        assert!(matches!(
            Message::read(done.as_bytes()),
            Some(Message::Done { exception: Some(_), missing: None, .. })
        ));
        for bad in [
            r#"{"type":"other"}"#,
            r#"{"id":1}"#,
            r#"{"type":"begin"}"#,
            r#"{"type":"end","id":-1}"#,
            r#"{"type":"done","id":1}"#,
            r#"{"type":"done","id":1,"status":"done","exception":{}}"#,
            r#"{"type":"result","id":1,"is_value":true}"#,
            r#"{"type":"result","id":1,"is_value":true,"data":{"text/plain":1}}"#,
            "[]",
            "",
        ] {
            assert!(Message::read(bad.as_bytes()).is_none(), "{bad}");
        }
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
