//! From a plan to its bytes and sections.

use super::INLINE;
use super::v1::{self, Raw};
use crate::file::{Kind, Sha, sha};
use crate::{Place, Plan, Work};
use ottava_hal::wire::{self as hal, Store, Writer};
use ottava_hal::{BlobKey, DataType, Error, Result, Status, Tensor, TensorType};
use std::collections::HashMap;

/// Data that has a section of its own.
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) data: Tensor,
    pub(crate) sha: Sha,
}

/// A plan's bytes, and the sections that it refers to: the first has number 1.
pub(crate) struct Encoded {
    pub(crate) plan: Vec<u8>,
    pub(crate) sections: Vec<Part>,
}

/// Encodes a plan that [`Plan::check`] has seen.
pub(crate) fn encode(plan: &Plan) -> Result<Encoded> {
    let mut encoder = Encoder::default();
    encoder.plan(plan)?;
    let file = v1::File { plans: encoder.plans };
    let failed = |e: postcard::Error| Error::failed(Status::Internal, format!("encoding the plan: {e}"));
    let plan = postcard::to_stdvec(&file).map_err(failed)?;
    Ok(Encoded { plan, sections: encoder.parts.list })
}

/// Sections, each content once.
#[derive(Default)]
struct Parts {
    list: Vec<Part>,
    numbers: HashMap<(Kind, Sha), usize>,
}

impl Parts {
    fn add(&mut self, kind: Kind, data: &Tensor, sha: Sha) -> usize {
        let list = &mut self.list;
        *self.numbers.entry((kind, sha)).or_insert_with(|| {
            list.push(Part { kind, data: data.clone(), sha });
            list.len()
        })
    }
}

impl Store for Parts {
    fn store(&mut self, tensor: &Tensor) -> Result<Option<u64>> {
        let large = tensor.bytes().len() > INLINE;
        Ok(large.then(|| self.add(Kind::Constant, tensor, sha(tensor.bytes())) as u64))
    }
}

#[derive(Default)]
struct Encoder {
    plans: Vec<v1::Plan>,
    parts: Parts,
}

impl Encoder {
    /// Encodes a plan and those inside it; its number. The depth is bounded by [`Plan::check`].
    fn plan(&mut self, plan: &Plan) -> Result<usize> {
        let number = self.plans.len();
        self.plans.push(v1::Plan::default());
        let steps = plan.steps.iter().map(|s| self.step(s)).collect::<Result<_>>()?;
        let alternatives =
            plan.alternatives.iter().map(|a| Ok((a.lost.clone(), self.plan(&a.plan)?))).collect::<Result<_>>()?;
        self.plans[number] = v1::Plan {
            name: plan.name.clone(),
            slots: plan.slots.iter().map(|s| v1::Slot { name: s.name.clone(), ty: raw_type(&s.ty) }).collect(),
            partitions: plan.partitions.iter().map(|p| self.partition(p)).collect::<Result<_>>()?,
            inputs: plan.inputs.clone(),
            outputs: plan.outputs.clone(),
            constants: plan.constants.iter().map(|(s, t)| Ok((*s, self.tensor(t)?))).collect::<Result<_>>()?,
            devices: plan.devices.iter().map(device).collect(),
            steps,
            arenas: plan.arenas.iter().map(arena).collect(),
            states: plan.states.iter().map(|s| self.state(s)).collect::<Result<_>>()?,
            placed: plan.placed.iter().map(placed).collect(),
            alternatives,
        };
        Ok(number)
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<Raw> {
        let mut w = Writer::default();
        w.tensor(tensor, &mut self.parts)?;
        Ok(Raw(w.into_bytes()))
    }

    fn partition(&mut self, p: &crate::Partition) -> Result<v1::Partition> {
        let mut w = Writer::default();
        hal::encode(&p.program, &mut self.parts, &mut w)?;
        Ok(v1::Partition {
            device: p.device.clone(),
            program: Raw(w.into_bytes()),
            inputs: p.inputs.clone(),
            outputs: p.outputs.clone(),
            bridges: p.bridges,
            est_ns: p.est_ns,
            blobs: p.blobs.iter().map(|b| self.blob(b)).collect::<Result<_>>()?,
        })
    }

    fn blob(&mut self, blob: &crate::Blob) -> Result<v1::Blob> {
        let (payload, BlobKey { driver, driver_version, uuid, hw_rev, ir_version, .. }) = (&blob.payload, &blob.key);
        let sha = sha(payload.bytes());
        let bytes = payload.dtype() == DataType::U8 && payload.shape().len() == 1;
        if !bytes || blob.key.payload_len != payload.bytes().len() as u64 || blob.key.payload_sha256 != sha {
            return Err(Error::invalid(format!(
                "a blob of driver `{driver}` does not match its key; make it by Blob::new"
            )));
        }
        Ok(v1::Blob {
            driver: driver.clone(),
            driver_version: driver_version.clone(),
            uuid: *uuid,
            hw_rev: *hw_rev,
            ir_version: *ir_version,
            core_hash: blob.key.core_hash,
            ops_hash: blob.key.ops_hash,
            program_hash: blob.key.program_hash,
            quant_hash: blob.key.quant_hash,
            options_hash: blob.key.options_hash,
            section: self.parts.add(Kind::Blob, payload, sha),
        })
    }

    fn state(&mut self, s: &crate::StateVar) -> Result<v1::State> {
        Ok(v1::State { name: s.name.clone(), input: s.input, output: s.output, initial: self.tensor(&s.initial)? })
    }

    fn step(&mut self, step: &crate::Step) -> Result<v1::Step> {
        Ok(v1::Step { name: step.name.clone(), work: self.work(&step.work)?, waits: step.waits.clone() })
    }

    fn work(&mut self, work: &Work) -> Result<v1::Work> {
        Ok(match work {
            Work::Run { partition } => v1::Work::Run { partition: *partition },
            Work::Copy { slot, from, to } => v1::Work::Copy { slot: *slot, from: place(*from), to: place(*to) },
            Work::If { condition, then, otherwise, inputs, outputs } => v1::Work::If {
                condition: *condition,
                then: self.plan(then)?,
                otherwise: self.plan(otherwise)?,
                inputs: inputs.clone(),
                outputs: outputs.clone(),
            },
            Work::Loop { max_trips, condition, body, inputs, outputs } => v1::Work::Loop {
                max_trips: *max_trips,
                condition: *condition,
                body: self.plan(body)?,
                inputs: inputs.clone(),
                outputs: outputs.clone(),
            },
            Work::Scan { scanned, body, inputs, outputs } => v1::Work::Scan {
                scanned: *scanned,
                body: self.plan(body)?,
                inputs: inputs.clone(),
                outputs: outputs.clone(),
            },
        })
    }
}

fn raw_type(ty: &TensorType) -> Raw {
    let mut w = Writer::default();
    w.tensor_type(ty);
    Raw(w.into_bytes())
}

fn place(place: Place) -> Option<usize> {
    match place {
        Place::Host => None,
        Place::Device(d) => Some(d),
    }
}

fn device(d: &crate::DeviceNeed) -> v1::Device {
    v1::Device { id: d.id.clone(), uuid: d.uuid, hw_rev: d.hw_rev, isa: d.isa.clone() }
}

fn arena(a: &crate::Arena) -> v1::Arena {
    v1::Arena { bytes: a.bytes, sum_bytes: a.sum_bytes, lower_bound: a.lower_bound, slots: a.slots.clone() }
}

fn placed(p: &crate::Placed) -> v1::Placed {
    let opinion = |o: &crate::Opinion| v1::Opinion {
        device: o.device.clone(),
        state: u8::from(o.ok) * v1::CAN + u8::from(o.measured) * v1::MEASURED,
        code: o.code.clone(),
        text: o.text.clone(),
        cost_ns: o.cost_ns,
    };
    v1::Placed {
        node: p.node.clone(),
        op: p.op.clone(),
        device: p.device.clone(),
        partition: p.partition,
        bridge: p.bridge,
        reason: p.reason.clone(),
        opinions: p.opinions.iter().map(opinion).collect(),
    }
}
