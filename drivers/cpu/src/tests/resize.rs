//! Resize against the reference: both modes, every way to compute coordinates and to round them, sizes and scales.

use crate::device::CpuDevice;
use crate::testing::{Net, Rng, check, op};
use ottava_hal::{Attr, DataType, Device, Node, Tensor, TensorType, ValueId};
use ottava_kernels::Isa;

const TRANSFORMS: [&str; 5] =
    ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"];
const ROUNDINGS: [&str; 4] = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];

fn resize(mode: &str, transform: &str, rounding: &str) -> Node {
    let mut node = op("Resize");
    node.attrs.set("mode", Attr::Str(mode.into()));
    node.attrs.set("coordinate_transformation_mode", Attr::Str(transform.into()));
    node.attrs.set("nearest_mode", Attr::Str(rounding.into()));
    node
}

/// Adds a node after `x` whose inputs are, in the operator's order, no region and either scales or sizes.
fn node(net: &mut Net, node: Node, x: ValueId, scales: &[f32], sizes: &[i64], y: &TensorType) -> ValueId {
    let floats = |net: &mut Net, v: &[f32]| {
        net.constant(TensorType::fixed(DataType::F32, &[v.len()]), Tensor::from_slice(&[v.len()], v).unwrap())
    };
    let (roi, scales, sizes) = (floats(net, &[]), floats(net, scales), net.ints(sizes));
    net.node(node, &[x, roi, scales, sizes], y)
}

/// Extents, and the scales or sizes to which they are resized; the batch stays.
fn shapes(rng: &mut Rng, rank: usize) -> (Vec<usize>, Vec<f32>, Vec<i64>) {
    let mut dims = vec![rng.range(1, 2) as usize, rng.pick(&[1, 3, 8, 33])];
    dims.extend((2..rank).map(|_| rng.range(1, 9) as usize));
    dims.truncate(rank);
    let keeps = |i: usize| i < 2 && rank > 2;
    if rng.range(0, 1) == 0 {
        let scales = (0..rank).map(|i| if keeps(i) { 1.0 } else { rng.pick(&[1.0, 2.0, 1.5, 3.3, 2.7]) });
        return (dims.clone(), scales.collect(), vec![]);
    }
    let sizes = dims.iter().enumerate().map(|(i, d)| if keeps(i) { *d as i64 } else { rng.range(1, 17) });
    (dims.clone(), vec![], sizes.collect())
}

#[test]
fn both_modes_equal_the_reference() {
    let mut rng = Rng::new(91);
    for case in 0..120 {
        let nearest = case % 2 == 0;
        let mode = if nearest { "nearest" } else { "linear" };
        let n = resize(mode, TRANSFORMS[case / 2 % 5], ROUNDINGS[case / 10 % 4]);
        let (dims, scales, sizes) = shapes(&mut rng, [4, 3, 4, 2][case / 2 % 4]);
        let (typed, float) = (rng.byte_type(&dims), TensorType::fixed(DataType::F32, &dims));
        let y = if nearest { typed.clone() } else { rng.byte_type(&[]) };
        for (x, y) in [(typed, y), (float.clone(), float)] {
            let mut net = Net::default();
            let x = net.input(x);
            let y = node(&mut net, n.clone(), x, &scales, &sizes, &y);
            check(&net.output(y), &mut rng);
        }
    }
}

#[test]
fn named_axes_channels_and_shrinking_equal_the_reference() {
    let mut rng = Rng::new(92);
    for mode in ["nearest", "linear"] {
        for (axes, scales) in [(&[3i64, 2][..], &[0.5f32, 0.7][..]), (&[1], &[1.5]), (&[-1, 1, 0], &[2.0, 0.6, 1.5])] {
            let mut n = resize(mode, "half_pixel", "floor");
            n.attrs.set("axes", Attr::Ints(axes.to_vec()));
            let typed = rng.byte_type(&[2, 5, 6, 7]);
            for x in [typed, TensorType::fixed(DataType::F32, &[2, 5, 6, 7])] {
                let mut net = Net::default();
                let id = net.input(x.clone());
                let y = node(&mut net, n.clone(), id, scales, &[], &x);
                check(&net.output(y), &mut rng);
            }
        }
    }
}

#[test]
fn large_images_on_several_threads_equal_the_reference() {
    let mut rng = Rng::new(93);
    for mode in ["nearest", "linear"] {
        let typed = rng.byte_type(&[1, 48, 20, 20]);
        for x in [typed, TensorType::fixed(DataType::F32, &[1, 48, 20, 20])] {
            let mut net = Net::default();
            let id = net.input(x.clone());
            let y = node(&mut net, resize(mode, "asymmetric", "floor"), id, &[1.0, 1.0, 2.0, 2.0], &[], &x);
            check(&net.output(y), &mut rng);
        }
    }
}

#[test]
fn what_the_kernels_do_not_define_stays_elsewhere() {
    let device = CpuDevice::new(Isa::detect(), 1).unwrap();
    let x = TensorType::fixed(DataType::F32, &[1, 2, 4, 4]);
    let refused = |n: Node| {
        let mut net = Net::default();
        let id = net.input(x.clone());
        let y = node(&mut net, n, id, &[1.0, 1.0, 2.0, 2.0], &[], &x);
        !device.assess(&net.output(y)).unwrap()[0].is_supported()
    };
    assert!(!refused(resize("linear", "half_pixel", "floor")));
    assert!(refused(resize("cubic", "half_pixel", "floor")));
    let mut node = resize("linear", "half_pixel", "floor");
    node.attrs.set("antialias", Attr::Int(1));
    assert!(refused(node));
}
