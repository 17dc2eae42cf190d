//! A simulated chip: the roofline, and where the cycles of each layer went.

use super::charts::percent_of;
use super::devices::Devices;
use super::format::{grouped, percent, significant};
use super::html::Html;
use super::plane::{Axis, Plane};
use super::tables::{Column, number, place, table};
use super::{ChipLayer, Page, Roof};

/// Height of the roofline, pixels.
const HEIGHT: f64 = 320.0;

/// Whether there is something to draw.
pub(super) fn has_roofline(page: &Page) -> bool {
    page.roofline.is_some() && page.cycles.iter().any(|l| intensity(l).is_some())
}

/// Multiply-accumulates per byte of memory; `None` for a layer without either.
fn intensity(layer: &ChipLayer) -> Option<f64> {
    (layer.macs > 0 && layer.bytes > 0).then(|| layer.macs as f64 / layer.bytes as f64)
}

fn rate(layer: &ChipLayer) -> f64 {
    layer.macs as f64 / total(layer).max(1) as f64
}

fn total(layer: &ChipLayer) -> u64 {
    layer.stalls.iter().fold(layer.busy, |sum, (_, n)| sum.saturating_add(*n))
}

/// What limits a layer: the unit that multiplies, or the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    Array,
    Memory,
    Vector,
}

impl Limit {
    const ALL: [Self; 3] = [Self::Array, Self::Memory, Self::Vector];

    fn class(self) -> &'static str {
        ["d0", "d1", "d2"][self as usize]
    }

    fn name(self) -> &'static str {
        ["the array limits", "the memory limits", "the vector unit limits"][self as usize]
    }
}

impl Roof {
    /// What the unit that multiplies does per cycle at best.
    fn peak(&self, layer: &ChipLayer) -> f64 {
        if layer.on_vector_unit { self.vector_macs_per_cycle } else { self.macs_per_cycle }
    }

    /// Where a ceiling meets the slope of the memory.
    fn ridge(&self, peak: f64) -> f64 {
        peak / self.bytes_per_cycle.max(f64::MIN_POSITIVE)
    }

    /// Whatever takes longer: moving the bytes, or the arithmetic as this layer keeps its unit busy, which is more than its
    /// multiply-accumulates need where it does not fill the unit.
    fn limit(&self, layer: &ChipLayer) -> Limit {
        match layer.on_vector_unit {
            _ if layer.bytes as f64 > layer.busy as f64 * self.bytes_per_cycle => Limit::Memory,
            true => Limit::Vector,
            false => Limit::Array,
        }
    }
}

/// Rate over intensity, one dot per layer, under what array, vector unit and memory allow.
pub(super) fn roofline(html: &mut Html, page: &Page, _: &Devices) {
    let Some(roof) = &page.roofline else { return };
    let ridge = roof.ridge(roof.macs_per_cycle);
    let dots: Vec<(&ChipLayer, f64)> = page.cycles.iter().filter_map(|l| intensity(l).map(|i| (l, i))).collect();
    let limits: Vec<Limit> = dots.iter().map(|(layer, _)| roof.limit(layer)).collect();
    let n = |limit: Limit| limits.iter().filter(|l| **l == limit).count();
    let mut peaks = vec![roof.macs_per_cycle];
    peaks.extend(dots.iter().any(|(l, _)| l.on_vector_unit).then_some(roof.vector_macs_per_cycle));
    let plane = Plane {
        x: Axis::around(dots.iter().map(|(_, i)| *i).chain([ridge])),
        y: Axis::around(dots.iter().map(|(l, _)| rate(l)).chain(peaks.iter().copied())),
        height: HEIGHT,
    };
    html.element("p", &[("class", &"soft")], |html| {
        html.text(format_args!(
            "Of {}. The ridge point of its array lies at {} multiply-accumulates per byte. Of {} layers that multiply, \
             the memory limits {}, the array {}, the vector unit {}: a layer is limited by what takes longer, its bytes or \
             the work of its unit.",
            roof.chip,
            significant(ridge),
            dots.len(),
            n(Limit::Memory),
            n(Limit::Array),
            n(Limit::Vector)
        ));
    });
    let label = format!(
        "Roofline of {}: {} multiply-accumulates per cycle at most, {} bytes per cycle, ridge point at {} per byte; the \
         table of cycles has the numbers of each layer",
        roof.chip,
        significant(roof.macs_per_cycle),
        significant(roof.bytes_per_cycle),
        significant(ridge)
    );
    plane.draw(html, &label, ("multiply-accumulates per byte of memory", "multiply-accumulates per cycle"), |html| {
        peaks.iter().for_each(|peak| ceiling(html, &plane, roof, *peak));
        for ((layer, intensity), limit) in dots.iter().zip(&limits) {
            let title = format!(
                "{}: {} per cycle of {}, {} per byte, {}",
                layer.name,
                significant(rate(layer)),
                significant(roof.peak(layer).min(intensity * roof.bytes_per_cycle)),
                significant(*intensity),
                limit.name()
            );
            plane.dot(html, limit.class(), (*intensity, rate(layer)), &title);
        }
    });
    html.element("p", &[("class", &"tools")], |html| {
        for limit in Limit::ALL.into_iter().filter(|limit| n(*limit) > 0) {
            html.leaf("span", &[("class", &format_args!("chip {}", limit.class()))], limit.name());
        }
    });
}

/// The slope of the memory up to a peak, the peak, and where they meet.
fn ceiling(html: &mut Html, plane: &Plane, roof: &Roof, peak: f64) {
    let ((left, right), (bottom, _)) = (plane.x.ends(), plane.y.ends());
    let ridge = roof.ridge(peak);
    // The slope enters where it crosses the lower edge, if it does.
    let start = left.max(bottom / roof.bytes_per_cycle.max(f64::MIN_POSITIVE)).min(ridge);
    plane.line(html, "roof", (start, start * roof.bytes_per_cycle), (ridge, peak));
    plane.line(html, "roof", (ridge.max(left), peak), (right, peak));
    plane.line(html, "mark", (ridge, bottom), (ridge, peak));
}

/// Names of the reasons, in the order in which layers name them first, and their colours.
fn reasons(page: &Page) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (reason, n) in page.cycles.iter().flat_map(|l| &l.stalls) {
        if *n > 0 && !names.contains(&reason.as_str()) {
            names.push(reason);
        }
    }
    names
}

fn class(names: &[&str], reason: &str) -> &'static str {
    const CLASSES: [&str; 6] = ["d1", "d2", "d3", "d4", "d5", "dx"];
    let place = names.iter().position(|name| *name == reason);
    place.and_then(|i| CLASSES.get(i)).copied().unwrap_or("dx")
}

/// Busy and waiting cycles of each layer, side by side.
pub(super) fn cycles(html: &mut Html, page: &Page, _: &Devices) {
    const COLUMNS: &[Column] = &[
        Column::number("#"),
        Column::text("Layer"),
        Column::number("Cycles"),
        Column::bars("Where they go"),
        Column::number("Busy"),
        Column::number("MACs"),
        Column::number("Bytes"),
        Column::number("MAC per cycle"),
    ];
    let names = reasons(page);
    html.element("p", &[("class", &"tools")], |html| {
        html.raw("<span class=\"chip d0\">busy</span>");
        for name in &names {
            html.leaf("span", &[("class", &format_args!("chip {}", class(&names, name)))], name);
        }
    });
    let longest = page.cycles.iter().map(total).max().unwrap_or(0).max(1);
    table(html, COLUMNS, page.cycles.len(), |html| {
        for (i, layer) in page.cycles.iter().enumerate() {
            let all = total(layer);
            html.element("tr", &[], |html| {
                place(html, i);
                html.leaf("td", &[("class", &"name"), ("title", &layer.name)], shortened(&layer.name));
                number(html, all as f64, grouped(all));
                html.element("td", &[("data-v", &all)], |html| stack(html, layer, &names, longest));
                let busy = layer.busy as f64 / all.max(1) as f64;
                number(html, busy, percent(busy));
                number(html, layer.macs as f64, grouped(layer.macs));
                number(html, layer.bytes as f64, grouped(layer.bytes));
                number(html, rate(layer), significant(rate(layer)));
            });
            html.raw("\n");
        }
    });
}

/// Characters of a name in the chart; the title has all of them.
const NAME_CHARS: usize = 30;

/// The end of a long name, which is what differs between layers.
fn shortened(name: &str) -> String {
    match name.chars().count().checked_sub(NAME_CHARS) {
        None | Some(0) => name.to_owned(),
        Some(skip) => std::iter::once('…').chain(name.chars().skip(skip + 1)).collect(),
    }
}

/// One bar: busy first, then every reason, as long as its share of the longest layer.
fn stack(html: &mut Html, layer: &ChipLayer, names: &[&str], longest: u64) {
    let parts = std::iter::once(("busy", layer.busy, "d0"))
        .chain(layer.stalls.iter().map(|(reason, n)| (reason.as_str(), *n, class(names, reason))));
    let title: Vec<String> =
        parts.clone().filter(|(_, n, _)| *n > 0).map(|(name, n, _)| format!("{name} {}", grouped(n))).collect();
    html.element("svg", &[("class", &"stack"), ("role", &"img"), ("aria-label", &title.join(", "))], |html| {
        html.leaf("title", &[], title.join(", "));
        let mut at = 0.0;
        for (_, n, class) in parts.filter(|(_, n, _)| *n > 0) {
            let width = n as f64 / longest as f64;
            let (x, width_text) = (percent_of(at), percent_of(width));
            html.shape("rect", &[("class", &class), ("x", &x), ("width", &width_text), ("height", &14)]);
            at += width;
        }
    });
}
