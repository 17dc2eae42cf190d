//! Elements between elements: the bilinear taps of RoiAlign and DeformConv.

/// Indices into a plane and their weights; the weight of what lies outside is 0.
pub(super) type Taps = [(usize, f64); 4];

const NOTHING: Taps = [(0, 0.0); 4];

/// The four elements around a position of a plane of `h * w` elements, none of which is empty. Outside of it, elements
/// are 0 (`zeros`), or positions up to one element away take the nearest element.
pub(super) fn taps(y: f64, x: f64, [h, w]: [usize; 2], zeros: bool) -> Taps {
    let near = |p: f64, n: usize| p >= -1.0 && p <= n as f64;
    if !near(y, h) || !near(x, w) {
        return NOTHING;
    }
    let (rows, columns) = (line(y, h, zeros), line(x, w, zeros));
    let tap = |i: usize, j: usize| (rows[i].0 * w + columns[j].0, rows[i].1 * columns[j].1);
    [tap(0, 0), tap(0, 1), tap(1, 0), tap(1, 1)]
}

/// Two elements of an axis and their weights.
fn line(p: f64, n: usize, zeros: bool) -> [(usize, f64); 2] {
    let last = (n - 1) as f64;
    let p = if zeros { p } else { p.clamp(0.0, last) };
    let low = p.floor();
    let at = |q: f64, weight: f64| if (0.0..=last).contains(&q) { (q as usize, weight) } else { (0, 0.0) };
    [at(low, 1.0 - (p - low)), at(low + 1.0, p - low)]
}
