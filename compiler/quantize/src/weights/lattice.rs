//! Weights that lie on a grid already, as networks trained with quantization have them once they are turned into floats:
//! the step of the grid, so that quantizing again loses nothing.

/// How far from a multiple of the step a weight may be, in steps. Zero points and scales that were rounded to f32 leave
/// far less.
const TOLERANCE: f64 = 0.01;
/// Steps between the smallest and the largest weight of an 8-bit grid.
const MAX_STEPS: f64 = 255.0;

/// Different values that make a grid: fewer meet one by chance.
const MIN_VALUES: usize = 16;

/// The step `s` of the grid, if every weight is a whole multiple of `s` and all lie within 255 steps; `None` otherwise,
/// and for weights with few different values.
pub fn lattice_step<'a>(weights: impl IntoIterator<Item = &'a f32>) -> Option<f64> {
    let mut values: Vec<f32> = vec![0.0];
    values.extend(weights.into_iter().filter(|w| **w != 0.0));
    values.sort_by(f32::total_cmp);
    values.dedup();
    if values.len() < MIN_VALUES {
        return None;
    }
    let (lo, hi) = (f64::from(*values.first()?), f64::from(*values.last()?));
    let gaps = values.windows(2).map(|pair| f64::from(pair[1]) - f64::from(pair[0]));
    // Neighbours that differ by rounding alone are one value.
    let gap = gaps.filter(|gap| *gap > (hi - lo) / (2.0 * MAX_STEPS)).reduce(f64::min)?;
    let steps = ((hi - lo) / gap).round_ties_even();
    if !(1.0..=MAX_STEPS).contains(&steps) {
        return None;
    }
    let step = (hi - lo) / steps;
    let on_grid = |w: &f32| (f64::from(*w) / step - (f64::from(*w) / step).round_ties_even()).abs() <= TOLERANCE;
    values.iter().all(on_grid).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_a_grid_is_found_and_broken_by_one_weight() {
        let mut grid: Vec<f32> = (-30..=97).step_by(3).map(|q| q as f32 * 0.02).collect();
        let step = lattice_step(&grid).unwrap();
        assert!((step - 0.06).abs() < 1e-6, "{step}");
        grid.push(0.031);
        assert_eq!(lattice_step(&grid), None);
    }

    #[test]
    fn few_values_zeros_and_free_weights_have_no_grid() {
        assert_eq!(lattice_step(&[0.0; 40]), None);
        assert_eq!(lattice_step(&[-1.0, -0.5, 0.5, 1.0]), None);
        let free: Vec<f32> = (1..200).map(|i| (i as f32).sqrt()).collect();
        assert_eq!(lattice_step(&free), None);
        let wide: Vec<f32> = (0..300).map(|i| i as f32).collect();
        assert_eq!(lattice_step(&wide), None);
    }
}
