//! Small drawings: a bar in a table cell, and the ratios of all layers side by side.

use super::LayerError;
use super::devices::Devices;
use super::format::{decibel, percent};
use super::html::Html;
use super::tables::POOR_DB;

/// Height of the drawing of all layers, pixels.
const HEIGHT: f64 = 150.0;
/// Decibels at its upper edge, at least and at most.
const TOP_DB: (f64, f64) = (40.0, 80.0);
/// Decibels between two lines.
const STEP_DB: u32 = 20;

/// A bar as long as a share of its cell; the number stands beside it, so it is hidden from readers of text.
pub(super) fn meter(html: &mut Html, share: f64, grade: &'static str) {
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let class = format!("meter {grade}");
    html.element("svg", &[("class", &class), ("aria-hidden", &"true")], |html| {
        html.raw("<rect class=\"t\" width=\"100%\" height=\"10\" rx=\"3\"/>");
        html.shape("rect", &[("class", &"v"), ("width", &percent_of(share)), ("height", &10), ("rx", &3)]);
    });
}

/// A share as a length of SVG.
pub(super) fn percent_of(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Signal-to-noise ratio of each layer in execution order, coloured by device.
pub(super) fn sqnr_chart(html: &mut Html, layers: &[LayerError], devices: &Devices) {
    let best = layers.iter().map(|l| l.sqnr_db).filter(|db| db.is_finite()).fold(TOP_DB.0, f64::max);
    let top = best.min(TOP_DB.1);
    let label = "Signal-to-noise ratio of each layer, in execution order; the table below has the numbers";
    let attributes: [(_, &dyn std::fmt::Display); 4] =
        [("class", &"chart"), ("height", &HEIGHT), ("role", &"img"), ("aria-label", &label)];
    html.element("svg", &attributes, |html| {
        grid(html, top);
        let slot = 1.0 / layers.len().max(1) as f64;
        for (i, layer) in layers.iter().enumerate() {
            column(html, layer, devices.class(&layer.device), (i as f64 * slot, slot), top);
        }
        let y = format!("{:.1}", HEIGHT * (1.0 - POOR_DB / top));
        html.shape("line", &[("class", &"mark"), ("x1", &0), ("x2", &"100%"), ("y1", &y), ("y2", &y)]);
    });
}

fn grid(html: &mut Html, top: f64) {
    for db in (0..).step_by(STEP_DB as usize).take_while(|&db| f64::from(db) <= top) {
        let y = HEIGHT * (1.0 - f64::from(db) / top);
        let line = format!("{y:.1}");
        html.shape("line", &[("class", &"grid"), ("x1", &0), ("x2", &"100%"), ("y1", &line), ("y2", &line)]);
        let label = format!("{:.1}", y + 4.0);
        html.leaf("text", &[("x", &-8), ("y", &label), ("text-anchor", &"end")], format_args!("{db} dB"));
    }
}

/// One layer: a bar, and a transparent column above it that makes the title easy to reach.
fn column(html: &mut Html, layer: &LayerError, class: &'static str, (x, slot): (f64, f64), top: f64) {
    let db = if layer.sqnr_db.is_nan() { 0.0 } else { layer.sqnr_db.clamp(0.0, top) };
    let height = (HEIGHT * db / top).max(2.0);
    let (x, width, y) = (percent_of(x), percent_of(slot * 0.8), format!("{:.1}", HEIGHT - height));
    // A bar without end would look like a very good one.
    let class = if layer.sqnr_db == f64::INFINITY { format!("{class} exact") } else { class.to_owned() };
    html.element("g", &[("class", &class)], |html| {
        let on = if layer.device.is_empty() { String::new() } else { format!(" on {}", layer.device) };
        html.leaf("title", &[], format_args!("{}: {} dB{on}", layer.name, decibel(layer.sqnr_db)));
        html.shape("rect", &[("class", &"hit"), ("x", &x), ("width", &width), ("height", &HEIGHT)]);
        let bar: [(_, &dyn std::fmt::Display); 4] =
            [("x", &x), ("y", &y), ("width", &width), ("height", &format_args!("{height:.1}"))];
        html.shape("rect", &bar);
    });
}

/// Text of a share, for titles.
pub(super) fn share_text(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}
