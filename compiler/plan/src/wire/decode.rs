//! From the sections of a file to its plan. The checksums have been compared; what the bytes say has not.

use super::v1::{self, Raw};
use crate::file::{FileError, Kind, Section};
use crate::{Alternative, MAX_DEPTH, Place, Plan, Work};
use ottava_hal::wire::{self as hal, Load, Reader, corrupt};
use ottava_hal::{BlobKey, DataType, Result, SharedBytes, Tensor, TensorType};

/// The plan of a file, not yet checked.
pub(crate) fn decode(file: &SharedBytes, sections: &[Section]) -> Result<Plan, FileError> {
    let source = Source { file, sections };
    let bytes = sections.first().and_then(|s| (**file).as_ref().get(s.range.clone())).unwrap_or_default();
    let invalid = |e: &dyn ToString| FileError::corrupt("the plan", e.to_string());
    let (wire, rest) = postcard::take_from_bytes::<v1::File>(bytes).map_err(|e| invalid(&e))?;
    if !rest.is_empty() {
        return Err(invalid(&format!("{} bytes too many", rest.len())));
    }
    plans(source, wire).map_err(|e| invalid(&e))
}

/// The mapped file.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a SharedBytes,
    sections: &'a [Section],
}

impl<'a> Source<'a> {
    fn section(&self, number: usize, kind: Kind) -> Result<&'a Section> {
        let section = self.sections.get(number).filter(|s| s.kind == kind);
        section.ok_or_else(|| corrupt(format!("section {number} is not there or is no {kind:?}")))
    }

    fn view(&self, section: &Section, dtype: DataType, shape: &[usize]) -> Result<Tensor> {
        let expected = TensorType::fixed(dtype, shape).byte_len();
        if expected != Some(section.range.len()) {
            let found = section.range.len();
            return Err(corrupt(format!("{dtype}{shape:?} needs {expected:?} bytes, its section has {found}")));
        }
        Tensor::from_shared(dtype, shape, self.file.clone(), section.range.start)
    }
}

impl Load for Source<'_> {
    fn load(&mut self, number: u64, dtype: DataType, shape: &[usize]) -> Result<Tensor> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.view(self.section(number, Kind::Constant)?, dtype, shape)
    }
}

/// Plans that are built and wait for the one that they lie in, with how deep they are themselves.
struct Built(Vec<Option<(Plan, usize)>>);

impl Built {
    /// Takes a plan into another; `depth` becomes that of the outer one.
    fn take(&mut self, number: usize, outer: usize, depth: &mut usize) -> Result<Plan> {
        let inner = self.0.get_mut(number).filter(|_| number > outer).and_then(Option::take);
        let (plan, own) = inner.ok_or_else(|| corrupt(format!("plan {outer} has no plan {number} for itself")))?;
        *depth = (*depth).max(own + 1);
        match *depth > MAX_DEPTH {
            false => Ok(plan),
            true => Err(corrupt(format!("plans lie more than {MAX_DEPTH} deep in each other"))),
        }
    }
}

/// Builds all plans, the inner ones first; the outermost one.
fn plans(source: Source<'_>, wire: v1::File) -> Result<Plan> {
    let mut built = Built(wire.plans.iter().map(|_| None).collect());
    for (number, plan) in wire.plans.into_iter().enumerate().rev() {
        let done = build(source, number, plan, &mut built)?;
        built.0[number] = Some(done);
    }
    let mut left = built.0.into_iter();
    match (left.next().flatten(), left.position(|p| p.is_some())) {
        (Some((plan, _)), None) => Ok(plan),
        (None, _) => Err(corrupt("there is no plan")),
        (_, Some(i)) => Err(corrupt(format!("plan {} is never used", i + 1))),
    }
}

fn build(mut source: Source<'_>, number: usize, wire: v1::Plan, built: &mut Built) -> Result<(Plan, usize)> {
    let mut depth = 0;
    let mut inner = |n: usize| built.take(n, number, &mut depth);
    let steps = wire.steps.into_iter().map(|s| step(s, &mut inner)).collect::<Result<_>>()?;
    let alternative = |(lost, n)| Ok(Alternative { lost, plan: inner(n)? });
    let alternatives = wire.alternatives.into_iter().map(alternative).collect::<Result<_>>()?;
    let plan = Plan {
        name: wire.name,
        slots: wire.slots.into_iter().map(slot).collect::<Result<_>>()?,
        partitions: wire.partitions.into_iter().map(|p| partition(source, p)).collect::<Result<_>>()?,
        inputs: wire.inputs,
        outputs: wire.outputs,
        constants: wire.constants.into_iter().map(|(s, t)| Ok((s, tensor(&mut source, t)?))).collect::<Result<_>>()?,
        devices: wire.devices.into_iter().map(device).collect(),
        steps,
        arenas: wire.arenas.into_iter().map(arena).collect(),
        states: wire.states.into_iter().map(|s| state(&mut source, s)).collect::<Result<_>>()?,
        placed: wire.placed.into_iter().map(placed).collect(),
        alternatives,
    };
    Ok((plan, depth))
}

/// All of some bytes, by a reader.
fn whole<T>(raw: &Raw, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result<T> {
    let mut reader = Reader::new(&raw.0);
    let value = read(&mut reader)?;
    reader.end().map(|()| value)
}

fn tensor(source: &mut Source<'_>, raw: Raw) -> Result<Tensor> {
    whole(&raw, |r| r.tensor(source))
}

fn slot(s: v1::Slot) -> Result<crate::Slot> {
    Ok(crate::Slot { name: s.name, ty: whole(&s.ty, |r| r.tensor_type())? })
}

fn partition(mut source: Source<'_>, p: v1::Partition) -> Result<crate::Partition> {
    Ok(crate::Partition {
        program: whole(&p.program, |r| hal::decode(r, &mut source))?,
        device: p.device,
        inputs: p.inputs,
        outputs: p.outputs,
        bridges: p.bridges,
        est_ns: p.est_ns,
        blobs: p.blobs.into_iter().map(|b| blob(source, b)).collect::<Result<_>>()?,
    })
}

fn blob(source: Source<'_>, b: v1::Blob) -> Result<crate::Blob> {
    let section = source.section(b.section, Kind::Blob)?;
    let payload = source.view(section, DataType::U8, &[section.range.len()])?;
    let key = BlobKey {
        driver: b.driver,
        driver_version: b.driver_version,
        uuid: b.uuid,
        hw_rev: b.hw_rev,
        ir_version: b.ir_version,
        core_hash: b.core_hash,
        ops_hash: b.ops_hash,
        program_hash: b.program_hash,
        quant_hash: b.quant_hash,
        options_hash: b.options_hash,
        payload_len: section.range.len() as u64,
        payload_sha256: section.sha,
    };
    Ok(crate::Blob { key, payload })
}

fn state(source: &mut Source<'_>, s: v1::State) -> Result<crate::StateVar> {
    Ok(crate::StateVar { name: s.name, input: s.input, output: s.output, initial: tensor(source, s.initial)? })
}

fn step(s: v1::Step, inner: &mut dyn FnMut(usize) -> Result<Plan>) -> Result<crate::Step> {
    let work = match s.work {
        v1::Work::Run { partition } => Work::Run { partition },
        v1::Work::Copy { slot, from, to } => Work::Copy { slot, from: place(from), to: place(to) },
        v1::Work::If { condition, then, otherwise, inputs, outputs } => {
            let (then, otherwise) = (Box::new(inner(then)?), Box::new(inner(otherwise)?));
            Work::If { condition, then, otherwise, inputs, outputs }
        }
        v1::Work::Loop { max_trips, condition, body, inputs, outputs } => {
            Work::Loop { max_trips, condition, body: Box::new(inner(body)?), inputs, outputs }
        }
        v1::Work::Scan { scanned, body, inputs, outputs } => {
            Work::Scan { scanned, body: Box::new(inner(body)?), inputs, outputs }
        }
    };
    Ok(crate::Step { name: s.name, work, waits: s.waits })
}

fn place(place: Option<usize>) -> Place {
    place.map_or(Place::Host, Place::Device)
}

fn device(d: v1::Device) -> crate::DeviceNeed {
    crate::DeviceNeed { id: d.id, uuid: d.uuid, hw_rev: d.hw_rev, isa: d.isa }
}

fn arena(a: v1::Arena) -> crate::Arena {
    crate::Arena { bytes: a.bytes, sum_bytes: a.sum_bytes, lower_bound: a.lower_bound, slots: a.slots }
}

fn placed(p: v1::Placed) -> crate::Placed {
    let opinion = |o: v1::Opinion| crate::Opinion {
        ok: o.state & v1::CAN != 0,
        measured: o.state & v1::MEASURED != 0,
        device: o.device,
        code: o.code,
        text: o.text,
        cost_ns: o.cost_ns,
    };
    crate::Placed {
        node: p.node,
        op: p.op,
        device: p.device,
        partition: p.partition,
        bridge: p.bridge,
        reason: p.reason,
        opinions: p.opinions.into_iter().map(opinion).collect(),
    }
}
