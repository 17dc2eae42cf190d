//! Devices with known defects: the cause is named, and the arithmetic of the first element is shown.

use super::*;
use ottava_hal::{Attr, DataType, Node, Program, QuantParams, RequantMode, TensorType, Value, ValueId};
use ottava_reference::Interpreter;

/// A quantized convolution of 2 batches, 2 to 4 channels, 5 x 5, padded, with a bias and a scale per channel.
fn conv() -> (Program, Vec<Tensor>) {
    let ints = |dtype, shape: &[usize], f: &dyn Fn(i64) -> i64| {
        let n: usize = shape.iter().product();
        Tensor::from_ints(dtype, shape, &(0..n as i64).map(f).collect::<Vec<_>>()).unwrap()
    };
    let x = ints(DataType::U8, &[2, 2, 5, 5], &|i| (i * 37 + 11) % 256);
    let w = ints(DataType::S8, &[4, 2, 3, 3], &|i| (i * 29 + 5) % 256 - 128);
    let b = ints(DataType::S32, &[4], &|i| i * 900 - 1000);
    let value = |name: &str, t: &Tensor, quant: Option<QuantParams>, constant| {
        let ty = TensorType::fixed(t.dtype(), t.shape());
        let ty = quant.map_or(ty.clone(), |q| ty.quantized(q));
        Value { name: name.into(), ty, constant: Some(t.clone()).filter(|_| constant) }
    };
    let scales = vec![0.02, 0.03, 0.011, 0.05];
    let y = TensorType::fixed(DataType::U8, &[2, 4, 5, 5]).quantized(QuantParams::per_tensor(1.5, 120));
    let values = vec![
        value("x", &x, Some(QuantParams::per_tensor(0.5, 100)), false),
        value("w", &w, Some(QuantParams::per_axis_symmetric(0, scales)), true),
        value("b", &b, None, true),
        Value { name: "y".into(), ty: y, constant: None },
    ];
    let mut node = Node::new("conv", "Conv", 11);
    node.inputs = (0..3).map(|i| Some(ValueId(i))).collect();
    node.outputs = vec![ValueId(3)];
    node.attrs.set("pads", Attr::Ints(vec![1, 1, 1, 1]));
    node.requant = Some(RequantMode::Fp32Rne);
    let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(3)]);
    (Program { name: "p".into(), values, nodes: vec![node], inputs, outputs }, vec![x])
}

fn run(program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    Interpreter::new(program).unwrap().run(inputs).unwrap()
}

/// A repro of a device that gives what `wrong` makes of the right outputs.
fn repro(wrong: impl Fn(&Program, &[Tensor], &mut Vec<Tensor>)) -> Repro {
    let (program, inputs) = conv();
    let expected = run(&program, &inputs);
    let mut actual = expected.clone();
    wrong(&program, &inputs, &mut actual);
    Repro { program, inputs, expected, actual }
}

#[track_caller]
fn names(repro: &Repro, words: &str) {
    let found = diagnose(repro);
    assert!(found.cause().is_some_and(|cause| cause.contains(words)), "`{words}`: {found:#?}");
    assert!(found.tested > 15, "{}", found.tested);
}

#[test]
fn the_arithmetic_of_the_first_element_is_shown() {
    let found = diagnose(&repro(|_, _, y| y[0].bytes_mut()[7] ^= 1));
    let first = found.first.unwrap();
    assert_eq!(
        (first.at.as_slice(), found.differing, found.total, found.largest),
        (&[0, 0, 1, 2][..], 1, 200, Some(1))
    );
    let names: Vec<&str> = first.steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["channel", "accumulator", "requantization", "multiplier", "before rounding", "zero point", "bounds"]
    );
    assert_eq!(first.steps[2].1, "fp32_rne");
    let step = |i: usize| first.steps[i].1.parse::<f64>().unwrap();
    let value = (step(4).round_ties_even() + step(5)).clamp(0.0, 255.0);
    assert_eq!(value.to_string(), first.expected);
}

#[test]
fn padding_with_zero_bytes_and_on_one_side_is_named() {
    let (program, _) = conv();
    // The same as a zero point of 0 in the padding alone: pad by hand.
    let wrong = |p: &Program, x: &[Tensor], y: &mut Vec<Tensor>| {
        let mut ints = vec![0i64; 2 * 2 * 7 * 7];
        for (i, v) in x[0].to_ints().unwrap().into_iter().enumerate() {
            ints[i / 25 * 49 + (i / 5 % 5 + 1) * 7 + i % 5 + 1] = v;
        }
        let mut p = p.clone();
        p.values[0].ty.shape = ottava_hal::Shape::fixed(&[2, 2, 7, 7]);
        p.nodes[0].attrs.set("pads", Attr::Ints(vec![0; 4]));
        *y = run(&p, &[Tensor::from_ints(DataType::U8, &[2, 2, 7, 7], &ints).unwrap()]);
    };
    names(&repro(wrong), "padding is zero bytes");
    assert_eq!(program.nodes.len(), 1);
    names(
        &repro(|p, x, y| {
            let mut p = p.clone();
            p.nodes[0].attrs.set("pads", Attr::Ints(vec![0, 0, 2, 2]));
            *y = run(&p, x);
        }),
        "at the back",
    );
}

#[test]
fn scales_modes_and_zero_points_are_named() {
    names(
        &repro(|p, x, y| {
            let mut p = p.clone();
            let scales = vec![0.03, 0.011, 0.05, 0.02];
            p.values[1].ty.quant = Some(std::sync::Arc::new(QuantParams::per_axis_symmetric(0, scales)));
            *y = run(&p, x);
        }),
        "that of the next channel",
    );
    names(
        &repro(|p, x, y| {
            let mut p = p.clone();
            p.values[0].ty.quant = Some(std::sync::Arc::new(QuantParams::per_tensor(0.5, 0)));
            *y = run(&p, x);
        }),
        "zero point of the input is ignored",
    );
    names(
        &repro(|p, x, y| {
            let mut p = p.clone();
            p.nodes[0].inputs.truncate(2);
            *y = run(&p, x);
        }),
        "bias is not added",
    );
}

#[test]
fn rounding_and_saturation_are_named() {
    let with = |rule: fn(f64) -> i64| {
        repro(move |_, _, y| {
            let (program, inputs) = conv();
            let right = Repro { expected: y.clone(), actual: y.clone(), program, inputs };
            let sums = Sums::of(&right).expect("the accumulators are found");
            let scaled = |acc: i64, c: usize| f64::from(acc as f32 * sums.real(c) as f32);
            y[0] = sums.map(|acc, c| rule(scaled(acc, c))).unwrap();
        })
    };
    names(&with(|t| (t.floor() as i64 + 120).clamp(0, 255)), "always rounded down");
    names(&with(|t| (t.trunc() as i64 + 120).clamp(0, 255)), "cut off");
    names(&with(|t| (t.round_ties_even() as i64 + 120).rem_euclid(256)), "the value wraps");
    names(&with(|t| (t.round_ties_even() as i64).clamp(0, 255)), "zero point of the output is not added");
}

#[test]
fn what_is_not_written_or_elsewhere_is_named() {
    names(
        &repro(|_, _, y| {
            let bytes = y[0].bytes_mut();
            let (first, last) = (bytes[0], bytes.len() - 1);
            bytes[last] = first ^ 0x55;
        }),
        "the last 1 elements are not written",
    );
    names(
        &repro(|_, _, y| {
            let bytes = y[0].bytes_mut();
            let (first, second) = bytes.split_at_mut(100);
            second.copy_from_slice(first);
        }),
        "batch element 0",
    );
    names(&repro(|_, _, y| y[0].bytes_mut().iter_mut().for_each(|b| *b ^= 0x80)), "other signedness");
}

#[test]
fn what_is_just_noise_has_no_cause() {
    let found =
        diagnose(&repro(|_, _, y| y[0].bytes_mut().iter_mut().step_by(3).for_each(|b| *b = b.wrapping_mul(91))));
    assert_eq!(found.cause(), None, "{found:#?}");
    let mut empty = repro(|_, _, _| {});
    assert_eq!(diagnose(&empty), Diagnosis { total: 200, largest: Some(0), ..Diagnosis::default() });
    empty.actual.clear();
    assert_eq!((diagnose(&empty).differing, diagnose(&empty).first), (200, None));
}

/// An addition of s8 tensors, computed in f32.
fn add() -> (Program, Vec<Tensor>) {
    let x: Vec<i64> = (0..64).map(|i| (i * 41 + 3) % 256 - 128).collect();
    let x = Tensor::from_ints(DataType::S8, &[1, 64], &x).unwrap();
    let value = |name: &str, scale, zp| {
        let ty = TensorType::fixed(DataType::S8, &[1, 64]).quantized(QuantParams::per_tensor(scale, zp));
        Value { name: name.into(), ty, constant: None }
    };
    let mut node = Node::new("add", "Add", 14);
    (node.inputs, node.outputs) = (vec![Some(ValueId(0)), Some(ValueId(1))], vec![ValueId(2)]);
    let values = vec![value("a", 0.3, 4), value("b", 0.17, -9), value("y", 0.41, 5)];
    let (inputs, outputs) = (vec![ValueId(0), ValueId(1)], vec![ValueId(2)]);
    (Program { name: "p".into(), values, nodes: vec![node], inputs, outputs }, vec![x.clone(), x])
}

#[test]
fn what_is_computed_in_f32_is_looked_into_too() {
    let (program, inputs) = add();
    let expected = run(&program, &inputs);
    let mut real = program.clone();
    real.values[2].ty = TensorType::fixed(DataType::F32, &[1, 64]);
    let sums = run(&real, &inputs)[0].to_f32s().unwrap();
    let with = |rule: fn(f32) -> i64| {
        let values: Vec<i64> = sums.iter().map(|x| rule(x / 0.41)).collect();
        let actual = vec![Tensor::from_ints(DataType::S8, &[1, 64], &values).unwrap()];
        Repro { program: program.clone(), inputs: inputs.clone(), expected: expected.clone(), actual }
    };
    names(&with(|t| (t.floor() as i64 + 5).clamp(-128, 127)), "always rounded down");
    names(&with(|t| (t.round_ties_even() as i64).clamp(-128, 127)), "zero point of the output is not added");
    names(&with(|t| (t.round_ties_even() as i64 + 5 + 128).rem_euclid(256) - 128), "the value wraps");
    let steps = diagnose(&with(|t| (t.floor() as i64 + 5).clamp(-128, 127))).first.unwrap().steps;
    assert_eq!((steps[0].0.as_str(), steps[3].1.as_str()), ("real result", "5"));
}

#[test]
fn equal_results_pass_and_others_fail_with_the_first_element() {
    assert_eq!(repro(|_, _, _| {}).equal(), Ok(()));
    let crate::Stop::Differs(words, attached) = repro(|_, _, y| y[0].bytes_mut()[7] ^= 3).equal().unwrap_err() else {
        panic!("another failure");
    };
    assert!(words.starts_with("output `y` at [0, 0, 1, 2]: expected "), "{words}");
    assert!(words.ends_with("1 of 200 elements differ, by 3 at most") || words.ends_with("by 1 at most"), "{words}");
    assert_eq!(attached.actual.len(), 1);
    let nothing = Repro { actual: Vec::new(), ..*attached };
    assert!(matches!(nothing.equal(), Err(crate::Stop::Differs(words, _)) if words.contains("0 were found")));
}
