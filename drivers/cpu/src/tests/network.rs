//! Whole small networks: mixed layouts, residuals, several outputs, and many inferences at once.

use crate::device::CpuDevice;
use crate::testing::{Net, Rng, check, data, op, own_op, reference, run};
use ottava_hal::host::HostProgram;
use ottava_hal::{Attr, DataType, Program, QuantParams, Tensor, TensorType, ValueId};
use ottava_kernels::Isa;

fn conv(net: &mut Net, rng: &mut Rng, x: ValueId, c_out: usize, kernel: usize, groups: usize) -> ValueId {
    let c_in = net.ty(x).shape.known().unwrap()[1];
    let scales = (0..c_out).map(|_| rng.real(0.002, 0.01)).collect();
    let w = TensorType::fixed(DataType::S8, &[c_out, c_in / groups, kernel, kernel])
        .quantized(QuantParams::per_axis_symmetric(0, scales));
    let w = net.random(w, rng);
    let b = net.random(TensorType::fixed(DataType::S32, &[c_out]), rng);
    let mut node = op("Conv");
    node.attrs.set("pads", Attr::Ints(vec![kernel as i64 / 2; 4]));
    node.attrs.set("group", Attr::Int(groups as i64));
    net.node(node, &[x, w, b], &rng.byte_type(&[]))
}

/// Stem, depthwise, residual, concat, pool, classifier; s8 and u8 as they come.
pub(crate) fn network(rng: &mut Rng) -> Program {
    let mut net = Net::default();
    let image = net.input(TensorType::fixed(DataType::F32, &[1, 3, 12, 12]));
    let x = net.node(own_op("Quantize"), &[image], &rng.byte_type(&[]));
    let a = conv(&mut net, rng, x, 16, 3, 1);
    let b = conv(&mut net, rng, a, 16, 3, 16);
    let c = conv(&mut net, rng, b, 16, 1, 1);
    let sum = net.node(op("Add"), &[a, c], &rng.byte_type(&[]));
    let mut node = op("Concat");
    node.attrs.set("axis", Attr::Int(1));
    let wide = net.node(node, &[sum, b], &rng.byte_type(&[]));
    let mut node = op("Transpose");
    node.attrs.set("perm", Attr::Ints(vec![0, 2, 3, 1]));
    let last = net.ty(wide);
    let channels_last = net.node(node, &[wide], &last);
    net.program.outputs.push(channels_last);
    let mean = net.node(op("GlobalAveragePool"), &[wide], &rng.byte_type(&[]));
    let like = net.ty(mean);
    let flat = net.node(op("Flatten"), &[mean], &like);
    let w = TensorType::fixed(DataType::S8, &[32, 10]).quantized(QuantParams::per_tensor(0.01, 0));
    let w = net.random(w, rng);
    let logits = net.node(op("MatMul"), &[flat, w], &TensorType::fixed(DataType::F32, &[]));
    net.program.outputs.push(sum);
    net.program.outputs.push(image);
    let y = net.node(op("Softmax"), &[logits], &TensorType::fixed(DataType::F32, &[]));
    net.output(y)
}

#[test]
fn networks_equal_the_reference() {
    let mut rng = Rng::new(41);
    for _ in 0..12 {
        let program = network(&mut rng);
        program.check().unwrap();
        check(&program, &mut rng);
    }
}

#[test]
fn the_arena_is_smaller_than_all_values_together() {
    let mut rng = Rng::new(42);
    let mut net = Net::default();
    let mut x = net.input(rng.byte_type(&[1, 16, 20, 20]));
    for _ in 0..8 {
        x = conv(&mut net, &mut rng, x, 16, 1, 1);
    }
    let device = CpuDevice::new(Isa::detect(), 1).unwrap();
    let compiled = device.program(&net.output(x)).unwrap();
    assert!(compiled.arena_bytes() < 4 * 16 * 400, "{}", compiled.arena_bytes());
}

#[test]
fn inferences_may_overlap() {
    let mut rng = Rng::new(43);
    let program = network(&mut rng);
    let device = CpuDevice::new(Isa::detect(), 2).unwrap();
    let compiled = device.program(&program).unwrap();
    let jobs: Vec<(Vec<Tensor>, Vec<Tensor>)> = (0..4)
        .map(|_| {
            let inputs = data(&program, &mut rng);
            let expect = reference(&program, &inputs);
            (inputs, expect)
        })
        .collect();
    std::thread::scope(|s| {
        for (inputs, expect) in &jobs {
            let compiled = &compiled;
            s.spawn(move || {
                for _ in 0..5 {
                    let ins: Vec<&[u8]> = inputs.iter().map(Tensor::bytes).collect();
                    let mut outs: Vec<Tensor> =
                        expect.iter().map(|t| Tensor::zeros(t.dtype(), t.shape()).unwrap()).collect();
                    let mut views: Vec<&mut [u8]> = outs.iter_mut().map(Tensor::bytes_mut).collect();
                    compiled.run(&ins, &mut views, None).unwrap();
                    assert_eq!(outs, *expect);
                }
            });
        }
    });
}

#[test]
fn results_do_not_depend_on_the_batch() {
    let mut rng = Rng::new(44);
    let build = |batch: usize| {
        let mut rng = Rng::new(45);
        let mut net = Net::default();
        let x = net.input(TensorType::fixed(DataType::F32, &[batch, 3, 9, 9]));
        let w = net.random(TensorType::fixed(DataType::F32, &[20, 3, 3, 3]), &mut rng);
        let y = net.node(op("Conv"), &[x, w], &TensorType::fixed(DataType::F32, &[]));
        net.output(y)
    };
    let device = CpuDevice::new(Isa::detect(), 2).unwrap();
    let inputs = data(&build(5), &mut rng);
    let whole = run(&device, &build(5), &inputs);
    for i in 0..5 {
        let image = 3 * 81 * 4;
        let one = Tensor::from_bytes(DataType::F32, &[1, 3, 9, 9], &inputs[0].bytes()[i * image..][..image]).unwrap();
        let part = run(&device, &build(1), &[one]);
        let n = part[0].bytes().len();
        assert_eq!(part[0].bytes(), &whole[0].bytes()[i * n..][..n]);
    }
}
