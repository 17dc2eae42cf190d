//! What a quantizer decided: the precision of each node and why, the range of each tensor, the recipe.

use super::Page;
use super::charts::{meter, percent_of};
use super::devices::Devices;
use super::format::{grouped, percent, significant, sort_key};
use super::html::Html;
use super::tables::{Column, NAME, number, place, table};

/// The precision of each node, and what it costs to leave 8 bits.
pub(super) fn precision(html: &mut Html, page: &Page, _: &Devices) {
    strip(html, page);
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Node"),
        Column::text("Operator"),
        Column::text("Precision"),
        Column::number("MACs"),
        Column::bars("Share"),
        Column::text("Why"),
    ];
    let most = page.precision.iter().map(|n| n.macs).max().unwrap_or(0).max(1);
    table(html, COLUMNS, page.precision.len(), |html| {
        for (i, node) in page.precision.iter().enumerate() {
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", NAME, &node.node).leaf("td", &[("class", &"w")], &node.op);
                let grade = if is_integer(&node.precision) { "" } else { "mid" };
                html.element("td", &[], |html| {
                    html.leaf("span", &[("class", &format_args!("chip {}", class(&node.precision)))], &node.precision);
                });
                number(html, node.macs as f64, grouped(node.macs));
                html.element("td", &[("data-v", &node.macs)], |html| {
                    meter(html, node.macs as f64 / most as f64, grade);
                });
                html.leaf("td", &[("class", &"soft why")], &node.reason);
            });
            html.raw("\n");
        }
    });
}

/// Multiply-accumulates by precision, as one strip.
fn strip(html: &mut Html, page: &Page) {
    let mut sums: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for node in &page.precision {
        let sum = sums.entry(&node.precision).or_default();
        *sum = sum.saturating_add(node.macs);
    }
    let total = sums.values().copied().fold(0, u64::saturating_add).max(1);
    html.element("div", &[("class", &"strip"), ("aria-hidden", &"true")], |html| {
        for (precision, macs) in sums.iter().filter(|(_, macs)| **macs > 0) {
            let grow = format!("flex-grow:{:.4}", *macs as f64 / total as f64);
            let title = format!("{precision}: {} of the multiply-accumulates", percent(*macs as f64 / total as f64));
            html.leaf("span", &[("class", &class(precision)), ("style", &grow), ("title", &title)], precision);
        }
    });
}

fn is_integer(precision: &str) -> bool {
    precision != "float"
}

/// The colour of a precision; those of devices are borrowed.
fn class(precision: &str) -> &'static str {
    match precision {
        "float" => "d1",
        "s16" | "u16" => "d2",
        _ => "d0",
    }
}

/// The range of each tensor, drawn on one axis about zero.
pub(super) fn ranges(html: &mut Html, page: &Page, _: &Devices) {
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Tensor"),
        Column::text("Type"),
        Column::number("Scale"),
        Column::number("Zero"),
        Column::number("From"),
        Column::number("To"),
        Column::bars("Range"),
        Column::text("Chosen by"),
    ];
    let widest = page.ranges.iter().map(|r| reach(r.lo, r.hi)).fold(f64::MIN_POSITIVE, f64::max);
    table(html, COLUMNS, page.ranges.len(), |html| {
        for (i, range) in page.ranges.iter().enumerate() {
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", NAME, &range.name).leaf("td", &[("class", &"w")], &range.dtype);
                number(html, range.scale, significant(range.scale));
                number(html, range.zero_point as f64, range.zero_point.to_string());
                number(html, range.lo, significant(range.lo));
                number(html, range.hi, significant(range.hi));
                html.element("td", &[("data-v", &sort_key(range.hi - range.lo))], |html| {
                    span(html, range.lo / widest, range.hi / widest);
                });
                html.leaf("td", &[("class", &"soft")], &range.observer);
            });
            html.raw("\n");
        }
    });
}

fn reach(lo: f64, hi: f64) -> f64 {
    let reach = lo.abs().max(hi.abs());
    if reach.is_finite() { reach } else { 0.0 }
}

/// A range on an axis from -1 to 1. Square roots keep narrow ranges visible beside wide ones.
fn span(html: &mut Html, lo: f64, hi: f64) {
    let at = |x: f64| 0.5 + 0.5 * if x.is_finite() { x.signum() * x.abs().min(1.0).sqrt() } else { 0.0 };
    let (from, to) = (at(lo.min(0.0)), at(hi.max(0.0)));
    html.element("svg", &[("class", &"meter"), ("aria-hidden", &"true")], |html| {
        html.raw("<rect class=\"t\" width=\"100%\" height=\"10\" rx=\"3\"/>");
        let bar: [(_, &dyn std::fmt::Display); 5] = [
            ("class", &"v"),
            ("x", &percent_of(from)),
            ("width", &percent_of((to - from).max(0.004))),
            ("height", &10),
            ("rx", &3),
        ];
        html.shape("rect", &bar);
    });
}

/// The recipe, as text to copy.
pub(super) fn recipe(html: &mut Html, page: &Page, _: &Devices) {
    html.leaf("pre", &[("tabindex", &0)], &page.recipe);
}
