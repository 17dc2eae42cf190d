//! E.5: the shapes that programs have.

use super::Group;
use crate::kit::{Net, Rng, Work, basis};
use crate::{Case, Check, Stop, Subject};
use ottava_hal::{CompileOptions, Program, Status, Tensor, TensorType};

pub(super) const GROUP: Group = Group {
    id: "E.5",
    name: "compile.basic",
    about: "one node, chains, diamonds, several outputs, constants, programs without nodes",
    cases: |_| {
        let case = |name: &str, program: fn(&TensorType, u64) -> Program| {
            Case::new("E.5", format!("compile.basic.{name}"), move |s| runs(s, program))
        };
        vec![
            case("single", |ty, _| Net::chain(ty, 1)),
            case("chain", |ty, _| Net::chain(ty, 24)),
            case("diamond", diamond),
            case("outputs", outputs),
            case("constants", constants),
            case("unused_input", unused_input),
            case("output_used_again", output_used_again),
            Case::new("E.5", "compile.basic.without_nodes", without_nodes),
            Case::new("E.5", "compile.basic.twice", twice),
        ]
    },
};

fn runs(subject: &Subject, program: fn(&TensorType, u64) -> Program) -> Check {
    let device = subject.open()?;
    for len in [1, 24, 33] {
        Work::new(&*device, program(&basis(&*device, len)?, subject.seed), subject.seed)?.run(&*device)?;
    }
    Ok(())
}

fn diamond(ty: &TensorType, _: u64) -> Program {
    let mut net = Net::new(ty);
    let (x, y) = (net.input(), net.input());
    let top = net.add(x, y);
    let (left, right) = (net.add(top, x), net.add(top, y));
    let bottom = net.add(left, right);
    let last = net.add(bottom, top);
    net.finish(&[last])
}

fn outputs(ty: &TensorType, _: u64) -> Program {
    let mut net = Net::new(ty);
    let (x, y) = (net.input(), net.input());
    let a = net.add(x, x);
    let b = net.add(y, x);
    let c = net.add(a, b);
    net.finish(&[c, a, b])
}

fn constants(ty: &TensorType, seed: u64) -> Program {
    let mut net = Net::new(ty);
    let x = net.input();
    let mut rng = Rng::new(seed ^ 0x5eed);
    let shape = ty.shape.known().unwrap_or_default();
    let mut sum = x;
    for _ in 0..3 {
        let bytes: Vec<u8> = (0..ty.byte_len().unwrap_or(0)).map(|_| rng.below(64) as u8).collect();
        // A tensor of the type's own size; the programs have fixed shapes.
        if let Ok(tensor) = Tensor::from_bytes(ty.dtype, &shape, &bytes) {
            let c = net.constant(tensor);
            sum = net.add(sum, c);
        }
    }
    net.finish(&[sum])
}

fn unused_input(ty: &TensorType, _: u64) -> Program {
    let mut net = Net::new(ty);
    let (x, _, z) = (net.input(), net.input(), net.input());
    let sum = net.add(x, z);
    net.finish(&[sum])
}

fn output_used_again(ty: &TensorType, _: u64) -> Program {
    let mut net = Net::new(ty);
    let (x, y) = (net.input(), net.input());
    let a = net.add(x, y);
    let b = net.add(a, a);
    net.finish(&[a, b])
}

/// Nothing at all, and an input that is the output. A device may say that it does not do that.
fn without_nodes(subject: &Subject) -> Check {
    let device = subject.open()?;
    let mut identity = Net::new(&basis(&*device, 24)?);
    let x = identity.input();
    for (what, program) in [("an empty program", Program::default()), ("an identity", identity.finish(&[x]))] {
        match device.compile(&program, &CompileOptions::default()) {
            Ok(_) => Work::new(&*device, program, subject.seed)?.run(&*device)?,
            Err(e) if matches!(e.status(), Status::Unsupported | Status::InvalidArgument) => {}
            Err(e) => return Err(Stop::failed(format!("{what} gives {:?}: {e}", e.status()))),
        }
    }
    Ok(())
}

/// The same program compiled twice gives the same, and the first executable is as good as before.
fn twice(subject: &Subject) -> Check {
    let device = subject.open()?;
    let ty = basis(&*device, 24)?;
    let first = Work::new(&*device, diamond(&ty, 0), subject.seed)?;
    let other = Work::new(&*device, Net::chain(&ty, 3), subject.seed)?;
    let second = Work::new(&*device, diamond(&ty, 0), subject.seed)?;
    [&first, &other, &second, &first].into_iter().try_for_each(|w| w.run(&*device))
}
