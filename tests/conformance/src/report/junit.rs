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

    /// Attributes of an element: names, values.
    type Attributes = Vec<(String, String)>;

    /// A strict reader of the XML that is written here: elements that nest, quoted attributes, text without markup.
    fn parse(xml: &str) -> Result<Vec<(String, Attributes)>, String> {
        let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").ok_or("no declaration")?;
        let (mut open, mut seen) = (Vec::new(), Vec::new());
        while let Some(at) = rest.find('<') {
            unescaped(&rest[..at])?;
            let end = rest.find('>').ok_or("an element has no end")?;
            let (tag, behind) = (&rest[at + 1..end], &rest[end + 1..]);
            rest = behind;
            if let Some(name) = tag.strip_prefix('/') {
                let last: Option<String> = open.pop();
                (last.as_deref() == Some(name)).then_some(()).ok_or(format!("`{name}` closes {last:?}"))?;
                continue;
            }
            let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            seen.push((name.to_owned(), attributes_of(attributes)?));
            if !is_empty {
                open.push(name.to_owned());
            }
        }
        let is_end = open.is_empty() && rest.trim().is_empty();
        is_end.then_some(seen).ok_or(format!("left open: {open:?}, behind the end: {rest:?}"))
    }

    fn attributes_of(mut text: &str) -> Result<Attributes, String> {
        let mut list = Vec::new();
        while !text.trim().is_empty() {
            let (name, behind) = text.trim_start().split_once("=\"").ok_or(format!("no value in `{text}`"))?;
            let (value, behind) = behind.split_once('"').ok_or("a value has no end")?;
            list.push((name.to_owned(), unescaped(value)?));
            text = behind;
        }
        Ok(list)
    }

    fn unescaped(text: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('&') {
            out.push_str(&rest[..at]);
            let end = rest[at..].find(';').ok_or("an entity has no end")? + at;
            let known =
                [("lt", '<'), ("gt", '>'), ("amp", '&'), ("quot", '"'), ("apos", '\''), ("#9", '\t'), ("#10", '\n')];
            let entity = &rest[at + 1..end];
            out.push(known.iter().find(|(name, _)| *name == entity).ok_or(format!("entity `{entity}`"))?.1);
            rest = &rest[end + 1..];
        }
        let bad = |c: char| c == '<' || (c < ' ' && !"\n\t\r".contains(c)) || ('\u{fffe}'..='\u{ffff}').contains(&c);
        out.push_str(rest);
        if text.contains(bad) { Err(format!("`{text}` holds what XML does not allow")) } else { Ok(out) }
    }

    #[test]
    fn it_is_xml_whatever_the_texts_are() {
        let seen = parse(&to_junit(&report())).unwrap();
        let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).take(4).collect();
        assert_eq!(names, ["testsuites", "testsuite", "testcase", "testcase"]);
        let (_, failure) = seen.iter().find(|(name, _)| name == "failure").unwrap();
        let message = &failure.iter().find(|(name, _)| name == "message").unwrap().1;
        assert_eq!(*message, super::super::testing::EVIL.replace(['\u{1}', '\u{fffe}'], "\u{fffd}"));
        for bad in ["<a>", "<a></b>", "<a b=c/>", "<a>&nbsp;</a>", "<a b=\"\u{1}\"/>"] {
            assert!(parse(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{bad}")).is_err(), "{bad}");
        }
    }

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
