//! Columns for people.

/// Lines with aligned columns: each as wide as its widest cell, the last one free.
pub(crate) fn aligned<const COLUMNS: usize>(indent: &str, rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(indent);
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn columns_line_up_and_lines_have_no_blanks_at_the_end() {
        let rows = [["a", "bb", "c"], ["größe", "", "d"], ["", "x", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(" ", &rows), " a      bb  c\n größe      d\n        x\n");
    }
}
