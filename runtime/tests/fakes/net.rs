//! Plans for the fakes, and what they compute.

use ottava_hal::{DataType, Node, Program, Tensor, TensorType, Value, ValueId};
use ottava_plan::{Alternative, DeviceNeed, Partition, Plan, Slot};
use std::collections::BTreeMap;

/// A plan under construction.
#[derive(Default)]
pub struct Net {
    pub plan: Plan,
}

impl Net {
    pub fn new(devices: &[&str]) -> Self {
        let need = |id: &&str| DeviceNeed { id: (*id).into(), ..DeviceNeed::default() };
        Self { plan: Plan { name: "net".into(), devices: devices.iter().map(need).collect(), ..Plan::default() } }
    }

    /// A slot of bytes; of an unknown number if it is 0.
    fn slot(&mut self, bytes: usize) -> usize {
        let name = format!("s{}", self.plan.slots.len());
        let ty = match bytes {
            0 => TensorType::unranked(DataType::U8),
            n => TensorType::fixed(DataType::U8, &[n]),
        };
        self.plan.slots.push(Slot { name, ty });
        self.plan.slots.len() - 1
    }

    pub fn input(&mut self, bytes: usize) -> usize {
        let slot = self.slot(bytes);
        self.plan.inputs.push(slot);
        slot
    }

    /// A partition that adds some slots and one.
    pub fn run(&mut self, device: &str, inputs: &[usize]) -> usize {
        let bytes = self.plan.slots[inputs[0]].ty.byte_len().unwrap_or(0);
        self.run_to(device, inputs, bytes)
    }

    /// The same with another declared size of the output.
    pub fn run_to(&mut self, device: &str, inputs: &[usize], bytes: usize) -> usize {
        let out = self.slot(bytes);
        let name = format!("p{}", self.plan.partitions.len());
        let value = |slot: &usize| {
            let slot = &self.plan.slots[*slot];
            Value { name: slot.name.clone(), ty: slot.ty.clone(), constant: None }
        };
        let mut node = Node::new(name.clone(), "Sum", 13);
        node.inputs = (0..inputs.len()).map(|i| Some(ValueId(i))).collect();
        node.outputs = vec![ValueId(inputs.len())];
        let program = Program {
            name,
            values: inputs.iter().chain([&out]).map(value).collect(),
            nodes: vec![node],
            inputs: (0..inputs.len()).map(ValueId).collect(),
            outputs: vec![ValueId(inputs.len())],
        };
        let (inputs, outputs) = (inputs.to_vec(), vec![out]);
        self.plan.partitions.push(Partition {
            device: device.into(),
            program,
            inputs,
            outputs,
            ..Partition::default()
        });
        out
    }

    pub fn output(&mut self, slot: usize) {
        self.plan.outputs.push(slot);
    }

    pub fn finish(self) -> Plan {
        self.plan.finish().expect("the plan of a test is well formed")
    }

    /// `x -> a -> b -> a -> b`, with the first value added again at the end. Device names may be the same.
    pub fn zigzag(a: &str, b: &str) -> Plan {
        let both = [a, b];
        let mut net = Self::new(&both[..if a == b { 1 } else { 2 }]);
        let x = net.input(96);
        let first = net.run(a, &[x]);
        let second = net.run(b, &[first]);
        let third = net.run(a, &[second]);
        let last = net.run(b, &[third, first]);
        net.output(last);
        net.output(second);
        net.finish()
    }

    /// A zigzag over `a` and `b` that goes on with `a` alone when `b` is lost.
    pub fn with_alternative(a: &str, b: &str) -> Plan {
        let mut plan = Self::zigzag(a, b);
        plan.alternatives.push(Alternative { lost: b.into(), plan: Self::zigzag(a, a) });
        plan.check().expect("well formed");
        plan
    }
}

/// Outputs of a plan of the fakes, computed here.
pub fn expected(plan: &Plan, inputs: &[Tensor]) -> Vec<Vec<u8>> {
    let mut slots: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for (slot, tensor) in plan.inputs.iter().zip(inputs) {
        slots.insert(*slot, tensor.bytes().to_vec());
    }
    for p in &plan.partitions {
        let n = slots[&p.inputs[0]].len();
        let sum = |i: usize| p.inputs.iter().fold(1u8, |s, slot| s.wrapping_add(slots[slot][i]));
        let bytes = (0..n).map(sum).collect();
        slots.insert(p.outputs[0], bytes);
    }
    plan.outputs.iter().map(|s| slots[s].clone()).collect()
}

/// Inputs of a zigzag that differ with their number.
pub fn inputs(n: usize) -> Vec<Tensor> {
    let bytes: Vec<u8> = (0..96).map(|i| (i * 7 + n * 13) as u8).collect();
    vec![Tensor::from_slice(&[96], &bytes).expect("fits")]
}

/// Outputs as bytes.
pub fn bytes(outputs: &[Tensor]) -> Vec<Vec<u8>> {
    outputs.iter().map(|t| t.bytes().to_vec()).collect()
}
