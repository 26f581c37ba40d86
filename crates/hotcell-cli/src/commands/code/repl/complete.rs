//! Whether what was typed is a whole piece of code.
//!
//! A guess from brackets, strings and line ends, made before anything runs: what is guessed wrong is one Enter more, or an error of
//! the language itself.

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

    fn is_comment(self, rest: &str) -> bool {
        match self {
            Self::Script => rest.starts_with("//"),
            Self::Python | Self::Shell => rest.starts_with('#'),
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
    if dialect == Dialect::Other || text.trim_start().starts_with(':') {
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

/// Whether a bracket or a string that may span lines is still open.
fn is_open(dialect: Dialect, text: &str) -> bool {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if dialect.is_comment(rest) {
            rest = after(rest, "\n", false).unwrap_or_default();
            continue;
        }
        if let Some((quote, spans_lines)) = dialect.string(rest) {
            let content = &rest[quote.len()..];
            // Single quotes of a shell know no escapes.
            let escapes = !(dialect == Dialect::Shell && quote == "'");
            match after(content, quote, escapes) {
                Some(end) => rest = end,
                None if spans_lines => return true,
                // A mistake in this line, which the language itself will name.
                None => rest = after(content, "\n", false).unwrap_or_default(),
            }
            continue;
        }
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let skipped =
            if character == '\\' { rest.chars().take(2).map(char::len_utf8).sum() } else { character.len_utf8() };
        rest = &rest[skipped..];
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
        assert!(is_complete(Dialect::Shell, "echo 'a\\'"));
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
        assert!(!is_complete(Dialect::Shell, "echo \"a"));
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
