//! A driver with one operator: Add of two s8 tensors, each with one scale.
//!
//! Change three things to make it yours: the names in [`driver`], the rows that say what your device runs, and the
//! kernels. `cargo build --release` makes the library; a manifest beside it (`my_driver.ottava.ron`) makes Ottava find it.
//!
//! A device that is more than a list of kernels (compiled command streams, memory and queues of its own) implements
//! `Driver`, `Device` and `Executable` of `ottava_plugin::hal` instead of using [`KernelDriver`].

use ottava_plugin::hal::capability::{Operand, Predicate, QuantKind};
use ottava_plugin::hal::refmath::elementwise::qdq_add;
use ottava_plugin::hal::refmath::quantize::{Affine, Target};
use ottava_plugin::hal::{
    DataType, DeviceInfo, DeviceKind, DriverInfo, Node, OpRow, Program, Reason, RequantMode, Result,
};
use ottava_plugin::kernels::{Kernel, KernelCx, KernelDriver};

ottava_plugin::export_driver!("my-driver", driver);

/// Who we are, what device there is, what it runs.
fn driver() -> KernelDriver {
    let info =
        DriverInfo { name: "my-driver".into(), vendor: "My Company".into(), version: env!("CARGO_PKG_VERSION").into() };
    // The device's id is what `--device` takes; a driver with one device can give it its own name.
    let device = DeviceInfo { name: "My device".into(), ..DeviceInfo::new("my-driver", "my-driver", DeviceKind::Dsp) };
    KernelDriver::new(info, device, vec![Kernel { row: add_s8_row(), name: "add_s8", run: add_s8 }])
}

/// What the kernel accepts. Whatever is not said here is accepted, so say all of it.
fn add_s8_row() -> OpRow {
    let s8 = Operand { dtypes: vec![DataType::S8], quant: vec![QuantKind::PerTensor], ..Operand::default() };
    OpRow {
        versions: (7, u32::MAX),
        inputs: vec![s8.clone(), s8.clone()],
        outputs: vec![s8],
        requant: vec![RequantMode::Fp32Rne],
        predicates: vec![Predicate {
            text: "both inputs have the shape of the output",
            reason: Reason::ShapeLimit,
            holds: same_shapes,
        }],
        ..OpRow::any("Add")
    }
}

/// The kernel has no broadcasting.
fn same_shapes(program: &Program, node: &Node) -> bool {
    let Some(out) = node.outputs.first() else { return false };
    node.inputs.iter().flatten().all(|id| program.ty(*id).shape == program.ty(*out).shape)
}

/// Dequantize, one addition in f32, quantize: the integers of the numeric contract, section 4. Your device computes them
/// in its own way; this is what they must be.
fn add_s8(cx: &mut KernelCx) -> Result<()> {
    let affine = |(scale, zp)| Affine { scale, zp };
    let (pa, pb) = (affine(cx.input_quant(0)?), affine(cx.input_quant(1)?));
    let (scale, zp) = cx.output_quant(0)?;
    let to = Target { scale, zp, lo: i8::MIN.into(), hi: i8::MAX.into() };
    let (a, b) = (cx.input::<i8>(0)?, cx.input::<i8>(1)?);
    for (y, (a, b)) in cx.output::<i8>(0)?.iter_mut().zip(a.iter().zip(b)) {
        // The target's range is that of s8, so the cast keeps the value.
        *y = qdq_add((*a).into(), pa, (*b).into(), pb, to) as i8;
    }
    Ok(())
}
