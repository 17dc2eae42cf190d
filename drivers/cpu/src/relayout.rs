//! Conversions between the forms of a value ([`crate::form`]): transpositions, the sign flip, copies.

use crate::builder::Run;
use crate::elementwise;
use crate::form::{Form, channels_first};
use crate::strided::Walk;
use ottava_hal::{DataType, Element, Error, Reason, Result, Status, Tensor, TensorType};
use ottava_kernels::{Exec, KernelError, nchw_to_nhwc, nhwc_to_nchw, xor_sign};

/// A kernel's failure during a run.
pub(crate) fn failed(error: KernelError) -> Error {
    let status = match error {
        KernelError::TaskPanicked { .. } => Status::Panic,
        _ => Status::Internal,
    };
    Error::failed(status, error.to_string())
}

/// Channels to the back (`to_nhwc`) or to the front, for elements of 1, 2 or 4 bytes.
pub(crate) fn transposition(dtype: DataType, ncs: [usize; 3], to_nhwc: bool) -> Result<(String, Run)> {
    let name = format!("{}_b{}", if to_nhwc { "nchw_to_nhwc" } else { "nhwc_to_nchw" }, dtype.bits());
    let run = match dtype.bits() {
        8 => transpose::<u8>(ncs, to_nhwc),
        16 => transpose::<u16>(ncs, to_nhwc),
        32 => transpose::<u32>(ncs, to_nhwc),
        _ => return Err(Error::unsupported(Reason::Layout, format!("{dtype} has no channels-last form"))),
    };
    Ok((name, run))
}

fn transpose<T: Element>(ncs: [usize; 3], to_nhwc: bool) -> Run {
    let kernel = if to_nhwc { nchw_to_nhwc::<T> } else { nhwc_to_nchw::<T> };
    Box::new(move |exec, mut io| kernel(exec, ncs, io.read::<T>(0)?, io.out::<T>()?).map_err(failed))
}

/// XOR 0x80 on every byte.
pub(crate) fn flip() -> (String, Run) {
    let flip = |exec: Exec<'_>, [x, _]: [&[u8]; 2], out: &mut [u8]| xor_sign(exec, x, out).map_err(failed);
    ("xor_sign".into(), elementwise::step(1, Box::new(flip)))
}

/// The bytes as they are.
pub(crate) fn copy() -> (String, Run) {
    let run: Run = Box::new(|_, io| {
        let from = io.bytes(0)?;
        if from.len() != io.out.len() {
            return Err(Error::failed(Status::Internal, "a copy between values of different sizes"));
        }
        io.out.copy_from_slice(from);
        Ok(())
    });
    ("copy".into(), run)
}

/// A constant in the form that steps want.
pub(crate) fn constant(data: &Tensor, ty: &TensorType, form: Form) -> Result<Tensor> {
    let mut out = data.clone();
    if let (true, Some([n, c, s])) = (form.nhwc, channels_first(ty)) {
        let width = ty.dtype.bits() / 8;
        let walk = Walk::new(&[n, s, c], &[c * s, 1, s], width);
        walk.copy(data.bytes(), out.bytes_mut())?;
    }
    if form.flipped {
        out.bytes_mut().iter_mut().for_each(|b| *b ^= 0x80);
    }
    Ok(out)
}
