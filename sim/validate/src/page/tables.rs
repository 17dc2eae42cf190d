//! The sortable tables: errors of layers, cycles of layers, placement of nodes.

use super::Page;
use super::charts::{meter, sqnr_chart};
use super::devices::Devices;
use super::format::{cosine, decibel, duration, grouped, percent, significant, sort_key};
use super::html::{Attributes, Html};
use super::summary::device_cell;

/// Ratio below which a layer is marked: the error has a tenth of the signal's amplitude.
pub(super) const POOR_DB: f64 = 20.0;
/// Ratio below which a layer is worth a look.
const FAIR_DB: f64 = 30.0;
/// Rows from which a table has a field to filter it.
const FILTER_FROM: usize = 12;
/// Head of the column of devices.
const DEVICE: &str = "Device";

/// A column of a table.
pub(super) struct Column {
    name: &'static str,
    /// `n`: numbers, `m`: bars, which sort as numbers too; empty: text.
    class: &'static str,
}

impl Column {
    /// A column that is sorted as text.
    pub const fn text(name: &'static str) -> Self {
        Self { name, class: "" }
    }

    /// A column of bars.
    pub const fn bars(name: &'static str) -> Self {
        Self { name, class: "m" }
    }

    /// A column that is sorted as numbers.
    pub const fn number(name: &'static str) -> Self {
        Self { name, class: "n" }
    }
}

/// A table whose columns sort; `rows` writes its `n` rows.
pub(super) fn table<'c>(
    html: &mut Html,
    columns: impl IntoIterator<Item = &'c Column>,
    n: usize,
    rows: impl FnOnce(&mut Html),
) {
    framed(html, columns.into_iter().map(|c| Head { name: c.name, class: c.class }), n, rows);
}

/// Head of a column; the class is that of a [`Column`].
pub(super) struct Head<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its class.
    pub class: &'static str,
}

/// A table with any heads.
pub(super) fn framed<'h>(
    html: &mut Html,
    heads: impl IntoIterator<Item = Head<'h>>,
    n: usize,
    rows: impl FnOnce(&mut Html),
) {
    if n >= FILTER_FROM {
        html.raw("<div class=\"tools\"><input type=\"search\" placeholder=\"Filter\" aria-label=\"Filter rows\">");
        html.leaf("output", &[], format_args!("{n} rows")).raw("</div>");
    }
    html.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table class=\"data\"><thead><tr>",
    );
    for head in heads {
        html.element("th", &[("class", &head.class), ("scope", &"col")], |html| {
            html.leaf("button", &[("type", &"button")], head.name);
        });
    }
    html.raw("</tr></thead><tbody>\n");
    rows(html);
    html.raw("</tbody></table></div>");
}

/// Attributes of a cell with a long name.
pub(super) const NAME: Attributes<'static> = &[("class", &"name")];

/// A numeric cell that sorts by `key`.
pub(super) fn number(html: &mut Html, key: f64, text: String) {
    html.leaf("td", &[("class", &"n"), ("data-v", &sort_key(key))], text);
}

/// Place in execution order.
pub(super) fn place(html: &mut Html, i: usize) {
    html.leaf("td", &[("class", &"n soft")], i + 1);
}

/// Errors against the float network.
pub(super) fn layers(html: &mut Html, page: &Page, devices: &Devices) {
    sqnr_chart(html, &page.layers, devices);
    // Where nothing was placed on devices there is no column of them.
    let placed = page.layers.iter().any(|l| !l.device.is_empty());
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Value"),
        Column::text(DEVICE),
        Column::number("SQNR dB"),
        Column::bars("Ratio"),
        Column::number("Cosine"),
        Column::number("Largest error"),
    ];
    let best = page.layers.iter().map(|l| l.sqnr_db).filter(|db| db.is_finite()).fold(60.0, f64::max);
    let columns: Vec<&Column> = COLUMNS.iter().filter(|c| placed || c.name != DEVICE).collect();
    table(html, columns, page.layers.len(), |html| {
        for (i, layer) in page.layers.iter().enumerate() {
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", NAME, &layer.name);
                if placed {
                    device_cell(html, devices, &layer.device);
                }
                number(html, layer.sqnr_db, decibel(layer.sqnr_db));
                html.element("td", &[("data-v", &sort_key(layer.sqnr_db))], |html| {
                    meter(html, layer.sqnr_db / best, grade(layer.sqnr_db));
                });
                number(html, layer.cosine, cosine(layer.cosine));
                number(html, layer.max_abs, significant(layer.max_abs));
            });
            html.raw("\n");
        }
    });
}

/// The class that marks a ratio.
fn grade(sqnr_db: f64) -> &'static str {
    match sqnr_db {
        _ if sqnr_db < POOR_DB => "low",
        _ if sqnr_db < FAIR_DB => "mid",
        _ => "",
    }
}

/// Cycles of a simulated device.
pub(super) fn npu(html: &mut Html, page: &Page, _: &Devices) {
    let total: u64 = page.npu.iter().fold(0, |sum, layer| sum.saturating_add(layer.cycles));
    let most = page.npu.iter().map(|layer| layer.cycles).max().unwrap_or(0).max(1);
    let share = |cycles: u64| cycles as f64 / total.max(1) as f64;
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Layer"),
        Column::number("Cycles"),
        Column::number("Share"),
        Column::bars("Beside the largest"),
        Column::number("Array in use"),
    ];
    html.leaf("p", &[("class", &"tools")], format_args!("{} cycles together", grouped(total)));
    table(html, COLUMNS, page.npu.len(), |html| {
        for (i, layer) in page.npu.iter().enumerate() {
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", NAME, &layer.layer);
                number(html, layer.cycles as f64, grouped(layer.cycles));
                number(html, share(layer.cycles), percent(share(layer.cycles)));
                html.element("td", &[("data-v", &layer.cycles)], |html| {
                    meter(html, layer.cycles as f64 / most as f64, "");
                });
                number(html, layer.utilization, percent(layer.utilization));
            });
            html.raw("\n");
        }
    });
}

/// Where each node runs and why.
pub(super) fn placement(html: &mut Html, page: &Page, devices: &Devices) {
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Node"),
        Column::text("Operator"),
        Column::text("Device"),
        Column::number("Estimate"),
        Column::text("Why"),
    ];
    table(html, COLUMNS, page.placement.len(), |html| {
        for (i, node) in page.placement.iter().enumerate() {
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", NAME, &node.node).leaf("td", &[("class", &"w")], &node.op);
                device_cell(html, devices, &node.device);
                let cost = node.cost_ns.map_or_else(|| "n/a".to_owned(), duration);
                number(html, node.cost_ns.map_or(-1.0, |ns| ns as f64), cost);
                html.leaf("td", &[("class", &"soft")], &node.reason);
            });
            html.raw("\n");
        }
    });
}
