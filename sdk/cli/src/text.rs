//! Tables and numbers for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A text in which control characters are written as escapes, so that a name cannot steer a terminal. Line feeds and tabs
/// stay.
pub fn printable(text: &str) -> String {
    let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().map(|c| if keep(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

/// A table with a header; the columns of `right` are aligned to the right. On a terminal, names in the first column take a
/// third of the width at most, and other cells are wrapped.
pub fn table(header: &[&str], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    let name_width = table.width().map_or(usize::MAX, |w| usize::from(w / 3).max(16));
    rows.into_iter().for_each(|cells| {
        let mut cells: Vec<String> = cells.iter().map(|cell| printable(cell).replace('\n', "\\n")).collect();
        if let Some(name) = cells.first_mut() {
            *name = shortened(name, name_width);
        }
        table.add_row(cells);
    });
    for &i in right {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string().lines().map(|l| l.trim_end().to_owned() + "\n").collect()
}

/// A text of at most `width` characters; one that is longer ends in an ellipsis.
fn shortened(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// `12.3 KiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `1.2 us`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// `1.23 M`.
pub fn count(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..10_000_000 => format!("{:.1} k", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} G", n as f64 / 1e9),
    }
}

/// Decibel; `exact` where there is no error.
pub fn decibel(db: f64) -> String {
    if db.is_infinite() && db > 0.0 { "exact".to_owned() } else { format!("{db:.1}") }
}

/// As [`decibel`], with the unit where there is a number.
pub fn decibels(db: f64) -> String {
    let text = decibel(db);
    if text == "exact" { text } else { text + " dB" }
}

/// A number for JSON: `null` where JSON has none for it (infinite signal-to-noise ratios).
pub fn number(value: f64) -> serde_json::Value {
    serde_json::Number::from_f64(value).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{9b}\n\u{fc}"), "a\\u{1b}[31mb\\u{9b}\n\u{fc}");
        let rows = [vec!["x\r\ny".to_owned()]];
        assert_eq!(table(&["name"], &[], rows).lines().last(), Some(" x\\r\\ny"));
    }

    #[test]
    fn long_names_end_in_an_ellipsis() {
        assert_eq!((shortened("abcd", 4), shortened("abcde", 4)), ("abcd".to_owned(), "abc…".to_owned()));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((bytes(12), bytes(1536), bytes(5 << 20)), ("12 B".into(), "1.5 KiB".into(), "5.0 MiB".into()));
        assert_eq!(
            (count(9_999), count(1_234_567), count(25_000_000)),
            ("9999".into(), "1234.6 k".into(), "25.0 M".into())
        );
        assert_eq!((decibel(f64::INFINITY), decibel(31.26)), ("exact".into(), "31.3".into()));
        assert!(number(f64::INFINITY).is_null());
    }

    #[test]
    fn tables_are_aligned() {
        let text = table(&["op", "n"], &[1], vec![vec!["Conv".into(), "5".into()], vec!["Add".into(), "10".into()]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with(" 5") && lines[2].ends_with("10"), "{text}");
    }
}
