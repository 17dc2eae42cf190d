//! G.8: the same bytes in each run, in each part of a batch, and on each queue.

use super::build::Sample;
use super::check::{accepted, compare};
use super::draw::Draw;
use super::forms::{ConvPlan, Form, conv};
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject, ensure, execute};
use ottava_hal::{
    Binding, BufferDesc, CompileOptions, DataType, Device, Fence, Program, RequantMode, Shape, Submission, Tensor,
};
use ottava_reference::Interpreter;
use std::sync::Arc;
use std::time::Duration;

pub(in super::super) const GROUP: Group = Group {
    id: "G.8",
    name: "num.determinism",
    about: "results depend neither on earlier runs, nor on the rest of the batch, nor on other queues",
    cases: |_| {
        vec![
            Case::new("G.8", "num.determinism.runs", runs),
            Case::new("G.8", "num.determinism.batch", batch),
            Case::new("G.8", "num.determinism.queues", queues),
        ]
    },
};

const LONGEST: Duration = Duration::from_secs(20);

/// Convolutions of a batch of three, with real and with integer results.
fn samples(subject: &Subject, device: &dyn Device) -> Result<Vec<Sample>, Stop> {
    let mut kept = Vec::new();
    for dtype in [DataType::S8, DataType::U8, DataType::F32] {
        let mode = (!dtype.is_float()).then_some(RequantMode::Fp32Rne);
        let form = Form { domain: "", op: "Conv", dtype, per_axis: !dtype.is_float(), mode };
        let axes = vec![[9, 3, 1, 1, 1, 1], [7, 3, 1, 1, 1, 0]];
        let plan = ConvPlan { batch: 3, groups: 1, channels: (5, 17), axes };
        for step in [0, 2, 6] {
            let drawn = conv(&form, &mut Draw::new(subject.seed ^ 0xd0, step, &[]), &plan);
            if let Some(sample) = drawn.filter(|s| accepted(device, &s.program).is_ok_and(|a| a.is_some())) {
                kept.push(sample);
            }
        }
    }
    if kept.is_empty() {
        Err(Stop::Unsupported("the device accepts no convolution of this case".into()))
    } else {
        Ok(kept)
    }
}

/// One executable, run often with data that changes in between.
fn runs(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in samples(subject, &*device)? {
        let turned = turned(&sample)?;
        let exe = device.compile(&sample.program, &CompileOptions::default())?;
        for round in 0..4 {
            for (which, s) in [&sample, &turned].into_iter().enumerate() {
                let run = Run::start(&*device, exe.clone(), s)?;
                compare(s, run.finish(s)?, true, &format!("run {}", 2 * round + which))?;
            }
        }
    }
    Ok(())
}

/// The same program on other data: each input backwards.
fn turned(sample: &Sample) -> Result<Sample, Stop> {
    let backwards = |t: &Tensor| {
        let size = (t.dtype().bits() / 8).max(1);
        let bytes: Vec<u8> = t.bytes().chunks(size).rev().flatten().copied().collect();
        Tensor::from_bytes(t.dtype(), t.shape(), &bytes)
    };
    let inputs = sample.inputs.iter().map(backwards).collect::<Result<Vec<_>, _>>()?;
    let expected = Interpreter::new(&sample.program)?.run(&inputs)?;
    Ok(Sample { inputs, expected, about: format!("{}, backwards", sample.about), ..sample.clone() })
}

/// Each sample alone gives what it gives within the batch, byte for byte, floats too.
fn batch(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in samples(subject, &*device)? {
        let whole = execute(&*device, &sample.program, &sample.inputs)?;
        compare(&sample, whole.clone(), true, "the batch")?;
        for i in 0..3 {
            let program = single(&sample.program);
            let part = |t: &Tensor| slice(t, i);
            let inputs = sample.inputs.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            if accepted(&*device, &program)?.is_none() {
                continue;
            }
            for (alone, within) in execute(&*device, &program, &inputs)?.iter().zip(&whole) {
                let same = alone.bytes() == slice(within, i)?.bytes();
                ensure!(same, "{}: sample {i} of the batch gives other bytes alone", sample.about);
            }
        }
    }
    Ok(())
}

/// The program for a batch of one.
fn single(program: &Program) -> Program {
    let mut program = program.clone();
    for value in program.values.iter_mut().filter(|v| v.constant.is_none()) {
        if let Some(mut dims) = value.ty.shape.known() {
            dims[0] = 1;
            value.ty.shape = Shape::fixed(&dims);
        }
    }
    program
}

/// Sample `i` of a batch.
fn slice(t: &Tensor, i: usize) -> ottava_hal::Result<Tensor> {
    let mut dims = t.shape().to_vec();
    let size = t.bytes().len() / dims[0].max(1);
    dims[0] = 1;
    Tensor::from_bytes(t.dtype(), &dims, &t.bytes()[i * size..(i + 1) * size])
}

/// Two queues at once, each with its own program.
fn queues(subject: &Subject) -> Check {
    let device = subject.open()?;
    let samples = samples(subject, &*device)?;
    for pair in samples.windows(2) {
        let exe = |s: &Sample| device.compile(&s.program, &CompileOptions::default());
        let (a, b) = (exe(&pair[0])?, exe(&pair[1])?);
        for _ in 0..3 {
            let started = [Run::start(&*device, a.clone(), &pair[0])?, Run::start(&*device, b.clone(), &pair[1])?];
            for (run, sample) in started.into_iter().zip(pair) {
                compare(sample, run.finish(sample)?, true, "two queues")?;
            }
        }
    }
    Ok(())
}

/// A submission on a queue of its own.
struct Run {
    outputs: Vec<Binding>,
    fence: Arc<dyn Fence>,
    _queue: Arc<dyn ottava_hal::Queue>,
}

impl Run {
    fn start(device: &dyn Device, exe: Arc<dyn ottava_hal::Executable>, sample: &Sample) -> Result<Self, Stop> {
        let buffer = |bytes: usize| device.alloc(&BufferDesc { bytes, alignment: device.info().alignment });
        let mut inputs = Vec::new();
        for tensor in &sample.inputs {
            let to = buffer(tensor.bytes().len())?;
            to.write(0, tensor.bytes())?;
            inputs.push(Binding::whole(to));
        }
        let bind = |t: &Tensor| buffer(t.bytes().len()).map(Binding::whole);
        let outputs = sample.expected.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let (queue, fence) = (device.create_queue()?, device.create_fence(0)?);
        let submission = Submission::dispatch(exe, inputs, outputs.clone());
        queue.submit(&Submission { signals: vec![(fence.clone(), 1)], ..submission })?;
        Ok(Self { outputs, fence, _queue: queue })
    }

    fn finish(self, sample: &Sample) -> Result<Vec<Tensor>, Stop> {
        self.fence.wait(1, LONGEST)?;
        let mut results = sample.expected.clone();
        for (tensor, from) in results.iter_mut().zip(&self.outputs) {
            from.buffer.read(0, tensor.bytes_mut())?;
        }
        Ok(results)
    }
}
