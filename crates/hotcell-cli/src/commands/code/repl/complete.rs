//! Whether what was typed is a whole piece of code.
//!
//! A guess from brackets, strings and line ends, made before anything runs: what is guessed wrong is two more times Enter, or an error of
//! the language itself.

use super::shell;

/// What strings, comments and blocks look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Python,
    Script,
    Shell,
    /// Nothing is known: every line is whole.
    Other,
}

impl Dialect {
    pub(super) fn of(language: &str) -> Self {
        match language {
            "python" | "python3" | "py" => Self::Python,
            "javascript" | "typescript" | "node" | "js" | "ts" => Self::Script,
            "bash" | "sh" | "shell" => Self::Shell,
            _ => Self::Other,
        }
    }

    /// Whether a comment begins here, after `before`.
    fn is_comment(self, before: &str, rest: &str) -> bool {
        match self {
            Self::Script => rest.starts_with("//"),
            Self::Python => rest.starts_with('#'),
            // `$#`, `${#x}` and `a#b` are none.
            Self::Shell => rest.starts_with('#') && before.chars().next_back().is_none_or(|c| " \t\n;&|()".contains(c)),
            Self::Other => false,
        }
    }

    /// The string that begins here: how it ends, and whether it may span lines.
    fn string(self, rest: &str) -> Option<(&'static str, bool)> {
        let quotes: &[(&'static str, bool)] = match self {
            Self::Python => &[("\"\"\"", true), ("'''", true), ("\"", false), ("'", false)],
            Self::Script => &[("`", true), ("\"", false), ("'", false)],
            Self::Shell => &[("\"", true), ("'", true)],
            Self::Other => &[],
        };
        quotes.iter().find(|(quote, _)| rest.starts_with(quote)).copied()
    }
}

/// Whether Enter should run it.
pub(super) fn is_complete(dialect: Dialect, text: &str) -> bool {
    // Two empty lines mean it: whatever is guessed, nobody is caught in here.
    if dialect == Dialect::Other || text.ends_with("\n\n") || super::is_command(text) {
        return true;
    }
    if text.ends_with('\\') || is_open(dialect, text) {
        return false;
    }
    // A block of Python ends with an empty line, as at Python's own prompt.
    let is_block = text.lines().any(|line| line.starts_with([' ', '\t', '@']) || without_comment(line).ends_with(':'));
    dialect != Dialect::Python || !is_block || text.ends_with('\n')
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim_end()
}

/// Whether something that may span lines is still open.
fn is_open(dialect: Dialect, text: &str) -> bool {
    if dialect != Dialect::Shell {
        return bare(dialect, text).is_none_or(|code| has_open_bracket(&code));
    }
    let Some(text) = shell::without_documents(text) else { return true };
    bare(dialect, &text).is_none_or(|code| has_open_bracket(&code) || shell::is_open(&code))
}

/// The code without comments, and with empty strings; none if a string that may span lines is open.
fn bare(dialect: Dialect, text: &str) -> Option<String> {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if dialect.is_comment(&code, rest) {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if let Some((quote, spans_lines)) = dialect.string(rest) {
            let content = &rest[quote.len()..];
            // Single quotes of a shell know no escapes.
            let escapes = !(dialect == Dialect::Shell && quote == "'");
            code.push_str("\"\"");
            rest = match after(content, quote, escapes) {
                Some(end) => end,
                None if spans_lines => return None,
                // A mistake in this line, which the language itself will name.
                None => content.find('\n').map_or("", |end| &content[end..]),
            };
            continue;
        }
        // What is escaped is neither a bracket nor a quote.
        let taken =
            if character == '\\' { rest.chars().take(2).map(char::len_utf8).sum() } else { character.len_utf8() };
        code.push_str(if character == '\\' { "_" } else { &rest[..taken] });
        rest = &rest[taken..];
    }
    Some(code)
}

fn has_open_bracket(code: &str) -> bool {
    let mut depth = 0_usize;
    for character in code.chars() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth > 0
}

/// What follows `end`; none if it does not come.
fn after<'a>(text: &'a str, end: &str, escapes: bool) -> Option<&'a str> {
    let mut rest = text;
    loop {
        if let Some(found) = rest.strip_prefix(end) {
            return Some(found);
        }
        let mut characters = rest.chars();
        if characters.next()? == '\\' && escapes {
            characters.next();
        }
        rest = characters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_piece_is_one() {
        for text in [
            "1 + 1",
            "",
            "print('(')",
            "x = [1,\n2]",
            "# (",
            "s = '''a\nb'''",
            "'it",
            ":help",
            "if x:\n  y\n",
            "d['a:']",
        ] {
            assert!(is_complete(Dialect::Python, text), "{text:?}");
        }
        for text in ["f(1)", "`a\n${b}`", "// {", "x = {\n}", "'\\''"] {
            assert!(is_complete(Dialect::Script, text), "{text:?}");
        }
        for text in [
            "echo 'a\\'",
            "echo ${#x} $# a#b",
            "echo hi # (",
            ": ${x:=5}",
            "for i in 1 2; do\n  echo $i\ndone",
            "if a; then b; elif c; then d; else e; fi",
            "case $x in\n a) b ;;\nesac",
            "while read x; do echo; done < f | sort",
            "cat <<EOF\n(if\nEOF",
            "cat <<-'E' | wc\n\tx\n\tE",
            "cat <<<word",
            "echo if for case",
            "f() { echo; }",
            "echo $((1 << 2))",
            "sleep 1 &",
        ] {
            assert!(is_complete(Dialect::Shell, text), "{text:?}");
        }
        assert!(is_complete(Dialect::of("lua"), "f("));
    }

    #[test]
    fn an_open_piece_waits() {
        for text in
            ["f(", "x = [1,", "'''a", "if x:", "if x: # why", "if x:\n  y", "def f():\n", "a \\", "@d\ndef f():"]
        {
            let expected = text.ends_with('\n');
            assert_eq!(is_complete(Dialect::Python, text), expected, "{text:?}");
        }
        for text in ["f(() => {", "`a", "x = '${'; {"] {
            assert!(!is_complete(Dialect::Script, text), "{text:?}");
        }
        for text in [
            "echo \"a",
            "for i in 1 2; do",
            "for i in 1 2; do\n  echo $i; if a; then b; fi",
            "if a; then\n b",
            "case $x in\n a) b ;;",
            "a |",
            "a && ",
            "a ||",
            "f() {",
            "cat <<EOF",
            "cat <<EOF\nEOF2",
            "cat << \"E\"\n x",
        ] {
            assert!(!is_complete(Dialect::Shell, text), "{text:?}");
        }
    }

    #[test]
    fn two_empty_lines_run_whatever_there_is() {
        let open = [(Dialect::Script, "/[(]/.test(x)"), (Dialect::Shell, "cat <<E"), (Dialect::Python, "f(")];
        for (dialect, text) in open {
            assert!(!is_complete(dialect, text) && !is_complete(dialect, &format!("{text}\n")), "{text:?}");
            assert!(is_complete(dialect, &format!("{text}\n\n")), "{text:?}");
        }
    }

    #[test]
    fn no_text_is_too_odd() {
        for text in ["\\", "'\\", "\\é", "\"\"\"\\\"\"\"", "é'é\\", "]]]"] {
            for dialect in [Dialect::Python, Dialect::Script, Dialect::Shell, Dialect::Other] {
                let _ = is_complete(dialect, text);
            }
        }
    }
}
