//! What is open in a piece of shell code: words that begin a block, documents in the text, and lines that go on.

/// Whether a character ends a word, and begins a command after it.
fn separates(character: char) -> bool {
    "\n;&|(){}".contains(character)
}

/// Whether a block, such as that of an `if`, or a pipeline is still open. Of code without strings and comments.
pub(super) fn is_open(code: &str) -> bool {
    let end = code.trim_end();
    if end.ends_with('|') || end.ends_with("&&") {
        return true;
    }
    let mut depth = 0_usize;
    let mut begins_command = true;
    for part in code.split_inclusive(|character: char| character.is_whitespace() || separates(character)) {
        let word = part.trim_end_matches(|character: char| character.is_whitespace() || separates(character));
        let is_keyword = begins_command;
        begins_command &= word.is_empty();
        match word {
            "if" | "while" | "until" if is_keyword => (depth, begins_command) = (depth + 1, true),
            "for" | "select" | "case" if is_keyword => depth += 1,
            "fi" | "done" | "esac" if is_keyword => depth = depth.saturating_sub(1),
            "then" | "do" | "else" | "elif" | "!" | "time" if is_keyword => begins_command = true,
            _ => {}
        }
        begins_command |= part.ends_with(separates);
    }
    depth > 0
}

/// The text without the documents that `<<WORD` begins; none if one has not ended.
pub(super) fn without_documents(text: &str) -> Option<String> {
    let mut rest = text.lines();
    let mut code = Vec::new();
    while let Some(line) = rest.next() {
        code.push(line);
        if let Some((word, is_indented)) = document(line) {
            let is_end = |line: &str| if is_indented { line.trim_start_matches('\t') == word } else { line == word };
            rest.find(|line| is_end(line))?;
        }
    }
    Some(code.join("\n"))
}

/// The word that ends the document which begins in this line, and whether it may be indented.
fn document(line: &str) -> Option<(&str, bool)> {
    let (_, after) = line.split_once("<<").filter(|(_, after)| !after.starts_with('<'))?;
    let (after, is_indented) = after.strip_prefix('-').map_or((after, false), |after| (after, true));
    let word = after.trim_start().trim_start_matches(['\'', '"', '\\']);
    // A number is what something is shifted by.
    let begins = word.starts_with(|character: char| character.is_alphabetic() || character == '_');
    let end = word.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(word.len());
    begins.then(|| (&word[..end], is_indented))
}
