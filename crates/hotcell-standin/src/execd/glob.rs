//! Patterns for names: `*`, `**`, `?`, `[a-z]`, `[!a]`, `{one,two}` and `\` in front of any of them.

/// Does `name` match `pattern`?
pub(super) fn matches(pattern: &str, name: &str) -> Result<bool, &'static str> {
    let name: Vec<char> = name.chars().collect();
    for pattern in alternatives(pattern)? {
        if matches_here(&pattern.chars().collect::<Vec<_>>(), &name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The patterns without braces that one with braces stands for.
fn alternatives(pattern: &str) -> Result<Vec<String>, &'static str> {
    let Some((before, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.to_owned()]) };
    let (choices, after) = rest.split_once('}').ok_or("syntax error in pattern")?;
    let mut all = Vec::new();
    for choice in choices.split(',') {
        all.extend(alternatives(&format!("{before}{choice}{after}"))?);
    }
    Ok(all)
}

fn matches_here(pattern: &[char], name: &[char]) -> Result<bool, &'static str> {
    match pattern {
        [] => Ok(name.is_empty()),
        ['*', rest @ ..] => {
            for skipped in 0..=name.len() {
                if matches_here(rest, name.get(skipped..).unwrap_or_default())? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        ['?', rest @ ..] => Ok(!name.is_empty() && matches_here(rest, name.get(1..).unwrap_or_default())?),
        ['[', rest @ ..] => {
            let end = rest.iter().position(|c| *c == ']').ok_or("syntax error in pattern")?;
            let (set, after) = rest.split_at(end);
            let after = after.get(1..).unwrap_or_default();
            let Some((first, name)) = name.split_first() else { return Ok(false) };
            Ok(is_in(set, *first) && matches_here(after, name)?)
        }
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => match name.split_first() {
            Some((first, name)) if first == literal => matches_here(rest, name),
            _ => Ok(false),
        },
    }
}

fn is_in(set: &[char], character: char) -> bool {
    let (set, wanted) = match set {
        ['!' | '^', rest @ ..] => (rest, false),
        set => (set, true),
    };
    let mut rest = set;
    loop {
        rest = match rest {
            [] => return !wanted,
            [from, '-', to, ..] if (from..=to).contains(&&character) => return wanted,
            [_, '-', _, rest @ ..] => rest,
            [one, ..] if *one == character => return wanted,
            [_, rest @ ..] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match() {
        for (pattern, name, expected) in [
            ("*.py", "a.py", true),
            ("*.py", "a.pyc", false),
            ("**", "anything", true),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("*.{py,rs}", "main.rs", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(matches(pattern, name), Ok(expected), "{pattern} {name}");
        }
        assert!(matches("[a", "a").is_err());
    }
}
