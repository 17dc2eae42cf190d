//! C.5: what an executable asks of its bindings (`exec_io` behind the plugin boundary).

use super::Group;
use crate::kit::{Net, basis};
use crate::{Case, Check, Subject, ensure};
use ottava_hal::{CompileOptions, Program, TensorType, ValueId};

pub(super) const GROUP: Group = Group {
    id: "C.5",
    name: "mem.requirements",
    about: "inputs and outputs of an executable are those of the program, in order",
    cases: |_| vec![Case::new("C.5", "mem.requirements.types", types)],
};

fn same(found: &[TensorType], program: &Program, ids: &[ValueId], what: &str) -> Check {
    ensure!(found.len() == ids.len(), "{} {what}s, the program has {}", found.len(), ids.len());
    for (i, (ty, id)) in found.iter().zip(ids).enumerate() {
        let want = program.ty(*id);
        let bytes = (ty.byte_len(), want.byte_len());
        ensure!(
            bytes.0 == bytes.1,
            "{what} {i} is {ty} of {:?} bytes, the program says {want} of {:?}",
            bytes.0,
            bytes.1
        );
        ensure!(ty.dtype == want.dtype && ty.shape == want.shape, "{what} {i} is {ty}, the program says {want}");
    }
    Ok(())
}

fn types(subject: &Subject) -> Check {
    let device = subject.open()?;
    let ty = basis(&*device, 24)?;
    let mut net = Net::new(&ty);
    let (a, b, c) = (net.input(), net.input(), net.input());
    let ab = net.add(a, b);
    let abc = net.add(ab, c);
    let several = net.finish(&[abc, ab]);
    for program in [Net::chain(&ty, 1), Net::chain(&basis(&*device, 7)?, 3), several] {
        let exe = device.compile(&program, &CompileOptions::default())?;
        same(exe.inputs(), &program, &program.inputs, "input")?;
        same(exe.outputs(), &program, &program.outputs, "output")?;
    }
    Ok(())
}
