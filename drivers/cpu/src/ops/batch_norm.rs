//! BatchNormalization that was not folded into a product: `((x - mean) * inv) * scale + bias` per channel, in f32.

use super::product::constant;
use crate::builder::{Builder, input, output};
use crate::form::dims;
use crate::parallel::for_chunks;
use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::{Error, Node, OpRow, Reason, Result};

/// Elements that one task computes, about.
const CHUNK: usize = 1 << 13;

/// Rows of BatchNormalization: stored statistics, inference mode.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let inference = needs(Reason::AttrValue, "inference mode with one value per channel", |p, n| {
        let mode = n.attrs.int("training_mode", 0) == Ok(0) && n.attrs.int("spatial", 1) == Ok(1);
        let channels = n.input(0).and_then(|id| p.ty(id).shape.0.get(1).and_then(|d| d.known()));
        let stored = |id: &Option<ottava_hal::ValueId>| id.is_some_and(|id| p.ty(id).shape.elements() == channels);
        mode && channels.is_some() && n.inputs.len() == 5 && n.inputs[1..].iter().all(stored)
    });
    vec![when(row(op, vec![float(), float_constant()], float()), [inference])]
}

/// What happens to one channel.
#[derive(Clone, Copy)]
struct Channel {
    mean: f32,
    inv: f32,
    scale: f32,
    bias: f32,
}

impl Channel {
    fn apply(self, x: f32) -> f32 {
        (x - self.mean) * self.inv * self.scale + self.bias
    }
}

/// Steps of BatchNormalization.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let channels = channels(builder, node)?;
    let x = input(node, 0)?;
    let nhwc = builder.is_nhwc(x);
    let from = builder.operand(x, nhwc)?;
    let to = builder.result(output(node)?, nhwc)?;
    let inner: usize = if nhwc { 1 } else { dims(builder.ty(x))?.iter().skip(2).product() };
    let image = (channels.len() * inner).max(1);
    let chunk = CHUNK.div_ceil(image) * image;
    builder.push(
        "batchnormalization_f32",
        vec![from],
        to,
        None,
        Box::new(move |exec, mut io| {
            let x = io.read::<f32>(0)?;
            let out = io.out::<f32>()?;
            if x.len() != out.len() {
                return Err(Error::invalid("input and output differ in size"));
            }
            for_chunks(exec, out, chunk, &|i, part| {
                for (y, x) in part.chunks_mut(image).zip(x[i * chunk..].chunks(image)) {
                    for ((y, x), c) in y.chunks_mut(inner.max(1)).zip(x.chunks(inner.max(1))).zip(&channels) {
                        y.iter_mut().zip(x).for_each(|(y, x)| *y = c.apply(*x));
                    }
                }
            })
        }),
    );
    Ok(())
}

fn channels(builder: &Builder<'_>, node: &Node) -> Result<Vec<Channel>> {
    let values = |i: usize| constant(builder.program, input(node, i)?)?.as_slice::<f32>();
    let (scale, bias, mean, var) = (values(1)?, values(2)?, values(3)?, values(4)?);
    let eps = node.attrs.float("epsilon", 1e-5)?;
    let all = scale.iter().zip(bias).zip(mean.iter().zip(var));
    let one = |((scale, bias), (mean, var)): ((&f32, &f32), (&f32, &f32))| Channel {
        mean: *mean,
        inv: 1.0 / (var + eps).sqrt(),
        scale: *scale,
        bias: *bias,
    };
    Ok(all.map(one).collect())
}
