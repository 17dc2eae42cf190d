//! Boxes out of a detector's map, and how many of them are right: decoding as FastestDet does it, suppression of
//! overlaps, average precision at an overlap of one half.

/// A labelled or found box: class, corners as shares of the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Class index.
    pub class: usize,
    /// Score; 1 for labels.
    pub score: f32,
    /// Left, top, right, bottom.
    pub corners: [f32; 4],
}

/// Smallest score of a box that counts, and the overlap above which the weaker of two boxes of a class is dropped.
const MIN_SCORE: f32 = 0.001;
const MAX_OVERLAP: f32 = 0.45;

/// Boxes of a map `[5 + classes, side, side]`: objectness, offset and size of the box, class probabilities.
pub fn decode(map: &[f32], classes: usize, side: usize) -> Vec<Found> {
    let at = |c: usize, y: usize, x: usize| map[(c * side + y) * side + x];
    let sigmoid = |v: f32| 1.0 / (1.0 + (-v).exp());
    let mut found = Vec::new();
    for y in 0..side {
        for x in 0..side {
            let best = (0..classes).max_by(|a, b| at(5 + a, y, x).total_cmp(&at(5 + b, y, x)));
            let class = best.expect("a class");
            let score = at(0, y, x).powf(0.6) * at(5 + class, y, x).powf(0.4);
            if score < MIN_SCORE {
                continue;
            }
            let (cx, cy) = (x as f32 + at(1, y, x).tanh(), y as f32 + at(2, y, x).tanh());
            let (w, h) = (sigmoid(at(3, y, x)), sigmoid(at(4, y, x)));
            let (cx, cy) = (cx / side as f32, cy / side as f32);
            found.push(Found { class, score, corners: [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0] });
        }
    }
    suppress(found)
}

/// The boxes without those that a stronger one of the same class covers.
fn suppress(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut kept: Vec<Found> = Vec::new();
    for f in found {
        if kept.iter().all(|k| k.class != f.class || overlap(&k.corners, &f.corners) <= MAX_OVERLAP) {
            kept.push(f);
        }
    }
    kept
}

/// Intersection over union.
pub fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let side = |lo: usize, hi: usize| (a[hi].min(b[hi]) - a[lo].max(b[lo])).max(0.0);
    let area = |c: &[f32; 4]| (c[2] - c[0]).max(0.0) * (c[3] - c[1]).max(0.0);
    let both = side(0, 2) * side(1, 3);
    both / (area(a) + area(b) - both).max(f32::MIN_POSITIVE)
}

/// Labels of one image in YOLO's text form: class, centre and size as shares.
pub fn labels(text: &str) -> Vec<Found> {
    let one = |line: &str| {
        let n: Vec<f32> = line.split_whitespace().map(|w| w.parse().expect("a number")).collect();
        let [class, cx, cy, w, h] = n[..] else { panic!("`{line}` is no label") };
        let corners = [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0];
        Found { class: class as usize, score: 1.0, corners }
    };
    text.lines().filter(|l| !l.trim().is_empty()).map(one).collect()
}

/// Mean over the classes that have labels of the average precision (101 recalls) at overlap 0.5.
pub fn ap50(images: &[(Vec<Found>, Vec<Found>)], classes: usize) -> f64 {
    let per_class = (0..classes).filter_map(|class| average_precision(images, class));
    let (sum, n) = per_class.fold((0.0, 0), |(sum, n), ap| (sum + ap, n + 1));
    100.0 * sum / f64::from(n.max(1))
}

fn average_precision(images: &[(Vec<Found>, Vec<Found>)], class: usize) -> Option<f64> {
    let total = images.iter().flat_map(|(_, labels)| labels).filter(|l| l.class == class).count();
    let found = images.iter().enumerate().flat_map(|(i, (found, _))| found.iter().map(move |f| (i, f)));
    let mut found: Vec<(usize, &Found)> = found.filter(|(_, f)| f.class == class).collect();
    found.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
    let mut taken: Vec<Vec<bool>> = images.iter().map(|(_, labels)| vec![false; labels.len()]).collect();
    let mut curve: Vec<(f64, f64)> = Vec::new();
    let mut right = 0usize;
    for (n, (image, f)) in found.iter().enumerate() {
        let of_class = |(_, l): &(usize, &Found)| l.class == class;
        let free = images[*image].1.iter().enumerate().filter(of_class).filter(|(i, _)| !taken[*image][*i]);
        let overlaps = free.map(|(i, l)| (i, overlap(&l.corners, &f.corners)));
        if let Some((i, shared)) = overlaps.max_by(|a, b| a.1.total_cmp(&b.1))
            && shared >= 0.5
        {
            taken[*image][i] = true;
            right += 1;
        }
        curve.push((right as f64 / total.max(1) as f64, right as f64 / (n + 1) as f64));
    }
    (total > 0).then(|| interpolated(&curve))
}

/// Mean of the best precision at 101 recalls and above, from points of growing recall.
fn interpolated(curve: &[(f64, f64)]) -> f64 {
    let best = |at: usize| {
        let reached = curve.iter().filter(|(recall, _)| *recall >= at as f64 / 100.0);
        reached.map(|(_, precision)| *precision).fold(0.0, f64::max)
    };
    (0..=100).map(best).sum::<f64>() / 101.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_and_precision_of_known_boxes() {
        assert_eq!(overlap(&[0.0, 0.0, 1.0, 1.0], &[0.5, 0.0, 1.5, 1.0]), 1.0 / 3.0);
        let label = labels("3 0.5 0.5 0.2 0.2\n");
        let right = Found { score: 0.9, ..label[0] };
        let wrong = Found { score: 0.95, corners: [0.0, 0.0, 0.1, 0.1], ..right };
        assert_eq!(ap50(&[(vec![right], label.clone())], 80), 100.0);
        assert_eq!(ap50(&[(vec![wrong, right], label.clone())], 80), 50.0);
        assert_eq!(ap50(&[(vec![], label)], 80), 0.0);
    }
}
