//! The timeline: one track per device, spans that overlap below each other.
//!
//! Positions are percentages of the drawing's width, so that a wider drawing is a zoom, without the script rewriting
//! anything but the axis. Each span is a drawing of its own, which cuts its text off at its end.

use super::charts::{percent_of, share_text};
use super::devices::Devices;
use super::format::duration;
use super::html::Html;
use super::{Page, Span, SpanKind, Track};

/// Height of a lane and of a span in it, pixels.
const LANE: usize = 26;
const SPAN: usize = 20;
/// Height of the axis and space between tracks, pixels.
const AXIS: usize = 24;
const GAP: usize = 8;
/// Width of the column of names, pixels, and the characters that fit.
const NAMES: usize = 132;
const NAME_CHARS: usize = 14;
/// Lanes per track; what overlaps beyond that shares the last one.
const MAX_LANES: usize = 16;
/// Spans that are drawn, shared by the tracks; the shortest ones are left out first, which the page says.
const MAX_SPANS: usize = 2400;
/// Share of the whole time from which a span has its name from the start; the script adds those that a zoom makes room for.
const NAMED_SHARE: f64 = 0.01;
/// Ticks of the axis before the script writes its own.
const TICKS: f64 = 8.0;

/// Whether there is something to draw.
pub(super) fn has_spans(page: &Page) -> bool {
    page.timeline.iter().any(|track| !track.spans.is_empty())
}

/// The section: tools, names, tracks.
pub(super) fn timeline(html: &mut Html, page: &Page, devices: &Devices) {
    let view = View::of(&page.timeline);
    tools(html, &view);
    html.element("div", &[("class", &"time")], |html| {
        names(html, &view, devices);
        html.raw("<div class=\"pan\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">");
        let attributes: [(_, &dyn std::fmt::Display); 3] =
            [("style", &"width:100%"), ("height", &view.height), ("data-ns", &view.total)];
        html.element("svg", &attributes, |html| tracks(html, &view, devices));
        html.raw("</div>");
    });
}

/// What is drawn, laid out.
struct View<'a> {
    start: u64,
    total: u64,
    height: usize,
    lanes: Vec<Lanes<'a>>,
    left_out: usize,
}

/// A track, its upper edge, and its spans with their lanes.
struct Lanes<'a> {
    track: &'a Track,
    top: usize,
    height: usize,
    spans: Vec<(&'a Span, usize)>,
}

fn end(span: &Span) -> u64 {
    span.start_ns.saturating_add(span.duration_ns)
}

impl<'a> View<'a> {
    fn of(tracks: &'a [Track]) -> Self {
        let all = || tracks.iter().flat_map(|track| &track.spans);
        let start = all().map(|span| span.start_ns).min().unwrap_or(0);
        let total = all().map(end).max().unwrap_or(0).saturating_sub(start).max(1);
        let quota = MAX_SPANS / tracks.len().max(1);
        let mut height = AXIS;
        let mut left_out = 0;
        let mut lanes = Vec::new();
        for track in tracks {
            let drawn = longest(track, quota);
            left_out += track.spans.len() - drawn.len();
            let (spans, n_lanes) = pack(drawn);
            let lane = Lanes { track, top: height, height: n_lanes * LANE + GAP, spans };
            height += lane.height;
            lanes.push(lane);
        }
        Self { start, total, height, lanes, left_out }
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.total as f64
    }
}

/// The longest spans of a track, at most `quota`; of equally long ones the earliest.
fn longest(track: &Track, quota: usize) -> Vec<&Span> {
    let mut spans: Vec<&Span> = track.spans.iter().collect();
    if spans.len() > quota {
        spans.sort_by_key(|span| (std::cmp::Reverse(span.duration_ns), span.start_ns));
        spans.truncate(quota);
    }
    spans
}

/// Gives each span the first lane that is free, and says how many lanes there are.
fn pack(mut spans: Vec<&Span>) -> (Vec<(&Span, usize)>, usize) {
    spans.sort_by_key(|span| (span.start_ns, std::cmp::Reverse(span.duration_ns)));
    let mut ends: Vec<u64> = Vec::new();
    let mut placed = Vec::with_capacity(spans.len());
    for span in spans {
        let free = ends.iter().position(|&end| end <= span.start_ns);
        let lane = free.unwrap_or(ends.len().min(MAX_LANES - 1));
        match ends.get_mut(lane) {
            Some(last) => *last = end(span).max(*last),
            None => ends.push(end(span)),
        }
        placed.push((span, lane));
    }
    (placed, ends.len().max(1))
}

fn tools(html: &mut Html, view: &View) {
    html.raw("<div class=\"tools\"><span>");
    html.text(duration(view.total)).raw("</span><span>");
    html.raw("<button type=\"button\" data-zoom=\"-\" aria-label=\"Zoom out\">\u{2212}</button> ");
    html.raw("<button type=\"button\" data-zoom=\"0\">Fit</button> ");
    html.raw("<button type=\"button\" data-zoom=\"+\" aria-label=\"Zoom in\">+</button></span>");
    html.raw("<span>Keys: + \u{2212} 0, arrows; or Ctrl and wheel</span>");
    for kind in [SpanKind::Compute, SpanKind::Bridge, SpanKind::Transfer, SpanKind::Wait] {
        if view.lanes.iter().flat_map(|lanes| &lanes.spans).any(|(span, _)| span.kind == kind) {
            key(html, kind);
        }
    }
    if view.left_out > 0 {
        html.leaf("span", &[], format_args!("{} shorter spans are not drawn", view.left_out));
    }
    html.raw("</div>");
}

/// A kind and how it is drawn.
fn key(html: &mut Html, kind: SpanKind) {
    let (class, name) = kind_words(kind);
    html.element("span", &[("class", &"key")], |html| {
        html.element("svg", &[("class", &format_args!("s dx {class}")), ("aria-hidden", &"true")], |html| {
            html.raw("<rect/>");
        });
        html.text(name);
    });
}

/// Class and name of a kind.
fn kind_words(kind: SpanKind) -> (&'static str, &'static str) {
    match kind {
        SpanKind::Compute => ("", "compute"),
        SpanKind::Bridge => ("bridge", "bridge"),
        SpanKind::Transfer => ("transfer", "transfer"),
        SpanKind::Wait => ("wait", "waiting"),
    }
}

/// The column of devices, which stays where it is when the tracks move.
fn names(html: &mut Html, view: &View, devices: &Devices) {
    html.element("svg", &[("class", &"names"), ("width", &NAMES), ("height", &view.height)], |html| {
        for Lanes { track, top, .. } in &view.lanes {
            html.element("g", &[("class", &devices.class(&track.device))], |html| {
                let busy: u64 = track
                    .spans
                    .iter()
                    .filter(|s| s.kind != SpanKind::Wait)
                    .fold(0, |t, s| t.saturating_add(s.duration_ns));
                let title = format!(
                    "{}: work of {}, {} of the time",
                    track.device,
                    duration(busy),
                    share_text(busy, view.total)
                );
                html.leaf("title", &[], title);
                html.shape("rect", &[("x", &10), ("y", &(top + 7)), ("width", &10), ("height", &10), ("rx", &3)]);
                html.leaf("text", &[("x", &28), ("y", &(top + 16))], shortened(&track.device));
            });
        }
    });
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    let mut text: String = name.chars().take(NAME_CHARS - 1).collect();
    text.push('\u{2026}');
    text
}

fn tracks(html: &mut Html, view: &View, devices: &Devices) {
    for Lanes { top, height, .. } in view.lanes.iter().step_by(2) {
        html.shape("rect", &[("class", &"track"), ("y", top), ("width", &"100%"), ("height", height)]);
    }
    html.element("g", &[("class", &"axis")], |html| axis(html, view));
    for lanes in &view.lanes {
        html.element("g", &[("class", &devices.class(&lanes.track.device))], |html| {
            for &(span, lane) in &lanes.spans {
                draw(html, view, span, lanes.top + GAP / 2 + lane * LANE);
            }
        });
        html.raw("\n");
    }
}

/// Lines at round times; the script draws them again for each zoom.
fn axis(html: &mut Html, view: &View) {
    let wanted = view.total as f64 / TICKS;
    let power = 10f64.powf(wanted.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|&step| step >= wanted).unwrap_or(wanted);
    for i in 0..=(TICKS as u32) {
        let at = f64::from(i) * step;
        if at >= view.total as f64 {
            break;
        }
        let x = percent_of(at / view.total as f64);
        html.shape("line", &[("class", &"grid"), ("x1", &x), ("x2", &x), ("y1", &0), ("y2", &"100%")]);
        html.leaf("text", &[("x", &x), ("dx", &4), ("y", &14)], duration(at as u64));
    }
}

fn draw(html: &mut Html, view: &View, span: &Span, y: usize) {
    let x = percent_of(view.share(span.start_ns.saturating_sub(view.start)));
    // A short span is still a hair's breadth wide.
    let width = percent_of(view.share(span.duration_ns).max(0.0004));
    let (class, kind) = kind_words(span.kind);
    let class = if class.is_empty() { "s".to_owned() } else { format!("s {class}") };
    let attributes: [(_, &dyn std::fmt::Display); 5] =
        [("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &SPAN)];
    html.element("svg", &attributes, |html| {
        let start = duration(span.start_ns.saturating_sub(view.start));
        // The script takes the first line as the name.
        html.leaf("title", &[], format_args!("{}\n{kind}, {} from {start}", span.name, duration(span.duration_ns)));
        html.raw("<rect/>");
        if view.share(span.duration_ns) >= NAMED_SHARE {
            html.raw("<text x=\"5\" y=\"14\">").text(&span.name).raw("</text>");
        }
    });
}
