//! `DFT`: the discrete Fourier transform along one axis; the last axis holds real and imaginary parts.
//!
//! * (C1) `dft_length` cuts the axis or fills it with zeros. (C2) `onesided` gives the first n/2 + 1 values of a real
//!   signal. (C3) Backwards the sum is divided by n; backwards and `onesided` takes n/2 + 1 values and gives the n real
//!   ones that they stand for, n = 2 (extent - 1) by default.

use super::fourier::{Complex, Fourier};
use super::real::{Real, count, with_real};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Dft;

static SPEC: OpSpec = OpSpec {
    name: "DFT",
    domain: "",
    since: 17,
    inputs: (1, 3),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("inverse", AttrKind::Int), AttrSpec::optional("onesided", AttrKind::Int)],
};

/// What a node asks for.
#[derive(Clone, Copy)]
struct Form {
    inverse: bool,
    onesided: bool,
    /// `dft_length`.
    length: Option<usize>,
}

impl Form {
    fn new(attrs: &ottava_hal::Attrs, length: Option<i64>) -> Result<Self> {
        let length = length.map(|n| match usize::try_from(n) {
            Ok(n) if n > 0 && n <= util::MAX_ELEMENTS => Ok(n),
            _ => Err(Error::invalid(format!("DFT: dft_length is {n}, expected 1 or more"))),
        });
        let flag = |name| Ok::<_, Error>(attrs.int(name, 0)? != 0);
        Ok(Self { inverse: flag("inverse")?, onesided: flag("onesided")?, length: length.transpose()? })
    }

    fn is_real_output(self) -> bool {
        self.inverse && self.onesided
    }

    /// Elements of the transform over an axis of `extent`.
    fn n(self, extent: usize) -> usize {
        let own = if self.is_real_output() { extent.saturating_sub(1).saturating_mul(2).max(1) } else { extent };
        self.length.unwrap_or(own)
    }

    /// The extent of the result.
    fn output(self, extent: usize) -> usize {
        let n = self.n(extent);
        if self.onesided && !self.inverse { n / 2 + 1 } else { n }
    }
}

/// The axis, which is not the last one.
fn axis(axis: Option<i64>, rank: usize) -> Result<usize> {
    let axis = util::axis(axis.unwrap_or(-2), rank)?;
    if axis + 1 < rank { Ok(axis) } else { Err(Error::invalid("DFT: the axis of real and imaginary parts")) }
}

impl Op for Dft {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let number = |i| Ok::<_, Error>(cx.opt_const_ints(i)?.and_then(|v| v.first().copied()));
        let open_length = cx.any_open(&[1]);
        let form = Form::new(cx.attrs(), if open_length { None } else { number(1)? })?;
        if cx.any_open(&[2]) {
            return cx.open(cx.dtype(0)?, Some(dims.len())).map(|ty| vec![ty]);
        }
        let axis = axis(number(2)?, dims.len())?;
        let extent = match form.length {
            Some(_) => Some(form.output(0)),
            None => dims[axis].known().filter(|_| !open_length).map(|n| form.output(n)),
        };
        dims[axis] = extent.map_or_else(|| cx.fresh(0, axis), Dim::Known);
        *dims.last_mut().expect("a rank of 2 or more") = Dim::Known(if form.is_real_output() { 1 } else { 2 });
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let number = |i| Ok::<_, Error>(cx.opt_ints(i)?.and_then(|v| v.first().copied()));
        let x = cx.input(0)?;
        let form = Form::new(cx.attrs(), number(1)?)?;
        let axis = axis(number(2)?, x.shape().len())?;
        let y = with_real!(x.dtype(), "DFT", T => run::<T>(x, axis, form))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |flags: &[&str]| {
            let mut node = Node::new("dft", "DFT", 20);
            flags.iter().for_each(|name| node.attrs.set(*name, Attr::Int(1)));
            node
        };
        let numbers = [ints(DataType::S64, &[], &[4]), ints(DataType::S64, &[], &[0])];
        let run = |name, flags: &[&str], x: Tensor, y: Tensor| {
            case_const(name, node(flags), 1, &[&[x], &numbers[..]].concat(), &[y])
        };
        let full = f32s(&[4, 2], &[6.0, 0.0, -2.0, -2.0, 2.0, 0.0, -2.0, 2.0]);
        let half = f32s(&[3, 2], &[6.0, 0.0, -2.0, -2.0, 2.0, 0.0]);
        vec![
            run("c1_filled_with_zero", &[], f32s(&[3, 1], &[1.0, 2.0, 3.0]), full),
            run("c2_onesided", &["onesided"], f32s(&[3, 1], &[1.0, 2.0, 3.0]), half.clone()),
            run("c3_back_to_real", &["inverse", "onesided"], half, f32s(&[4, 1], &[1.0, 2.0, 3.0, 0.0])),
        ]
    }
}

fn run<T: Real>(x: &Tensor, axis: usize, form: Form) -> Result<Tensor> {
    let (shape, last) = (x.shape(), x.shape().len() - 1);
    let parts = shape[last];
    if parts == 0 || parts > 2 || shape[axis] == 0 {
        return Err(Error::invalid(format!("DFT: an input of shape {shape:?}, expected a last axis of 1 or 2")));
    }
    let (extent, n) = (shape[axis], form.n(shape[axis]));
    let mut out = shape.to_vec();
    (out[axis], out[last]) = (form.output(extent), if form.is_real_output() { 1 } else { 2 });
    let mut y = util::output(DataType::F64, &out)?;
    let (inner, values) = (count(&shape[axis + 1..last])?, f64::read(x)?);
    let fourier = Fourier::new(n, form.inverse)?;
    let results = y.as_slice_mut::<f64>()?;
    for line in 0..count(&shape[..axis])? * inner {
        let (block, column) = (line / inner, line % inner);
        let at = |j: usize| ((block * extent + j) * inner + column) * parts;
        let element = |j: usize| [values[at(j)], if parts == 2 { values[at(j) + 1] } else { 0.0 }];
        let line = fourier.run(&signal(n, extent, form, element));
        let scale = if form.inverse { n as f64 } else { 1.0 };
        for (k, v) in line.iter().take(out[axis]).enumerate() {
            let to = ((block * out[axis] + k) * inner + column) * out[last];
            (0..out[last]).for_each(|c| results[to + c] = v[c] / scale);
        }
    }
    T::write(x.dtype(), &out, &Tensor::collect(results.iter().map(|v| T::of(*v)))?)
}

/// (C1) and the mirrored half of (C3).
fn signal(n: usize, extent: usize, form: Form, element: impl Fn(usize) -> Complex) -> Vec<Complex> {
    let given = |j: usize| if j < extent { element(j) } else { [0.0, 0.0] };
    let at = |j: usize| match given(if form.is_real_output() { j.min(n - j) } else { j }) {
        [re, im] if form.is_real_output() && j > n / 2 => [re, -im],
        value => value,
    };
    (0..n).map(at).collect()
}
