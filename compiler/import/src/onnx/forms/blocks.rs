//! MatMulNBits: a product with weights of 4 or 8 bits that share scales in blocks, as a blocked DequantizeLinear of the
//! weights, a Transpose and a MatMul.
//!
//! Stored are rows (one per output) of `ceil(K / block_size)` blocks, elements of 4 bits packed low one first; the
//! last block is filled up. Weights, scales and zero points must be constants, as every exporter writes them.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::{Attr, DataType, Tensor};

/// The operator set that has blocked quantization.
const BLOCKED_OPSET: u32 = 21;

/// Numbers that a node states.
struct Form {
    /// Inputs and outputs of the product.
    k: usize,
    n: usize,
    bits: usize,
    block: usize,
}

impl Form {
    fn read(node: &RawNode) -> Result<Self, Refusal> {
        let number = |name: &str| match node.attrs.int_opt(name)? {
            Some(v) => match usize::try_from(v).ok().filter(|v| *v > 0) {
                Some(v) => Ok(v),
                None => Refusal::invalid(format!("attribute `{name}` is {v}; expected 1 or more")),
            },
            None => Refusal::invalid(format!("attribute `{name}` is missing")),
        };
        let form = Self { k: number("K")?, n: number("N")?, bits: number("bits")?, block: number("block_size")? };
        if ![4, 8].contains(&form.bits) {
            return Refusal::unsupported(format!("weights of {} bits; 4 and 8 are supported", form.bits));
        }
        Ok(form)
    }

    fn dtype(&self) -> DataType {
        if self.bits == 4 { DataType::U4 } else { DataType::U8 }
    }

    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Bytes that `n` elements take.
    fn bytes(&self, n: usize) -> usize {
        n.saturating_mul(self.bits).div_ceil(8)
    }

    /// `rows` rows of the first `columns` elements of packed rows of `row` bytes.
    fn unpack(&self, packed: &Tensor, [rows, columns, row]: [usize; 3], what: &str) -> Result<Tensor, Refusal> {
        if packed.dtype() != DataType::U8 || rows.checked_mul(row) != Some(packed.elements()) {
            let found = packed.ty();
            return Refusal::invalid(format!("{what} is {found}; expected {rows} rows of {row} bytes"));
        }
        let used = self.bytes(columns);
        let lines = packed.bytes().chunks_exact(row.max(1)).map(|line| &line[..used]);
        if self.bits == 8 || columns.is_multiple_of(2) {
            let bytes: Vec<u8> = lines.flatten().copied().collect();
            return Ok(Tensor::from_bytes(self.dtype(), &[rows, columns], &bytes)?);
        }
        let nibbles = |line: &[u8]| line.iter().flat_map(|b| [b & 15, b >> 4]).take(columns).collect::<Vec<_>>();
        let values: Vec<i64> = lines.flat_map(nibbles).map(i64::from).collect();
        Ok(Tensor::from_ints(self.dtype(), &[rows, columns], &values)?)
    }
}

/// MatMulNBits(A, B, scales, zero_points, g_idx, bias).
pub(super) fn matmul_n_bits(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let form = Form::read(&node)?;
    if node.input(4).is_some() {
        return Refusal::unsupported("input `g_idx` (columns in another order) is not supported; export without it");
    }
    let (blocks, n) = (form.blocks(), form.n);
    let stored = form.bytes(form.block).checked_mul(blocks);
    let too_large = || Refusal::Invalid("the attributes ask for more bytes than can be addressed".to_owned());
    let weights = constant(cx, &node, 1, "B")?;
    let weights = form.unpack(weights, [n, form.k, stored.ok_or_else(too_large)?], "B")?;
    let scales = constant(cx, &node, 2, "scales")?;
    if n.checked_mul(blocks) != Some(scales.elements()) {
        return Refusal::invalid(format!("scales is {}; expected {n} times {blocks} elements", scales.ty()));
    }
    let scales = scales.reshaped(&[n, blocks])?;
    let zero_points = match node.input(3) {
        None => Tensor::from_ints(form.dtype(), &[n, blocks], &vec![1 << (form.bits - 1); n * blocks])?,
        Some(_) => {
            let packed = constant(cx, &node, 3, "zero_points")?;
            if packed.dtype() != DataType::U8 {
                return Refusal::unsupported("zero points that are no integers are not supported");
            }
            form.unpack(packed, [n, blocks, form.bytes(blocks)], "zero_points")?
        }
    };
    let parts = [("weights", weights), ("scales", scales), ("zero_points", zero_points)];
    let inputs = parts.map(|(part, data)| cx.constant(&node, part, data));
    product(cx, node, inputs.into(), form.block)
}

/// The nodes, from the constants on.
fn product(cx: &mut Cx, node: RawNode, inputs: Vec<Option<String>>, block: usize) -> Result<(), Refusal> {
    let mut dequantize = cx.node(&node, "dequantize", "DequantizeLinear");
    dequantize.attrs.set("axis", Attr::Int(1));
    dequantize.attrs.set("block_size", Attr::Int(i64::try_from(block).unwrap_or(i64::MAX)));
    let rows = cx.value(&node, "rows");
    (dequantize.inputs, dequantize.outputs) = (inputs, vec![rows.clone()]);
    cx.emit(dequantize, BLOCKED_OPSET)?;
    let mut transpose = cx.node(&node, "transpose", "Transpose");
    transpose.attrs.set("perm", Attr::Ints(vec![1, 0]));
    let columns = cx.value(&node, "columns");
    (transpose.inputs, transpose.outputs) = (vec![rows], vec![columns.clone()]);
    cx.emit(transpose, BASE_OPSET)?;
    let a = node.input(0).map(str::to_owned);
    let Some(bias) = node.input(5).map(str::to_owned) else {
        let mut last = RawNode::new(node.name, "MatMul");
        (last.inputs, last.outputs) = (vec![a, columns], node.outputs);
        return cx.emit(last, BASE_OPSET);
    };
    let mut matmul = cx.node(&node, "product", "MatMul");
    let value = cx.value(&node, "product");
    (matmul.inputs, matmul.outputs) = (vec![a, columns], vec![value.clone()]);
    cx.emit(matmul, BASE_OPSET)?;
    let mut last = RawNode::new(node.name, "Add");
    (last.inputs, last.outputs) = (vec![value, Some(bias)], node.outputs);
    cx.emit(last, BASE_OPSET)
}

fn constant<'a>(cx: &'a Cx, node: &RawNode, i: usize, name: &str) -> Result<&'a Tensor, Refusal> {
    match cx.input_constant(node, i) {
        Some(data) => Ok(data),
        None => Refusal::unsupported(format!("input `{name}` must be a constant")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    fn node(k: i64, bits: i64, bytes: &[u8], scales: &[f32]) -> Sample {
        let b = Tensor::from_slice(&[1, bytes.len(), 1], bytes).expect("bytes");
        let scales = Tensor::from_slice(&[scales.len()], scales).expect("scales");
        let node = Sample::new("com.microsoft::MatMulNBits", 1).constant("b", b).constant("s", scales);
        let node = node.outputs("y").attr("K", Attr::Int(k)).attr("N", Attr::Int(1)).attr("bits", Attr::Int(bits));
        node.attr("block_size", Attr::Int(4))
    }

    #[test]
    fn nibbles_are_cut_to_their_rows() {
        // Two blocks of four nibbles, of which the last is not used.
        node(7, 4, &[0x21, 0x43, 0x65, 0x07], &[0.5, 2.0]).inputs("a b s").gives(&[
            "DequantizeLinear@21 n/weights n/scales n/zero_points -> n/rows axis=1 block_size=4",
            "Transpose@13 n/rows -> n/columns perm=[1, 0]",
            "MatMul@13 a n/columns -> y",
            "n/weights = u4[1, 7] [1, 2, 3, 4, 5, 6, 7]",
            "n/scales = f32[1, 2] [0.5, 2.0]",
            "n/zero_points = u4[1, 2] [8, 8]",
        ]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        node(4, 2, &[0], &[1.0]).inputs("a b s").refused_for("weights of 2 bits");
        node(4, 8, &[1, 2, 3, 4], &[1.0]).inputs("a b s - g").refused_for("`g_idx`");
        node(4, 8, &[1, 2, 3], &[1.0]).inputs("a b s").refused_for("expected 1 rows of 4 bytes");
        node(4, 8, &[1, 2, 3, 4], &[1.0]).inputs("a x s").refused_for("input `B` must be a constant");
    }
}
