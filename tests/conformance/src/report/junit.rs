//! `junit.xml`, for the servers that build and test.
//!
//! A suite per group, a test case per case. `failed` and `xpass` are failures, `crashed` and `hung` errors; `skipped`,
//! `unsupported` and `xfail` are skipped with their reasons.

use super::Report;
use crate::{Ending, Outcome};
use std::fmt::Write;

/// The report as JUnit's XML.
pub fn to_junit(report: &Report) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all: Vec<&Outcome> = report.outcomes.iter().collect();
    let name = format!("ottava conformance {}", report.header.facts.driver);
    open(&mut xml, "testsuites", &name, &all);
    for (group, _) in report.groups() {
        let cases: Vec<&Outcome> = all.iter().copied().filter(|o| o.group == group).collect();
        xml.push_str("  ");
        open(&mut xml, "testsuite", &group, &cases);
        cases.iter().for_each(|o| case(&mut xml, o));
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// What JUnit calls an ending: the element, or none for a pass.
fn element(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Passed => None,
        Ending::Failed | Ending::Xpass => Some("failure"),
        Ending::Crashed | Ending::Hung => Some("error"),
        Ending::Skipped | Ending::Unsupported | Ending::Xfail => Some("skipped"),
    }
}

fn open(xml: &mut String, tag: &str, name: &str, cases: &[&Outcome]) {
    let n = |wanted: &str| cases.iter().filter(|o| element(o.result) == Some(wanted)).count();
    let (failures, errors, skipped) = (n("failure"), n("error"), n("skipped"));
    let millis = cases.iter().fold(0u64, |sum, o| sum.saturating_add(o.millis));
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "<{tag} name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{}\">",
        escaped(name),
        cases.len(),
        seconds(millis)
    );
}

fn case(xml: &mut String, o: &Outcome) {
    let (group, name, time) = (escaped(&o.group), escaped(&o.name), seconds(o.millis));
    let _ = write!(xml, "    <testcase classname=\"{group}\" name=\"{name}\" time=\"{time}\"");
    let _ = match element(o.result) {
        None => writeln!(xml, "/>"),
        Some(tag) => {
            let (result, detail) = (o.result.name(), escaped(&o.detail));
            let first = escaped(o.detail.lines().next().unwrap_or_default());
            writeln!(xml, "><{tag} type=\"{result}\" message=\"{first}\">{detail}</{tag}></testcase>")
        }
    };
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Text for content and for quoted attributes. What XML 1.0 does not allow at all becomes the replacement character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // As characters these would be read back as blanks in attributes.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c if c < ' ' || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::report;
    use super::*;

    #[test]
    fn counts_are_those_of_the_elements() {
        let xml = to_junit(&report());
        assert!(xml.contains("tests=\"8\" failures=\"2\" errors=\"2\" skipped=\"3\" time=\"12.000\""), "{xml}");
        for (tag, n) in [("<failure ", 2), ("<error ", 2), ("<skipped ", 3), ("<testcase ", 8)] {
            assert_eq!(xml.matches(tag).count(), n, "{tag}");
        }
    }

    #[test]
    fn no_text_makes_markup() {
        assert_eq!(escaped("<\"&'\u{0}\n]]>"), "&lt;&quot;&amp;&apos;\u{fffd}&#10;]]&gt;");
        let xml = to_junit(&report());
        assert!(!xml.contains("href=\"x\"") && !xml.contains('\u{1}') && !xml.contains('\u{fffe}'));
    }
}
