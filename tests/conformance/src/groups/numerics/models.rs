//! G.10: small networks of several operators, whole, and in two parts of which the reference runs one.

use super::build::{Build, Sample};
use super::check::{Tally, accepted};
use super::draw::Draw;
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject, ensure, execute};
use ottava_hal::{Attr, DataType, Device, Node, Program, QuantParams, RequantMode, ValueId};
use ottava_reference::Interpreter;

pub(in super::super) const GROUP: Group = Group {
    id: "G.10",
    name: "num.models",
    about: "random networks of the claimed operators, whole and split between the device and the reference",
    cases: |_| {
        let modes = [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];
        let case = |m: RequantMode| Case::new("G.10", format!("num.models.chains.{}", m.name()), move |s| chains(s, m));
        modes.into_iter().map(case).chain([Case::new("G.10", "num.models.split", split)]).collect()
    },
};

/// Networks of a case; the long form has more.
const NETWORKS: (usize, usize) = (10, 100);

/// A network under construction: the last value, and one before it of the same shape.
struct Chain<'a> {
    build: Build,
    draw: Draw<'a>,
    mode: RequantMode,
    at: ValueId,
    device: &'a dyn Device,
}

/// Adds one operator to a chain; `None` where it does not fit.
type Step = fn(&mut Chain) -> Option<ValueId>;

const STEPS: &[Step] = &[conv, depthwise, add, relu, max_pool, average_pool, concat, transpose, requantize, sigmoid];

impl Chain<'_> {
    fn dims(&self) -> Vec<usize> {
        self.build.data(self.at).shape().to_vec()
    }

    fn params(&self) -> Option<QuantParams> {
        self.build.ty(self.at).quant.as_deref().cloned()
    }

    fn node(&self, op: &str) -> Node {
        Node { requant: Some(self.mode), ..Node::new("n", op, 22) }
    }

    /// Adds a node whose result fills s8.
    fn fitted(&mut self, node: Node, inputs: &[ValueId]) -> Option<ValueId> {
        let like = self.draw.fit(&self.build, &node, inputs, DataType::S8)?;
        self.build.one(node, inputs, like)
    }

    fn keeping(&mut self, node: Node, inputs: &[ValueId]) -> Option<ValueId> {
        let like = (DataType::S8, self.params());
        self.build.one(Node { requant: None, ..node }, inputs, like)
    }

    /// Takes the step if the device accepts the whole that comes of it.
    fn grow(&mut self, step: Step) -> Result<bool, Stop> {
        let before = self.build.clone();
        let grown = step(self).and_then(|at| Some((at, self.build.clone().finish(&[at], String::new())?)));
        let fits = match &grown {
            Some((_, sample)) => accepted(self.device, &sample.program)?.is_some(),
            None => false,
        };
        match grown {
            Some((at, _)) if fits => self.at = at,
            _ => self.build = before,
        }
        Ok(fits)
    }
}

fn window(node: &mut Node, kernel: i64, stride: i64) {
    node.attrs.set("kernel_shape", Attr::Ints(vec![kernel; 2]));
    node.attrs.set("pads", Attr::Ints(vec![kernel / 2; 4]));
    node.attrs.set("strides", Attr::Ints(vec![stride; 2]));
}

fn weighted(chain: &mut Chain, groups: usize, outputs: usize) -> Option<ValueId> {
    let dims = chain.dims();
    let kernel = chain.draw.pick(&[1, 3]);
    let mut node = chain.node("Conv");
    window(&mut node, kernel, 1);
    node.attrs.set("group", Attr::Int(groups as i64));
    let wd = [outputs, dims[1] / groups, kernel as usize, kernel as usize];
    let scales = (0..outputs).map(|_| chain.draw.scale()).collect();
    let data = chain.draw.data(DataType::S8, &wd, None)?;
    let w = chain.build.constant(data, Some(QuantParams::per_axis_symmetric(0, scales)));
    chain.fitted(node, &[chain.at, w])
}

fn conv(chain: &mut Chain) -> Option<ValueId> {
    let outputs = chain.draw.pick(&[3, 8, 17]);
    weighted(chain, 1, outputs)
}

fn depthwise(chain: &mut Chain) -> Option<ValueId> {
    let channels = chain.dims()[1];
    weighted(chain, channels, channels)
}

/// The value and its own Relu: a residual.
fn add(chain: &mut Chain) -> Option<ValueId> {
    let node = chain.node("Relu");
    let other = chain.keeping(node, &[chain.at])?;
    chain.fitted(chain.node("Add"), &[chain.at, other])
}

fn relu(chain: &mut Chain) -> Option<ValueId> {
    let node = chain.node("Relu");
    chain.keeping(node, &[chain.at])
}

fn max_pool(chain: &mut Chain) -> Option<ValueId> {
    let mut node = chain.node("MaxPool");
    window(&mut node, 3, 2);
    chain.keeping(node, &[chain.at])
}

fn average_pool(chain: &mut Chain) -> Option<ValueId> {
    let mut node = chain.node("AveragePool");
    window(&mut node, 3, 1);
    chain.fitted(node, &[chain.at])
}

fn concat(chain: &mut Chain) -> Option<ValueId> {
    let mut node = chain.node("Concat");
    node.attrs.set("axis", Attr::Int(1));
    chain.keeping(node, &[chain.at, chain.at])
}

fn transpose(chain: &mut Chain) -> Option<ValueId> {
    let mut node = chain.node("Transpose");
    node.attrs.set("perm", Attr::Ints(vec![0, 1, 3, 2]));
    chain.keeping(node, &[chain.at])
}

fn requantize(chain: &mut Chain) -> Option<ValueId> {
    let params = chain.params()?;
    let wider = QuantParams { scales: vec![params.scales[0] * 1.3], zero_points: vec![-7], ..params };
    let node = Node { domain: "ottava".into(), version: 1, ..chain.node("Requantize") };
    chain.build.one(node, &[chain.at], (DataType::S8, Some(wider)))
}

fn sigmoid(chain: &mut Chain) -> Option<ValueId> {
    let node = Node { requant: None, ..chain.node("Sigmoid") };
    chain.fitted(node, &[chain.at])
}

/// A network of up to eight operators that the device accepts.
fn network(device: &dyn Device, seed: u64, step: usize, mode: RequantMode) -> Result<Option<Sample>, Stop> {
    let mut draw = Draw::new(seed, step, &[]);
    let mut build = Build::new("network");
    let dims = [draw.pick(&[1, 2]), draw.size(2, 9), draw.size(5, 12), draw.size(5, 12)];
    let params = draw.params(DataType::S8);
    let Some(data) = draw.data(DataType::S8, &dims, params.as_ref()) else { return Ok(None) };
    let at = build.input(data, params);
    let mut chain = Chain { build, draw, mode, at, device };
    let mut nodes = 0;
    for _ in 0..8 {
        let step = chain.draw.pick(STEPS);
        nodes += usize::from(chain.grow(step)?);
    }
    if nodes < 2 {
        return Ok(None);
    }
    let at = chain.at;
    Ok(chain.build.finish(&[at], format!("network {step}")))
}

fn networks(subject: &Subject, device: &dyn Device, mode: RequantMode) -> Result<Vec<Sample>, Stop> {
    let wanted = if subject.stress { NETWORKS.1 } else { NETWORKS.0 };
    let mut found = Vec::new();
    for step in 0..3 * wanted {
        found.extend(network(device, subject.seed ^ 0x10, step, mode)?);
        if found.len() == wanted {
            break;
        }
    }
    if found.is_empty() { Err(Stop::Skipped("no network of two operators is accepted".into())) } else { Ok(found) }
}

fn chains(subject: &Subject, mode: RequantMode) -> Check {
    let device = subject.open()?;
    let mut tally = Tally::default();
    for sample in networks(subject, &*device, mode)? {
        let ops: Vec<&str> = sample.program.nodes.iter().map(|n| n.op.as_str()).collect();
        let what = format!("chain of {}", ops.join(", "));
        tally.check(&*device, &sample, &what)?;
    }
    tally.end(Stop::Skipped)
}

/// The first half of a network on the device, the second on the reference, and the other way round: the same bytes.
fn split(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in networks(subject, &*device, RequantMode::Fp32Rne)? {
        let program = &sample.program;
        for cut in 1..program.nodes.len() {
            let Some([front, back]) = halves(program, cut) else { continue };
            if accepted(&*device, &front)?.is_none() || accepted(&*device, &back)?.is_none() {
                continue;
            }
            let between = execute(&*device, &front, &sample.inputs)?;
            let on_reference = Interpreter::new(&front)?.run(&sample.inputs)?;
            ensure!(between == on_reference, "{}: the part before node {cut} differs", sample.about);
            ensure!(execute(&*device, &back, &between)? == sample.expected, "{}: node {cut} on differs", sample.about);
        }
    }
    Ok(())
}

/// The program in two, where one value alone crosses the cut.
fn halves(program: &Program, cut: usize) -> Option<[Program; 2]> {
    let produced: Vec<ValueId> =
        program.nodes[..cut].iter().flat_map(|n| n.outputs.clone()).chain(program.inputs.clone()).collect();
    let read = |id: &&ValueId| program.nodes[cut..].iter().any(|n| n.inputs.contains(&Some(**id)));
    let crossing: Vec<ValueId> = produced.iter().filter(read).copied().collect();
    let [one] = crossing.as_slice() else { return None };
    if program.inputs.contains(one) {
        return None;
    }
    let front = Program { nodes: program.nodes[..cut].to_vec(), outputs: vec![*one], ..program.clone() };
    let back = Program { nodes: program.nodes[cut..].to_vec(), inputs: vec![*one], ..program.clone() };
    Some([front, back])
}
