//! A drawing over two logarithmic axes: positions across are percentages, so it takes the width that there is.

use super::format::significant;
use super::html::Html;

/// One axis: logarithms of its ends, which are 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    lo: f64,
    hi: f64,
}

/// 1, 2, 5 and 10.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

impl Axis {
    /// The round numbers around the values that are above zero.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|v| v.is_finite() && *v > 0.0);
        let (lo, hi) = usable.fold((f64::INFINITY, 0.0), |(lo, hi), v| (v.min(lo), v.max(hi)));
        if lo > hi {
            return Self { lo: 0.0, hi: 1.0 };
        }
        // A value on the edge would lie on the frame.
        let (lo, hi) = (round(lo * 0.95, false), round(hi * 1.05, true));
        Self { lo, hi: hi.max(lo + 0.3) }
    }

    /// Where a value lies, 0 to 1; values outside are moved to the edge.
    pub fn at(self, value: f64) -> f64 {
        let log = if value > 0.0 { value.log10() } else { self.lo };
        ((log - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0)
    }

    /// Both ends.
    pub fn ends(self) -> (f64, f64) {
        (10_f64.powf(self.lo), 10_f64.powf(self.hi))
    }

    /// Powers of ten; on a short axis what lies between them too.
    fn ticks(self) -> impl Iterator<Item = f64> {
        let steps: &[f64] = if self.hi - self.lo < 2.1 { &STEPS[..3] } else { &STEPS[..1] };
        let decades = self.lo.floor() as i32..=self.hi.ceil() as i32;
        let all = decades.flat_map(move |e| steps.iter().map(move |step| step * 10_f64.powi(e)));
        all.filter(move |v| (self.lo - 1e-9..=self.hi + 1e-9).contains(&v.log10()))
    }
}

/// The logarithm of the next 1, 2 or 5 times a power of ten.
fn round(value: f64, up: bool) -> f64 {
    let decade = value.log10().floor();
    let rest = value / 10_f64.powf(decade);
    let step = match up {
        true => STEPS.into_iter().find(|step| *step >= rest),
        false => STEPS.into_iter().rev().find(|step| *step <= rest),
    };
    decade + step.unwrap_or(1.0).log10()
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
        for value in self.y.ticks() {
            let y = self.y(value);
            html.shape("line", &[("class", &"grid"), ("x1", &0), ("x2", &"100%"), ("y1", &y), ("y2", &y)]);
            let attributes: [(_, &dyn std::fmt::Display); 4] =
                [("x", &-8), ("y", &y), ("dy", &4), ("text-anchor", &"end")];
            html.leaf("text", &attributes, short(value));
        }
        for value in self.x.ticks() {
            let x = self.x(value);
            html.shape("line", &[("class", &"grid"), ("x1", &x), ("x2", &x), ("y1", &0), ("y2", &self.height)]);
            let below = format!("{}", self.height + 18.0);
            // The last one ends with the drawing, which may be the edge of the window.
            let anchor = if self.x.at(value) > 0.97 { "end" } else { "middle" };
            html.leaf("text", &[("x", &x), ("y", &below), ("text-anchor", &anchor)], short(value));
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

/// A round number, short.
fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.0} {unit}", value / size),
        None if value >= 1.0 => format!("{value:.0}"),
        None => significant(value).trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_around_the_values() {
        let axis = Axis::around([3.0, 70.0, f64::NAN, 0.0].into_iter());
        let ends = axis.ends();
        assert!((ends.0 - 2.0).abs() < 1e-9 && (ends.1 - 100.0).abs() < 1e-9, "{ends:?}");
        let ticks: Vec<String> = axis.ticks().map(short).collect();
        assert_eq!(ticks, ["2", "5", "10", "20", "50", "100"]);
        assert_eq!((axis.at(2.0), axis.at(1e9), axis.at(-1.0)), (0.0, 1.0, 0.0));
        assert_eq!(Axis::around(std::iter::empty()).ends(), (1.0, 10.0));
        let wide: Vec<String> = Axis::around([0.02, 3e6].into_iter()).ticks().map(short).collect();
        assert_eq!(wide, ["0.01", "0.1", "1", "10", "100", "1 k", "10 k", "100 k", "1 M"]);
    }
}
