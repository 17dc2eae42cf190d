//! The points of a sweep: memory over cycles, those that no other point beats, and a table of all.

use super::devices::Devices;
use super::format::{grouped, percent, significant};
use super::html::Html;
use super::plane::{Axis, Plane};
use super::tables::{Column, number, table};
use super::{Page, SweepPoint};

/// Height of the drawing, pixels.
const HEIGHT: f64 = 320.0;

/// Bytes over cycles, then the table.
pub(super) fn sweep(html: &mut Html, page: &Page, _: &Devices) {
    let done: Vec<&SweepPoint> = page.sweep.iter().filter(|p| p.reason.is_empty()).collect();
    if !done.is_empty() {
        scatter(html, &done);
    }
    points(html, page);
}

fn at(point: &SweepPoint) -> (f64, f64) {
    (point.cycles as f64, point.sram_bytes as f64)
}

fn scatter(html: &mut Html, done: &[&SweepPoint]) {
    let plane = Plane {
        x: Axis::around(done.iter().map(|p| at(p).0)),
        y: Axis::around(done.iter().map(|p| at(p).1)),
        height: HEIGHT,
    };
    let best = done.iter().filter(|p| p.on_front).count();
    let label = format!(
        "{} configurations by cycles and on-chip memory, {best} on the front; the table has the numbers",
        done.len()
    );
    plane.draw(html, &label, ("cycles", "bytes of on-chip memory"), |html| {
        staircase(html, &plane, done);
        let (front, others): (Vec<&SweepPoint>, Vec<&SweepPoint>) = done.iter().copied().partition(|p| p.on_front);
        for (class, points) in [("dx", others), ("d0", front)] {
            for point in points {
                let title =
                    format!("{}: {} cycles, {} bytes", point.name, grouped(point.cycles), grouped(point.sram_bytes));
                plane.dot(html, class, at(point), &title);
            }
        }
    });
    html.raw("<p class=\"tools\"><span class=\"chip d0\">on the front</span><span class=\"chip dx\">another point is better</span></p>");
}

/// What lies left of and below this line, no point reaches.
fn staircase(html: &mut Html, plane: &Plane, done: &[&SweepPoint]) {
    let mut front: Vec<(f64, f64)> = done.iter().filter(|p| p.on_front).map(|p| at(p)).collect();
    front.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let mut last: Option<(f64, f64)> = None;
    for point in front {
        match last {
            Some(before) if point.1 >= before.1 => continue,
            Some(before) => {
                plane.line(html, "front", before, (point.0, before.1));
                plane.line(html, "front", (point.0, before.1), point);
            }
            None => {}
        }
        last = Some(point);
    }
}

/// Every point; those without figures say why.
fn points(html: &mut Html, page: &Page) {
    const COLUMNS: &[Column] = &[
        Column::text("Configuration"),
        Column::text("Front"),
        Column::number("Cycles"),
        Column::number("SRAM bytes"),
        Column::number("DRAM bytes"),
        Column::number("MAC per cycle"),
        Column::number("Of its roofline"),
        Column::number("Energy pJ"),
        Column::text("Why not"),
    ];
    table(html, COLUMNS, page.sweep.len(), |html| {
        for point in &page.sweep {
            html.element("tr", &[], |html| {
                html.leaf("td", super::tables::NAME, &point.name);
                html.leaf("td", &[], if point.on_front { "yes" } else { "" });
                let has = point.reason.is_empty();
                for n in [point.cycles, point.sram_bytes, point.dram_bytes] {
                    number(html, if has { n as f64 } else { f64::NAN }, if has { grouped(n) } else { String::new() });
                }
                let rate = point.macs as f64 / point.cycles.max(1) as f64;
                number(html, if has { rate } else { f64::NAN }, if has { significant(rate) } else { String::new() });
                let of_roof = point.roof.filter(|roof| has && *roof > 0.0).map(|roof| rate / roof);
                number(html, of_roof.unwrap_or(f64::NAN), of_roof.map_or(String::new(), percent));
                let energy = point.energy_pj;
                number(html, energy.unwrap_or(f64::NAN), energy.map_or(String::new(), significant));
                html.leaf("td", &[("class", &"soft why")], &point.reason);
            });
            html.raw("\n");
        }
    });
}
