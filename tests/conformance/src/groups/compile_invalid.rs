//! E.6: programs that are none.

use super::Group;
use super::honest::samples;
use crate::kit::{Net, Rng, Work, basis};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{
    Attr, CompileOptions, DataType, Device, Program, QuantParams, Scheme, Shape, Status, Tensor, TensorType, ValueId,
};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "E.6",
    name: "compile.invalid",
    about: "broken programs are INVALID_ARGUMENT, never a crash, and the device is as good as before",
    cases: |_| {
        vec![
            Case::new("E.6", "compile.invalid.structure", structure),
            Case::new("E.6", "compile.invalid.quantization", quantization),
            Case::new("E.6", "compile.invalid.constants", constants),
            Case::new("E.6", "compile.invalid.random", random),
        ]
    },
};

/// A name and what makes a program invalid.
type Break = (&'static str, fn(&mut Program));

fn each(subject: &Subject, breaks: &[Break]) -> Check {
    let device = subject.open()?;
    let ty = basis(&*device, 24)?;
    let mut net = Net::new(&ty);
    let (x, y) = (net.input(), net.input());
    let c = net.constant(Tensor::zeros(ty.dtype, &ty.shape.known().unwrap_or_default())?);
    let a = net.add(x, y);
    let b = net.add(a, c);
    let good = net.finish(&[b]);
    for (what, change) in breaks {
        let mut bad = good.clone();
        change(&mut bad);
        let compiled = device.compile(&bad, &CompileOptions::default());
        refused(&format!("a program with {what}"), compiled, Status::InvalidArgument)?;
    }
    Work::new(&*device, good, subject.seed)?.run(&*device)
}

fn structure(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("an input index out of range", |p| p.inputs[0] = ValueId(1000)),
            ("an output index out of range", |p| p.outputs[0] = ValueId(usize::MAX)),
            ("a node that reads a value out of range", |p| p.nodes[0].inputs[0] = Some(ValueId(77))),
            ("a node that writes a value out of range", |p| p.nodes[0].outputs[0] = ValueId(77)),
            ("a cycle", |p| p.nodes[0].inputs[0] = Some(p.nodes[1].outputs[0])),
            ("a node that reads itself", |p| p.nodes[0].inputs[0] = Some(p.nodes[0].outputs[0])),
            ("nodes in the wrong order", |p| p.nodes.swap(0, 1)),
            ("a value that is written twice", |p| p.nodes[1].outputs[0] = p.nodes[0].outputs[0]),
            ("a node that writes an input", |p| p.nodes[0].outputs[0] = p.inputs[0]),
            ("an input that is listed twice", |p| p.inputs.push(p.inputs[0])),
            ("an output that nobody computes", |p| drop(p.nodes.pop())),
        ],
    )
}

/// Replaces the quantization of the first value.
fn requantize(program: &mut Program, quant: QuantParams) {
    program.values[0].ty = TensorType::fixed(DataType::S8, &[1, 24]).quantized(quant);
}

fn quantization(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("a scale of 0", |p| requantize(p, QuantParams::per_tensor(0.0, 0))),
            ("a scale that is no number", |p| requantize(p, QuantParams::per_tensor(f32::NAN, 0))),
            ("a scale below 0", |p| requantize(p, QuantParams::per_tensor(-1.0, 0))),
            ("an endless scale", |p| requantize(p, QuantParams::per_tensor(f32::INFINITY, 0))),
            ("a zero point out of range", |p| requantize(p, QuantParams::per_tensor(1.0, 1000))),
            ("no scales", |p| requantize(p, QuantParams { scales: vec![], ..QuantParams::per_tensor(1.0, 0) })),
            ("an axis out of range", |p| requantize(p, QuantParams::per_axis_symmetric(9, vec![1.0; 24]))),
            ("too few scales for its axis", |p| requantize(p, QuantParams::per_axis_symmetric(1, vec![1.0; 23]))),
            ("blocks of 0", |p| {
                let scheme = Scheme::Blocked { axis: 1, block: 0 };
                requantize(p, QuantParams { scheme, ..QuantParams::per_tensor(1.0, 0) });
            }),
            ("quantized floats", |p| {
                p.values[0].ty = TensorType::fixed(DataType::F32, &[1, 24]);
                p.values[0].ty.quant = Some(Arc::new(QuantParams::per_tensor(1.0, 0)));
            }),
        ],
    )
}

fn constants(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("a constant of another shape", |p| p.values[2].ty.shape = Shape::fixed(&[1, 25])),
            ("a constant of another type", |p| p.values[2].ty = TensorType::fixed(DataType::F64, &[1, 24])),
            ("a constant without data", |p| p.values[2].constant = None),
            ("a constant that is an input", |p| p.inputs.push(ValueId(2))),
        ],
    )
}

/// Random changes of the operators' own cases. Some are still valid; none may crash.
fn random(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (mut rng, samples) = (Rng::new(subject.seed), samples());
    let n = if subject.stress { 20_000 } else { 1500 };
    for i in 0..n {
        let sample = &samples[rng.below(samples.len())];
        let mut program = sample.program.clone();
        for _ in 0..1 + rng.below(3) {
            mutate(&mut program, &mut rng);
        }
        compiles_or_not(&*device, &program).map_err(|e| match e {
            Stop::Failed(why) => Stop::Failed(format!("change {i} of {}: {why}", sample.name)),
            other => other,
        })?;
    }
    match Work::small(&*device, subject.seed) {
        Ok(work) => work.run(&*device),
        Err(Stop::Unsupported(_)) => Ok(()),
        Err(other) => Err(other),
    }
}

fn compiles_or_not(device: &dyn Device, program: &Program) -> Check {
    let Err(e) = device.compile(program, &CompileOptions::default()) else { return Ok(()) };
    let fine = [Status::InvalidArgument, Status::Unsupported, Status::OutOfDeviceMemory, Status::OutOfHostMemory];
    ensure!(fine.contains(&e.status()), "compile gives {:?}: {e}", e.status());
    ensure!(!e.to_string().trim().is_empty(), "compile refuses without words");
    Ok(())
}

fn mutate(program: &mut Program, rng: &mut Rng) {
    let n = program.values.len().max(1);
    let any = |rng: &mut Rng| ValueId(if rng.below(4) == 0 { n + rng.below(3) } else { rng.below(n) });
    let Some(node) = program.nodes.first_mut() else { return };
    match rng.below(9) {
        0 if !node.inputs.is_empty() => {
            let i = rng.below(node.inputs.len());
            node.inputs[i] = if rng.below(2) == 0 { None } else { Some(any(rng)) };
        }
        1 => drop(node.inputs.pop()),
        2 => node.inputs.push(Some(any(rng))),
        3 => drop((node.outputs.pop(), program.outputs.pop())),
        4 => node.attrs = change_attrs(node.attrs.clone(), rng),
        5 => {
            let v = rng.below(n);
            let mut dims = program.values[v].ty.shape.known().unwrap_or_default();
            match rng.below(3) {
                0 => drop(dims.pop()),
                1 => dims.push(1 + rng.below(3)),
                _ => dims.iter_mut().for_each(|d| *d = rng.below(4)),
            }
            program.values[v].ty.shape = Shape::fixed(&dims);
        }
        6 => {
            let all = [DataType::S8, DataType::U8, DataType::S32, DataType::F32, DataType::S64, DataType::Bool];
            program.values[rng.below(n)].ty.dtype = all[rng.below(all.len())];
        }
        7 => program.values[rng.below(n)].ty.quant = None,
        _ => program.values[rng.below(n)].constant = None,
    }
}

fn change_attrs(mut attrs: ottava_hal::Attrs, rng: &mut Rng) -> ottava_hal::Attrs {
    let names: Vec<String> = attrs.0.keys().cloned().collect();
    let Some(name) = names.get(rng.below(names.len().max(1))) else { return attrs };
    let odd = [i64::MIN, -1, 0, 1, 3, 1 << 20, i64::MAX][rng.below(7)];
    match rng.below(4) {
        0 => drop(attrs.0.remove(name)),
        1 => attrs.set(name.clone(), Attr::Int(odd)),
        2 => attrs.set(name.clone(), Attr::Ints(vec![odd; rng.below(4)])),
        _ => attrs.set(name.clone(), Attr::Str("?".into())),
    }
    attrs
}
