//! F.5: shapes that only the run decides, for devices that say that they take them.

use super::Group;
use crate::kit::{Net, basis};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{CompileOptions, Dim, Shape, Status, Tensor, TensorType};

pub(super) const GROUP: Group = Group {
    id: "F.5",
    name: "exec.dynamic",
    about: "a program with an open extent runs at any size, and refuses tensors of other types",
    cases: |_| vec![Case::new("F.5", "exec.dynamic.extents", extents)],
};

fn extents(subject: &Subject) -> Check {
    let device = subject.open()?;
    let fixed = basis(&*device, 24)?;
    let open = TensorType { shape: Shape(vec![Dim::Known(1), Dim::Sym("n".into())]), ..fixed };
    let program = Net::chain(&open, 2);
    if !device.capability().dynamic_shapes {
        let compiled = device.compile(&program, &CompileOptions::default());
        refused("a program with an open extent", compiled, Status::Unsupported)?;
        return Err(Stop::Unsupported("the device takes fixed shapes only".into()));
    }
    let exe = device.compile(&program, &CompileOptions::default())?;
    for n in [1, 5, 24, 100] {
        let ty = TensorType { shape: Shape::fixed(&[1, n]), ..open.clone() };
        let fixed = Net::chain(&ty, 2);
        let inputs = crate::kit::random_inputs(&fixed, subject.seed);
        let tensors = inputs.iter().map(|x| Tensor::from_bytes(ty.dtype, &[1, n], x));
        let outputs = exe.run_dynamic(&tensors.collect::<ottava_hal::Result<Vec<_>>>()?)?;
        let want = crate::kit::expected(&fixed, &inputs)?;
        ensure!(outputs.len() == 1 && outputs[0].shape() == [1, n], "with an extent of {n} it gives {outputs:?}");
        ensure!(outputs[0].bytes() == want[0], "with an extent of {n} the output is wrong");
    }
    refused("a run without inputs", exe.run_dynamic(&[]), Status::InvalidArgument)
}
