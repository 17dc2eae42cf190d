//! A drawing over two logarithmic axes: positions across are percentages, so it takes the width that there is.

use super::format::significant;
use super::html::Html;

/// One axis: values above zero between two powers of ten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    lo: i32,
    hi: i32,
}

impl Axis {
    /// The powers of ten around the values that are above zero.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::log10);
        let (lo, hi) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if lo > hi {
            return Self { lo: 0, hi: 1 };
        }
        // A value on the edge would lie on the frame.
        let (lo, hi) = ((lo - 0.02).floor() as i32, (hi + 0.02).ceil() as i32);
        Self { lo, hi: hi.max(lo + 1) }
    }

    /// Where a value lies, 0 to 1; values outside are moved to the edge.
    pub fn at(self, value: f64) -> f64 {
        let log = if value > 0.0 { value.log10() } else { f64::from(self.lo) };
        ((log - f64::from(self.lo)) / f64::from(self.hi - self.lo)).clamp(0.0, 1.0)
    }

    /// Both ends.
    pub fn ends(self) -> (f64, f64) {
        (10_f64.powi(self.lo), 10_f64.powi(self.hi))
    }

    fn decades(self) -> impl Iterator<Item = f64> {
        (self.lo..=self.hi).map(|e| 10_f64.powi(e))
    }
}

/// The plane of a drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub x: Axis,
    pub y: Axis,
    pub height: f64,
}

impl Plane {
    /// Position across, as a length of SVG.
    pub fn x(&self, value: f64) -> String {
        super::charts::percent_of(self.x.at(value))
    }

    /// Position down, pixels.
    pub fn y(&self, value: f64) -> String {
        format!("{:.1}", self.height * (1.0 - self.y.at(value)))
    }

    /// The drawing with its grid; `content` draws over it.
    pub fn draw(&self, html: &mut Html, label: &str, names: (&str, &str), content: impl FnOnce(&mut Html)) {
        html.leaf("p", &[("class", &"axis-name")], names.1);
        let attributes: [(_, &dyn std::fmt::Display); 4] =
            [("class", &"chart plane"), ("height", &self.height), ("role", &"img"), ("aria-label", &label)];
        html.element("svg", &attributes, |html| {
            self.grid(html);
            content(html);
        });
        html.leaf("p", &[("class", &"axis-name across")], names.0);
    }

    fn grid(&self, html: &mut Html) {
        for value in self.y.decades() {
            let y = self.y(value);
            html.shape("line", &[("class", &"grid"), ("x1", &0), ("x2", &"100%"), ("y1", &y), ("y2", &y)]);
            let attributes: [(_, &dyn std::fmt::Display); 4] =
                [("x", &-8), ("y", &y), ("dy", &4), ("text-anchor", &"end")];
            html.leaf("text", &attributes, short(value));
        }
        for value in self.x.decades() {
            let x = self.x(value);
            html.shape("line", &[("class", &"grid"), ("x1", &x), ("x2", &x), ("y1", &0), ("y2", &self.height)]);
            let below = format!("{}", self.height + 18.0);
            html.leaf("text", &[("x", &x), ("y", &below), ("text-anchor", &"middle")], short(value));
        }
    }

    /// A straight line.
    pub fn line(&self, html: &mut Html, class: &'static str, from: (f64, f64), to: (f64, f64)) {
        let (x1, x2, y1, y2) = (self.x(from.0), self.x(to.0), self.y(from.1), self.y(to.1));
        html.shape("line", &[("class", &class), ("x1", &x1), ("x2", &x2), ("y1", &y1), ("y2", &y2)]);
    }

    /// A dot with a title.
    pub fn dot(&self, html: &mut Html, class: &'static str, at: (f64, f64), title: &str) {
        html.element("g", &[("class", &class)], |html| {
            html.leaf("title", &[], title);
            html.shape("circle", &[("cx", &self.x(at.0)), ("cy", &self.y(at.1)), ("r", &5)]);
        });
    }
}

/// A power of ten, short.
fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.0} {unit}", value / size),
        None if value >= 1.0 => format!("{value:.0}"),
        None => significant(value).trim_end_matches('0').to_owned(),
    }
}
