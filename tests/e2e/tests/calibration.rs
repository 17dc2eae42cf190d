//! Calibration is a function of the multiset of samples: shuffled, in other batches, in merged shards, the bytes are the
//! same.

use ottava::{Affine, CalibrateOptions, Calibration, Data, Model, Shard, Tensor, calibrate};
use ottava_e2e::assets::{Network, models_or_skip, registry};
use ottava_e2e::rng::Rng;
use std::collections::BTreeMap;

fn options(affine: Affine, batch: usize, shard: Option<Shard>) -> CalibrateOptions {
    let mut options = CalibrateOptions { affine: Some(affine), shard, ..CalibrateOptions::default() };
    options.session.batch = batch;
    options
}

fn collect(model: &Model, data: &Data, options: &CalibrateOptions) -> Calibration {
    calibrate(model, data, &registry(), options, &mut |_, _| {}).expect("calibrates")
}

/// The first `n` rows of `x`, in another order.
fn shuffled(data: &Data, n: usize, seed: u64) -> Data {
    let x = &data.arrays["x"];
    let row = x.bytes().len() / x.shape()[0];
    let mut order: Vec<usize> = (0..n).collect();
    let mut rng = Rng::new(seed);
    for i in (1..n).rev() {
        order.swap(i, rng.below(i + 1));
    }
    let bytes: Vec<u8> = order.iter().flat_map(|i| x.bytes()[i * row..][..row].iter().copied()).collect();
    let mut shape = x.shape().to_vec();
    shape[0] = n;
    let rows = Tensor::from_bytes(x.dtype(), &shape, &bytes).expect("rows");
    Data::from_arrays("shuffled", BTreeMap::from([("x".to_owned(), rows)]))
}

#[test]
fn order_batches_and_shards_do_not_matter() {
    let Some(models) = models_or_skip("order_batches_and_shards_do_not_matter") else { return };
    for name in ["resnet8", "kws", "ad01"] {
        let loaded = Network::named(name).load(&models);
        let n = 60.min(loaded.calibration.arrays["x"].shape()[0]);
        let data = shuffled(&loaded.calibration, n, 1);
        let expected = collect(&loaded.model, &data, &options(loaded.affine, 1, None)).to_bytes();
        let again = collect(&loaded.model, &shuffled(&data, n, 2), &options(loaded.affine, 1, None)).to_bytes();
        assert!(expected == again, "{name}: another order gives other bytes");
        if loaded.model.fixed_batch().is_none() {
            for batch in [4, 7, 32] {
                let batched = collect(&loaded.model, &data, &options(loaded.affine, batch, None)).to_bytes();
                assert!(expected == batched, "{name}: batch {batch} gives other bytes");
            }
        }
        for count in [1, 3, 7] {
            let shards = (0..count).map(|index| {
                let shard = Some(Shard { index, count });
                collect(&loaded.model, &data, &options(loaded.affine, 1, shard))
            });
            let merged = shards.reduce(|mut a, b| {
                a.merge(&b).expect("merges");
                a
            });
            assert!(expected == merged.expect("a shard").to_bytes(), "{name}: {count} shards give other bytes");
        }
        println!("{name}: {} bytes, equal for every order, batch and number of shards", expected.len());
    }
}
