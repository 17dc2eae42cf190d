//! Small plans for tests: partitions of one operator each, whose slots have a given number of bytes.

use crate::{Alternative, Blob, DeviceNeed, Opinion, Partition, Placed, Plan, Slot, StateVar, Step, Work, blob_key};
use ottava_hal::{
    Attr, BlobKey, CompileOptions, DataType, DeviceInfo, DeviceKind, DriverInfo, Node, Options, Program, QuantParams,
    RequantMode, Tensor, TensorType, Value, ValueId,
};

/// A slot of some bytes.
pub(crate) fn slot(name: &str, bytes: usize) -> Slot {
    Slot { name: name.into(), ty: TensorType::fixed(DataType::U8, &[bytes]) }
}

/// Numbers that look random; equal seeds give equal ones.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

/// A plan under construction.
pub(crate) struct Net {
    pub(crate) plan: Plan,
}

impl Net {
    pub(crate) fn new(devices: &[&str]) -> Self {
        let need = |id: &&str| DeviceNeed { id: (*id).into(), isa: "none".into(), ..DeviceNeed::default() };
        Self { plan: Plan { name: "net".into(), devices: devices.iter().map(need).collect(), ..Plan::default() } }
    }

    fn slot(&mut self, bytes: usize) -> usize {
        let name = format!("s{}", self.plan.slots.len());
        self.plan.slots.push(slot(&name, bytes));
        self.plan.slots.len() - 1
    }

    pub(crate) fn input(&mut self, bytes: usize) -> usize {
        let id = self.slot(bytes);
        self.plan.inputs.push(id);
        id
    }

    /// The hidden input of a state; [`Self::keep`] names its output.
    pub(crate) fn state(&mut self, bytes: usize) -> usize {
        let input = self.slot(bytes);
        let initial = Tensor::zeros(DataType::U8, &[bytes]).unwrap();
        self.plan.states.push(StateVar { name: format!("h{input}"), input, output: input, initial });
        input
    }

    pub(crate) fn keep(&mut self, output: usize) {
        self.plan.states.last_mut().unwrap().output = output;
    }

    /// A partition that reads slots and writes new ones of the given sizes.
    pub(crate) fn partition(&mut self, device: &str, inputs: &[usize], sizes: &[usize]) -> Vec<usize> {
        let outputs: Vec<usize> = sizes.iter().map(|n| self.slot(*n)).collect();
        let value = |s: &usize| {
            let slot = &self.plan.slots[*s];
            Value { name: slot.name.clone(), ty: slot.ty.clone(), constant: None }
        };
        let name = format!("p{}", self.plan.partitions.len());
        let ids = |from: usize, n: usize| (from..from + n).map(ValueId).collect::<Vec<_>>();
        let node = Node {
            inputs: ids(0, inputs.len()).into_iter().map(Some).collect(),
            outputs: ids(inputs.len(), outputs.len()),
            ..Node::new(format!("{name}.n"), "Mix", 1)
        };
        let program = Program {
            name,
            values: inputs.iter().chain(&outputs).map(value).collect(),
            nodes: vec![node],
            inputs: ids(0, inputs.len()),
            outputs: ids(inputs.len(), outputs.len()),
        };
        let (device, inputs) = (device.to_owned(), inputs.to_vec());
        self.plan.partitions.push(Partition {
            device,
            program,
            inputs,
            outputs: outputs.clone(),
            ..Partition::default()
        });
        outputs
    }

    pub(crate) fn finish(mut self, outputs: &[usize]) -> Plan {
        self.plan.outputs = outputs.to_vec();
        self.plan.finish().unwrap()
    }
}

/// The key of a program on the device `a` of the driver `test`.
pub(crate) fn key(program: &Program, version: &str) -> BlobKey {
    let driver = DriverInfo { name: "test".into(), vendor: "tests".into(), version: version.into() };
    let device = DeviceInfo::new("test", "a", DeviceKind::Npu);
    blob_key(&driver, &device, program, &CompileOptions::default(), &Options::new()).unwrap()
}

/// Adds a quantized weight of 300 bytes to the only node of each partition, and a blob.
fn furnish(plan: &mut Plan, rng: &mut Rng) {
    let weights = Tensor::from_ints(DataType::S8, &[3, 100], &(0..300).map(|i| i % 255 - 127).collect::<Vec<_>>());
    let weights = weights.unwrap();
    for p in &mut plan.partitions {
        let quant = QuantParams::per_axis_symmetric(0, vec![0.5, 0.25, 1e-3]);
        let ty = TensorType::fixed(DataType::S8, &[3, 100]).quantized(quant);
        p.program.values.push(Value { name: "w".into(), ty, constant: Some(weights.clone()) });
        let id = ValueId(p.program.values.len() - 1);
        let node = &mut p.program.nodes[0];
        node.inputs.push(Some(id));
        node.requant = Some(RequantMode::Q31Double);
        node.attrs.set("pads", Attr::Ints(vec![1, 2, 3, 4]));
        node.attrs.set("table", Attr::Tensor(Tensor::scalar(2.5f32)));
        p.est_ns = 1000;
        p.blobs.push(Blob::new(key(&p.program, "1.0"), rng.bytes(400)).unwrap());
    }
}

/// Two devices, a state, three partitions with weights and blobs.
fn network(devices: &[&str]) -> Plan {
    let mut net = Net::new(devices);
    let (x, h) = (net.input(1000), net.state(16));
    let a = net.partition(devices[0], &[x, h], &[500, 16]);
    net.keep(a[1]);
    let b = net.partition(devices[devices.len() - 1], &a[..1], &[700]);
    let c = net.partition(devices[0], &[a[0], b[0]], &[10]);
    let mut plan = net.finish(&[c[0], x]);
    furnish(&mut plan, &mut Rng::new(5));
    plan
}

/// A plan that uses everything a plan can have, control steps apart.
pub(crate) fn rich() -> Plan {
    let mut plan = network(&["a", "b"]);
    let known = slot("known", 200);
    plan.slots.push(known);
    plan.constants.push((plan.slots.len() - 1, Tensor::from_slice(&[200], &Rng::new(6).bytes(200)).unwrap()));
    plan.outputs.push(plan.slots.len() - 1);
    let opinion = Opinion {
        device: "b".into(),
        ok: false,
        code: "DTYPE".into(),
        text: "no u8".into(),
        cost_ns: 7,
        measured: true,
    };
    plan.placed.push(Placed { node: "p0.n".into(), op: "Mix".into(), opinions: vec![opinion], ..Placed::default() });
    plan.alternatives.push(Alternative { lost: "b".into(), plan: network(&["a"]) });
    plan
}

/// A plan of control steps: a choice, a loop and a scan over the bodies given.
pub(crate) fn control() -> Plan {
    let bytes = |slots: &[usize]| slots.iter().map(|n| slot("x", *n)).collect::<Vec<_>>();
    let body = |n_in: usize, n_out: usize| Plan {
        slots: bytes(&vec![4; n_in.max(n_out)]),
        inputs: (0..n_in).collect(),
        outputs: (0..n_out).collect(),
        ..Plan::default()
    };
    let boxed = |n_in, n_out| Box::new(body(n_in, n_out));
    let condition = Slot { name: "c".into(), ty: TensorType::fixed(DataType::Bool, &[]) };
    let step = |name: &str, work: Work, waits: &[usize]| Step { name: name.into(), work, waits: waits.to_vec() };
    let then = Work::If { condition: 0, then: boxed(1, 1), otherwise: boxed(1, 1), inputs: vec![1], outputs: vec![2] };
    let repeat =
        Work::Loop { max_trips: None, condition: Some(0), body: boxed(3, 3), inputs: vec![2], outputs: vec![3, 4] };
    let scan = Work::Scan { scanned: 1, body: boxed(2, 2), inputs: vec![3, 4], outputs: vec![5, 6] };
    Plan {
        name: "control".into(),
        slots: [vec![condition], bytes(&[4, 4, 4, 12, 4, 12])].concat(),
        inputs: vec![0, 1],
        outputs: vec![5, 6],
        steps: vec![step("if", then, &[]), step("loop", repeat, &[0]), step("scan", scan, &[1])],
        ..Plan::default()
    }
}
