//! One HTML page that says what ran where, how long it took and how large the error is.
//!
//! [`render`] makes one string out of plain data ([`Page`]): style, drawings and script are inside, nothing is loaded from
//! anywhere (the page forbids it to itself by a content policy), and it reads well without the script too. The script
//! sorts and filters tables and zooms the timeline, all of it by keyboard as well.
//!
//! The crate that fills the page decides what is measured; this module decides nothing but how it looks. The same data
//! gives the same bytes.

mod charts;
mod chip;
mod devices;
mod format;
mod html;
mod model;
mod plane;
mod quantized;
mod sections;
mod summary;
mod sweep;
mod tables;
mod timeline;

pub use model::{
    Accuracy, Cell, ChipLayer, Figure, LayerError, Mark, NodePrecision, NpuLayer, Page, PartitionRow, PlacedNode, Roof,
    Section, SectionColumn, Span, SpanKind, Status, SweepPoint, TensorRange, Track, Verdict,
};

use devices::Devices;
use html::Html;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta http-equiv=\"Content-Security-Policy\" \
    content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"><style>\n";

/// The page as one HTML document.
pub fn render(page: &Page) -> String {
    let devices = Devices::of(page);
    let mut html = Html::default();
    html.raw(HEAD).raw(include_str!("assets/style.css")).raw("</style>");
    html.leaf("title", &[], &page.title).raw("</head>\n<body><a class=\"skip\" href=\"#main\">To the report</a>\n");
    summary::header(&mut html, page);
    html.raw("<main id=\"main\">\n");
    summary::figures(&mut html, page);
    sections::draw(&mut html, &page.sections);
    for part in PARTS.iter().filter(|part| (part.has)(page)) {
        html.element("section", &[("id", &part.id)], |html| {
            html.leaf("h2", &[], part.title).raw("\n");
            (part.draw)(html, page, &devices);
        });
        html.raw("\n");
    }
    html.raw("</main>\n");
    summary::footer(&mut html, page);
    html.raw("<script>\n").raw(include_str!("assets/script.js")).raw("</script></body></html>\n");
    html.finish()
}

/// A section of the page.
struct Part {
    id: &'static str,
    title: &'static str,
    /// Whether the page has something for it.
    has: fn(&Page) -> bool,
    draw: fn(&mut Html, &Page, &Devices),
}

/// The sections, from the whole to the details.
const PARTS: &[Part] = &[
    Part { id: "accuracy", title: "Accuracy", has: |p| !p.accuracy.is_empty(), draw: summary::accuracy },
    Part { id: "partitions", title: "Partitions", has: |p| !p.partitions.is_empty(), draw: summary::partitions },
    Part { id: "timeline", title: "Timeline", has: timeline::has_spans, draw: timeline::timeline },
    Part { id: "precision", title: "Precision", has: |p| !p.precision.is_empty(), draw: quantized::precision },
    Part { id: "layers", title: "Layer errors", has: |p| !p.layers.is_empty(), draw: tables::layers },
    Part { id: "roofline", title: "Roofline", has: chip::has_roofline, draw: chip::roofline },
    Part { id: "cycles", title: "Cycles", has: |p| !p.cycles.is_empty(), draw: chip::cycles },
    Part { id: "sweep", title: "Sweep", has: |p| !p.sweep.is_empty(), draw: sweep::sweep },
    Part { id: "npu", title: "NPU cycles", has: |p| !p.npu.is_empty(), draw: tables::npu },
    Part { id: "placement", title: "Placement", has: |p| !p.placement.is_empty(), draw: tables::placement },
    Part { id: "ranges", title: "Ranges", has: |p| !p.ranges.is_empty(), draw: quantized::ranges },
    Part { id: "recipe", title: "Recipe", has: |p| !p.recipe.is_empty(), draw: quantized::recipe },
];

#[cfg(test)]
mod tests;
