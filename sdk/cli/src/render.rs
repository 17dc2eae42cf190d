//! How an error looks. The only place that knows.

use crate::failure::Failure;
use crate::text::printable;
use ottava::{Detail, Place};
use std::fmt::Write;

const RED: &str = "\x1b[1;31m";
const BOLD: &str = "\x1b[1m";
const BLUE: &str = "\x1b[1;34m";
const OFF: &str = "\x1b[0m";

/// Columns of a source line that are shown; longer lines are cut around the place.
const WIDTH: usize = 100;

/// The text of a failure, with a line feed at its end.
pub fn failure(failure: &Failure, colored: bool) -> String {
    let paint = |style: &'static str| if colored { (style, OFF) } else { ("", "") };
    let ((red, off), (bold, _), (blue, _)) = (paint(RED), paint(BOLD), paint(BLUE));
    match failure {
        Failure::Check(text) => format!("{red}failed{off}: {}\n", printable(text)),
        Failure::Usage(text) => format!("{red}error{off}: {}\n", printable(text)),
        Failure::Error(e) => {
            let d = e.detail();
            let mut out = format!("{red}error[{}]{off}: {bold}{}{off}\n", d.code, printable(&d.message));
            out.push_str(&place(d, blue, off));
            for (label, text) in [("found", &d.found), ("expected", &d.expected), ("help", &d.help)] {
                if let Some(text) = text {
                    let _ = writeln!(out, "   {blue}={off} {label}: {}", printable(text));
                }
            }
            out
        }
    }
}

/// `  --> file:line:column` with the line and a caret, or `  --> file, name`.
fn place(d: &Detail, blue: &str, off: &str) -> String {
    let file = d.file.as_ref().map(|f| printable(&f.display().to_string()));
    match (&d.place, file) {
        (Some(Place::Text { line, column, source }), file) => {
            let file = file.unwrap_or_else(|| "text".to_owned());
            let (shown, caret) = window(source, *column);
            let number = line.to_string();
            let pad = " ".repeat(number.len());
            format!(
                "  {blue}-->{off} {file}:{line}:{column}\n {pad} {blue}|{off}\n {blue}{number} |{off} {shown}\n {pad} {blue}|{off} {}{blue}^{off}\n",
                " ".repeat(caret)
            )
        }
        (Some(Place::Named(name)), Some(file)) => format!("  {blue}-->{off} {file}, {}\n", printable(name)),
        (Some(Place::Named(name)), None) => format!("  {blue}-->{off} {}\n", printable(name)),
        (None, Some(file)) => format!("  {blue}-->{off} {file}\n"),
        (None, None) => String::new(),
    }
}

/// The part of a line that holds the column, tabs as single blanks, and the caret's position in it.
fn window(source: &str, column: usize) -> (String, usize) {
    let at = column.saturating_sub(1);
    let start = if at > WIDTH * 3 / 4 { at - WIDTH / 2 } else { 0 };
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    (source.chars().skip(start).take(WIDTH).map(blank).collect(), at - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_text_gets_a_caret() {
        let e = ottava::Config::from_ron("Ottava(\n  devises: [],\n)").unwrap_err();
        let e = e.in_file(std::path::Path::new("ottava.ron"));
        let text = failure(&Failure::Error(e), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "error[H0701]: unknown key `devises` in the configuration");
        assert!(lines[1].starts_with("  --> ottava.ron:2:"), "{text}");
        assert_eq!(lines[3], " 2 |   devises: [],");
        assert!(lines[4].ends_with('^'), "{text}");
        assert_eq!(lines[5], "   = help: did you mean `devices`?");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let long = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let (shown, caret) = window(&long, 501);
        assert_eq!(shown.chars().nth(caret), Some('X'));
        assert_eq!(shown.chars().count(), WIDTH);
    }
}
