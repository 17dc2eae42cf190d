//! Scales against their definition, and the guards.

use super::*;
use proptest::prelude::*;

const CONV: ChannelLayout = ChannelLayout { channels: 3, inner: 2 };

fn minmax(weights: &[f32], layout: ChannelLayout) -> QuantizedWeights {
    quantize_weights("w", weights, layout, Grid::S8_WEIGHTS, WeightMethod::MinMax).unwrap()
}

#[test]
fn each_channel_uses_its_full_range() {
    let q = minmax(&[1.27, -0.635, 2.54, 0.0, -12.7, 6.35], CONV);
    assert_eq!(q.scales, [1.27 / 127.0, 2.54 / 127.0, 12.7 / 127.0]);
    // -0.635 / 0.01 is just below the tie.
    assert_eq!(q.codes, [127, -64, 127, 0, -127, 64]);
    assert_eq!(q.zero_point, 0);
}

#[test]
fn the_channel_axis_may_be_the_last_one() {
    let q = minmax(&[1.0, 10.0, -0.5, 5.0], ChannelLayout { channels: 2, inner: 1 });
    assert_eq!(q.codes, [127, 127, -64, 64]);
}

#[test]
fn a_zero_channel_takes_the_median_and_a_tiny_one_the_floor() {
    let weights = [1.0, 1.0, 0.0, 0.0, 1e-9, 0.0];
    let q = minmax(&weights, CONV);
    let (full, floor) = ((1.0 / 127.0) as f32, (0.01 / 127.0) as f32);
    assert_eq!(q.scales, [full, floor, floor]);
    assert_eq!(q.codes, [127, 127, 0, 0, 0, 0]);
    assert_eq!(minmax(&[0.0; 6], CONV).scales, [1.0; 3]);
}

#[test]
fn unsigned_weights_are_symmetric_about_128() {
    let one = ChannelLayout { channels: 1, inner: 3 };
    let q = quantize_weights("w", &[-1.0, 0.0, 1.0], one, Grid::U8_WEIGHTS, WeightMethod::MinMax).unwrap();
    assert_eq!((q.codes, q.zero_point), (vec![1, 128, 255], 128));
}

#[test]
fn broken_weights_are_named() {
    let error = |w: &[f32]| weight_scales("conv.w", w, CONV, Grid::S8_WEIGHTS, WeightMethod::Mse).unwrap_err();
    assert!(error(&[1.0; 5]).to_string().contains("`conv.w`: 5 weights"));
    assert!(error(&[1.0, 2.0, f32::NAN, 0.0, 0.0, 0.0]).to_string().contains("NaN at index 2"));
}

/// 48 weights on a grid of step 0.05 whose zero lies off the middle.
fn on_a_grid() -> Vec<f32> {
    (0..48).map(|i| ((i * 37) % 201 - 60) as f32 * 0.05).collect()
}

#[test]
fn weights_on_a_grid_are_met_exactly() {
    let weights = on_a_grid();
    let (one, rows) = (ChannelLayout { channels: 1, inner: 48 }, ChannelLayout { channels: 12, inner: 4 });
    let q = |layout, zero| {
        quantize_weights_with_zero("w", &weights, layout, Grid::S8_WEIGHTS, (WeightMethod::MinMax, zero)).unwrap()
    };
    // One scale: codes -60 to 140 want a zero point.
    let free = q(one, WeightZero::Auto);
    assert!(free.zero_point != 0 && free.squared_error(&weights) < 1e-10, "{free:?}");
    assert!(q(one, WeightZero::Middle).squared_error(&weights) > 1e-3);
    // A scale per channel: those within 127 steps take the step.
    let per_channel = q(rows, WeightZero::Auto);
    assert_eq!(per_channel.zero_point, 0);
    for (c, channel) in weights.chunks(4).enumerate() {
        let exact = channel.iter().all(|w| w.abs() <= 127.0 * 0.05);
        assert_eq!((per_channel.scales[c] - 0.05).abs() < 1e-6, exact, "{c}");
    }
}

#[test]
fn a_zero_point_is_free_only_where_it_pays() {
    let one = ChannelLayout { channels: 1, inner: 100 };
    let zero_of = |weights: &[f32]| {
        let how = (WeightMethod::Mse, WeightZero::Auto);
        quantize_weights_with_zero("w", weights, one, Grid::S8_WEIGHTS, how).unwrap().zero_point
    };
    let even: Vec<f32> = (0..100).map(|i| (i as f32 - 49.5) * (1.0 + i as f32 * 1e-4)).collect();
    let one_sided: Vec<f32> = (0..100).map(|i| (i as f32).sqrt()).collect();
    assert_eq!(zero_of(&even), 0);
    assert_eq!(zero_of(&one_sided), -127);
}

#[test]
fn four_bits_profit_most_from_the_smallest_error() {
    let one = ChannelLayout { channels: 1, inner: 1000 };
    let weights: Vec<f32> = (0..1000).map(|i| libm::tanf((i as f32 - 499.5) / 330.0)).collect();
    let error =
        |method| quantize_weights("w", &weights, one, Grid::S4_WEIGHTS, method).unwrap().squared_error(&weights);
    let (mse, extremes) = (error(WeightMethod::Mse), error(WeightMethod::MinMax));
    assert!(mse < 0.8 * extremes, "{mse} {extremes}");
}

proptest! {
    #[test]
    fn mse_is_never_worse_than_min_max_and_equals_brute_force(weights in prop::collection::vec(-1.0f32..1.0, 1..60)) {
        let one = ChannelLayout { channels: 1, inner: weights.len() };
        let error = |q: &QuantizedWeights| -> f64 {
            weights.iter().enumerate().map(|(i, &w)| (f64::from(w) - q.dequantized(i)).powi(2)).sum()
        };
        let mse = quantize_weights("w", &weights, one, Grid::S8_WEIGHTS, WeightMethod::Mse).unwrap();
        let reach = max_abs(&weights);
        let best = (20..=100)
            .map(|p| ((f64::from(p) / 100.0 * reach / 127.0) as f32).max(f32::MIN_POSITIVE))
            .map(|s| error(&with_scales(&weights, one, Grid::S8_WEIGHTS, vec![s], 0)))
            .fold(f64::INFINITY, f64::min);
        prop_assert!(error(&mse) <= best * 1.001 + 1e-12);
        prop_assert!(error(&mse) <= error(&minmax(&weights, one)) * 1.001 + 1e-12);
    }
}
