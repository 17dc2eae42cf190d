//! The integers that make the error of one sum of products small: `(q - u)^T H (q - u)` for weights `u` in steps of their
//! scale and a damped Gram matrix `H`.
//!
//! With `H = L L^T` (Cholesky), the weights are rounded from the last to the first, each after it has taken over the error
//! of those behind it: the plane by plane rounding of Babai 1986, to which the column by column scheme of Frantar et al.
//! 2022 is equal. Sweeps of coordinate descent follow, from there and from the nearest integers; the better end counts, so
//! that the error never exceeds that of the nearest integers. Everything is f64 in a fixed order.

/// Partial sums of a dot product: a fixed order that vectors can follow.
const LANES: usize = 8;
/// Share of the mean of the diagonal that is added to it.
const DAMPING: f64 = 0.01;

/// A damped Gram matrix and its factor.
pub(super) struct Problem {
    k: usize,
    /// The matrix, row by row.
    h: Vec<f64>,
    /// The lower factor, row by row.
    l: Vec<f64>,
}

impl Problem {
    /// `None` if the data say nothing: all rows were zero, or sums overflowed.
    pub(super) fn new(mut h: Vec<f64>, k: usize) -> Option<Self> {
        let mean = (0..k).map(|i| h[i * k + i]).sum::<f64>() / k as f64;
        if !(mean.is_finite() && mean > 0.0) {
            return None;
        }
        (0..k).for_each(|i| h[i * k + i] += DAMPING * mean);
        let l = cholesky(&h, k)?;
        Some(Self { k, h, l })
    }

    /// Integers within `lo..=hi` for the weights `u`, after at most `sweeps` sweeps.
    pub(super) fn round(&self, u: &[f64], (lo, hi): (i32, i32), sweeps: u32) -> Vec<i32> {
        let range = (f64::from(lo), f64::from(hi));
        let nearest = u.iter().map(|&v| v.round_ties_even().clamp(range.0, range.1)).collect();
        let nearest = self.descend(u, nearest, range, sweeps);
        let planes = self.descend(u, self.by_planes(u, range), range, sweeps);
        let best = if planes.1 < nearest.1 { planes.0 } else { nearest.0 };
        best.into_iter().map(|q| q as i32).collect()
    }

    /// Rounds from the last weight to the first.
    fn by_planes(&self, u: &[f64], (lo, hi): (f64, f64)) -> Vec<f64> {
        let mut carried = vec![0.0; self.k];
        let mut q = vec![0.0; self.k];
        for i in (0..self.k).rev() {
            let row = &self.l[i * self.k..=i * self.k + i];
            q[i] = (u[i] - carried[i] / row[i]).round_ties_even().clamp(lo, hi);
            let off = q[i] - u[i];
            carried.iter_mut().zip(&row[..i]).for_each(|(c, l)| *c += off * l);
        }
        q
    }

    /// Coordinate descent from `q`; returns where it ends, and the error there.
    fn descend(&self, u: &[f64], mut q: Vec<f64>, (lo, hi): (f64, f64), sweeps: u32) -> (Vec<f64>, f64) {
        let mut slope = vec![0.0; self.k];
        for i in 0..self.k {
            self.shift(&mut slope, i, q[i] - u[i]);
        }
        for _ in 0..sweeps {
            let mut moved = false;
            for i in 0..self.k {
                let own = self.h[i * self.k + i];
                let to = (q[i] - slope[i] / own).round_ties_even().clamp(lo, hi);
                let by = to - q[i];
                if by * (2.0 * slope[i] + by * own) < 0.0 {
                    q[i] = to;
                    self.shift(&mut slope, i, by);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let error = (0..self.k).fold(0.0, |sum, i| sum + (q[i] - u[i]) * slope[i]);
        (q, error)
    }

    /// What moving weight `i` does to half the slope.
    fn shift(&self, slope: &mut [f64], i: usize, by: f64) {
        if by != 0.0 {
            slope.iter_mut().zip(&self.h[i * self.k..(i + 1) * self.k]).for_each(|(s, h)| *s += by * h);
        }
    }
}

/// The lower factor of a positive definite matrix; `None` for another one.
fn cholesky(h: &[f64], k: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; k * k];
    for i in 0..k {
        let (done, row) = l.split_at_mut(i * k);
        for j in 0..i {
            let other = &done[j * k..j * k + j];
            row[j] = (h[i * k + j] - dot(&row[..j], other)) / done[j * k + j];
        }
        let rest = h[i * k + i] - dot(&row[..i], &row[..i]);
        if !(rest.is_finite() && rest > 0.0) {
            return None;
        }
        row[i] = rest.sqrt();
    }
    Some(l)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder()).fold(0.0, |sum, (a, b)| sum + a * b);
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().fold(rest, |sum, lane| sum + lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::testing::Net;

    /// The Gram matrix of correlated rows, and weights in steps.
    fn problem(k: usize) -> (Vec<f64>, Vec<f64>) {
        let mut net = Net::new();
        let mut h = vec![0.0; k * k];
        for _ in 0..4 * k {
            let shared = f64::from(net.noise(1)[0]);
            let row: Vec<f64> = net.noise(k).into_iter().map(|v| shared + 0.4 * f64::from(v)).collect();
            (0..k * k).for_each(|at| h[at] += row[at / k] * row[at % k]);
        }
        (h, net.noise(k).into_iter().map(|v| 6.0 * f64::from(v)).collect())
    }

    fn error(h: &[f64], u: &[f64], q: &[i32]) -> f64 {
        let e: Vec<f64> = q.iter().zip(u).map(|(&q, u)| f64::from(q) - u).collect();
        (0..h.len()).map(|at| h[at] * e[at / u.len()] * e[at % u.len()]).sum()
    }

    #[test]
    fn the_error_is_never_above_that_of_the_nearest_integers_and_mostly_far_below() {
        for k in [1, 2, 9, 27, 64] {
            let (h, _) = problem(k);
            let solver = Problem::new(h.clone(), k).unwrap();
            let mut net = Net::new();
            let (mut all_before, mut all_after) = (0.0, 0.0);
            for _ in 0..20 {
                let u: Vec<f64> = net.noise(k).into_iter().map(|v| 6.0 * f64::from(v)).collect();
                let nearest: Vec<i32> = u.iter().map(|v| v.round_ties_even() as i32).collect();
                let learned = solver.round(&u, (-7, 7), 4);
                let (before, after) = (error(&h, &u, &nearest), error(&h, &u, &learned));
                assert!(after <= before * (1.0 + 1e-12), "{k}: {after} > {before}");
                assert!(learned.iter().all(|q| (-7..=7).contains(q)));
                (all_before, all_after) = (all_before + before, all_after + after);
            }
            assert!(k < 9 || all_after < 0.5 * all_before, "{k}: {all_after} of {all_before}");
        }
    }

    #[test]
    fn integers_stay_and_narrow_ranges_hold() {
        let (h, _) = problem(9);
        let u: Vec<f64> = (0..9).map(|i| f64::from(i - 4)).collect();
        let problem = Problem::new(h, 9).unwrap();
        assert_eq!(problem.round(&u, (-7, 7), 3), [-4, -3, -2, -1, 0, 1, 2, 3, 4]);
        assert!(problem.round(&u, (-2, 2), 3).iter().all(|q| (-2..=2).contains(q)));
    }

    #[test]
    fn the_factor_gives_the_matrix_back() {
        let (h, _) = problem(20);
        let l = cholesky(&h, 20).unwrap();
        for at in 0..400 {
            let (i, j) = (at / 20, at % 20);
            let back: f64 = (0..20).map(|n| l[i * 20 + n] * l[j * 20 + n]).sum();
            assert!((back - h[at]).abs() < 1e-9 * h[0]);
        }
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
        assert!(Problem::new(vec![0.0; 4], 2).is_none());
    }
}
