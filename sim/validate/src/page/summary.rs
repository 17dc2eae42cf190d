//! What is read first: headline, findings, key figures, accuracy, and the network as a strip of partitions.

use super::devices::Devices;
use super::format::{grouped, percent, significant};
use super::html::Html;
use super::tables::{Column, table};
use super::{PARTS, Page, Status};

/// Headline, findings, links to the sections.
pub(super) fn header(html: &mut Html, page: &Page) {
    html.raw("<header>").leaf("h1", &[], &page.title).leaf("p", &[("class", &"sub")], &page.subtitle);
    if !page.verdicts.is_empty() {
        html.element("ul", &[("class", &"verdicts")], |html| {
            for verdict in &page.verdicts {
                let (class, word) = status(verdict.status);
                html.element("li", &[("class", &class)], |html| {
                    html.leaf("b", &[], word).leaf("span", &[], &verdict.text);
                });
            }
        });
    }
    html.element("nav", &[("aria-label", &"Sections")], |html| {
        for (i, section) in page.sections.iter().enumerate() {
            html.leaf("a", &[("href", &format_args!("#{}", super::sections::anchor(i)))], &section.title);
        }
        for part in PARTS.iter().filter(|part| (part.has)(page)) {
            html.leaf("a", &[("href", &format_args!("#{}", part.id))], part.title);
        }
    });
    html.raw("</header>\n");
}

fn status(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Good => ("good", "holds"),
        Status::Warning => ("warning", "mind"),
        Status::Bad => ("bad", "fails"),
        Status::Info => ("info", "note"),
    }
}

/// The numbers to read first.
pub(super) fn figures(html: &mut Html, page: &Page) {
    if page.figures.is_empty() {
        return;
    }
    html.element("dl", &[("class", &"figures")], |html| {
        for figure in &page.figures {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], &figure.label).element("dd", &[], |html| {
                    html.text(&figure.value);
                    if !figure.note.is_empty() {
                        html.leaf("small", &[], &figure.note);
                    }
                });
            });
        }
    });
    html.raw("\n");
}

/// Accuracy of each network and placement.
pub(super) fn accuracy(html: &mut Html, page: &Page, _: &Devices) {
    const COLUMNS: &[Column] =
        &[Column::text("Placement"), Column::text("Metric"), Column::number("Value"), Column::number("Samples")];
    table(html, COLUMNS, page.accuracy.len(), |html| {
        for row in &page.accuracy {
            let value = if row.is_share { percent(row.value) } else { significant(row.value) };
            html.element("tr", &[], |html| {
                html.leaf("td", &[], &row.name).leaf("td", &[], &row.metric);
                html.leaf("td", &[("class", &"n"), ("data-v", &super::format::sort_key(row.value))], value);
                html.leaf("td", &[("class", &"n"), ("data-v", &row.samples)], grouped(row.samples as u64));
            });
        }
    });
}

/// The network as a strip, each partition as long as it has nodes, and the list of its bridges.
pub(super) fn partitions(html: &mut Html, page: &Page, devices: &Devices) {
    html.element("div", &[("class", &"strip"), ("aria-hidden", &"true")], |html| {
        for part in &page.partitions {
            let title = format!("{}: {} nodes", part.device, part.nodes);
            let grow = format!("flex-grow:{}", part.nodes.max(1));
            let class = devices.class(&part.device);
            html.leaf("span", &[("class", &class), ("style", &grow), ("title", &title)], &part.device);
        }
    });
    const COLUMNS: &[Column] =
        &[Column::number("#"), Column::text("Device"), Column::number("Nodes"), Column::text("Bridges on the way in")];
    table(html, COLUMNS, page.partitions.len(), |html| {
        for (i, part) in page.partitions.iter().enumerate() {
            html.element("tr", &[], |html| {
                html.leaf("td", &[("class", &"n")], i + 1);
                device_cell(html, devices, &part.device);
                html.leaf("td", &[("class", &"n"), ("data-v", &part.nodes)], grouped(part.nodes as u64));
                html.element("td", &[], |html| bridges(html, &part.bridges));
            });
            html.raw("\n");
        }
    });
}

fn bridges(html: &mut Html, bridges: &[String]) {
    if bridges.is_empty() {
        html.leaf("span", &[("class", &"soft")], "none");
        return;
    }
    html.element("ul", &[], |html| {
        for bridge in bridges {
            html.leaf("li", &[], bridge);
        }
    });
}

/// A cell with a device and its colour.
pub(super) fn device_cell(html: &mut Html, devices: &Devices, device: &str) {
    let class = format!("chip {}", devices.class(device));
    html.element("td", &[], |html| {
        html.leaf("span", &[("class", &class)], device);
    });
}

/// Remarks, and whence the page comes.
pub(super) fn footer(html: &mut Html, page: &Page) {
    html.element("footer", &[], |html| {
        for note in &page.notes {
            html.leaf("p", &[], note);
        }
        html.leaf("p", &[], concat!("Ottava ", env!("CARGO_PKG_VERSION"), ". This page loads nothing from elsewhere."));
    });
    html.raw("\n");
}
