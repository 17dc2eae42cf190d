//! Sections that the caller makes of plain tables.

use super::html::Html;
use super::model::{Cell, Mark, Section};
use super::tables::{Head, framed};

/// Anchor of a section.
pub(super) fn anchor(i: usize) -> String {
    format!("part-{}", i + 1)
}

/// Every section of the caller's.
pub(super) fn draw(html: &mut Html, sections: &[Section]) {
    for (i, section) in sections.iter().enumerate() {
        html.element("section", &[("id", &anchor(i))], |html| {
            html.leaf("h2", &[], &section.title).raw("\n");
            if !section.lead.is_empty() {
                html.leaf("p", &[("class", &"soft")], &section.lead);
            }
            if !section.columns.is_empty() {
                table(html, section);
            }
        });
        html.raw("\n");
    }
}

fn table(html: &mut Html, section: &Section) {
    let heads = section.columns.iter().map(|c| Head { name: &c.name, class: if c.is_number { "n" } else { "" } });
    framed(html, heads, section.rows.len(), |html| {
        for row in &section.rows {
            html.element("tr", &[], |html| {
                for (i, cell) in row.iter().enumerate() {
                    let is_number = section.columns.get(i).is_some_and(|c| c.is_number);
                    draw_cell(html, cell, is_number);
                }
            });
            html.raw("\n");
        }
    });
}

fn draw_cell(html: &mut Html, cell: &Cell, is_number: bool) {
    let mark = match cell.mark {
        Mark::None => "",
        Mark::Good => "good",
        Mark::Warning => "mid",
        Mark::Bad => "bad",
        Mark::Soft => "soft",
    };
    let class = format!("{} {mark}", if is_number { "n" } else { width_class(&cell.text) });
    let class = class.trim();
    let content = |html: &mut Html| match &cell.link {
        Some(link) => drop(html.leaf("a", &[("href", link)], &cell.text)),
        None => drop(html.text(&cell.text)),
    };
    match is_number {
        // An empty cell sorts before zero.
        true => drop(html.element(
            "td",
            &[("class", &class), ("data-v", &cell.text.parse::<f64>().unwrap_or(-1.0))],
            content,
        )),
        false => drop(html.element("td", &[("class", &class)], content)),
    }
}

/// Short texts stay on one line, and long names get room, so that a narrow window does not cut them into pieces.
fn width_class(text: &str) -> &'static str {
    match text.chars().count() {
        0..=14 => "w",
        _ if !text.contains(' ') => "name",
        _ => "",
    }
}
