//! The rows of [`super::attention`]: scores, bias, probabilities, weighted values.

use super::attention::Operand;
use super::real::{Real, alloc, count};
use crate::EvalCx;
use crate::util::broadcast_strides;
use ottava_hal::{DataType, Error, Result};

/// What is added to a score (clauses C3 and C4 of Attention).
pub(super) struct Mask<T> {
    /// Values of the mask, boolean ones as 0 and -inf.
    values: Vec<T>,
    /// Steps per batch, head, row; columns are contiguous.
    strides: [usize; 3],
    /// Columns that the mask has.
    columns: usize,
    causal: bool,
    left: Option<i64>,
    right: Option<i64>,
    /// Per batch: the position of query row 0, and the number of valid keys.
    offsets: Vec<(i64, i64)>,
}

impl<T: Real> Mask<T> {
    /// The mask of a node.
    pub fn of(cx: &EvalCx, q: &Operand<T>, k: &Operand<T>, past: Option<usize>) -> Result<Self> {
        let ([batch, q_heads, steps, _], keys) = (q.extents, k.extents[2]);
        let window = |name: &str| cx.attrs().int(name, -1).map(|w| (w >= 0).then_some(w));
        let (start, all) = (past.unwrap_or(0) as i64, keys as i64);
        let offsets = match cx.opt_ints(6)? {
            None => vec![(start, all); batch],
            Some(n) if n.len() == batch => n
                .into_iter()
                .map(|n| (if past.is_some() { start } else { n.saturating_sub(steps as i64) }, n))
                .collect(),
            Some(n) => {
                return Err(Error::invalid(format!("Attention: {} key lengths for a batch of {batch}", n.len())));
            }
        };
        let mut mask = Self {
            values: vec![],
            strides: [0; 3],
            columns: keys,
            causal: cx.attrs().int("is_causal", 0)? != 0,
            left: window("left_window_size")?,
            right: window("right_window_size")?,
            offsets,
        };
        if let Some(t) = cx.opt(3) {
            let Some((&columns, rows)) = t.shape().split_last() else {
                return Err(Error::invalid("Attention: a scalar mask"));
            };
            let target = [batch, q_heads, steps];
            let fits = rows.len() <= 3 && rows.iter().rev().zip(target.iter().rev()).all(|(&a, &b)| a == b || a == 1);
            if !fits || columns > keys {
                let found = t.shape();
                return Err(Error::invalid(format!("Attention: mask {found:?} for {target:?} rows of {keys} keys")));
            }
            let steps: Vec<usize> = broadcast_strides(rows, &target).iter().map(|s| s * columns).collect();
            mask.strides.copy_from_slice(&steps);
            mask.columns = columns;
            mask.values = match t.dtype() {
                DataType::Bool => t.bytes().iter().map(|&b| if b != 0 { T::default() } else { T::LOWEST }).collect(),
                _ => T::read(t)?,
            };
        }
        Ok(mask)
    }

    /// The bias of one row.
    fn row(&self, b: usize, h: usize, i: usize, out: &mut [T]) {
        let (offset, valid) = self.offsets[b];
        let position = offset.saturating_add(i as i64);
        let start = b * self.strides[0] + h * self.strides[1] + i * self.strides[2];
        for (j, v) in out.iter_mut().enumerate() {
            let distance = position.saturating_sub(j as i64);
            let open = !(self.causal && distance < 0)
                && self.left.is_none_or(|w| distance <= w)
                && self.right.is_none_or(|w| distance.saturating_neg() <= w)
                && (j as i64) < valid
                && j < self.columns;
            *v = match self.values.get(start + j) {
                _ if !open => T::LOWEST,
                Some(&m) => m,
                None => T::default(),
            };
        }
    }
}

/// The result of attention.
pub(super) struct Attended<T> {
    /// Weighted values.
    pub y: Operand<T>,
    /// Scores at the stage that the node asks for; empty where it has no such output.
    pub scores: Operand<T>,
}

/// Attention of all rows.
pub(super) fn attend<T: Real>(
    cx: &EvalCx,
    q: &Operand<T>,
    k: &Operand<T>,
    v: &Operand<T>,
    mask: &Mask<T>,
) -> Result<Attended<T>> {
    let ([batch, q_heads, steps, size], [kb, kv_heads, keys, k_size]) = (q.extents, k.extents);
    let v_size = v.extents[3];
    let fits = kb == batch && k_size == size && v.extents[..3] == k.extents[..3];
    if !fits || kv_heads == 0 || q_heads % kv_heads != 0 {
        let what = format!("Attention: queries {:?}, keys {:?}, values {:?}", q.extents, k.extents, v.extents);
        return Err(Error::invalid(what));
    }
    let scale = f64::from(cx.attrs().float("scale", 1.0 / (size as f32).sqrt())?);
    let round = rounding::<T>(cx.input(0)?.dtype());
    let root = round(T::of(scale.sqrt()));
    // A wider `softmax_precision` leaves only the result to round.
    let softmax_round =
        if cx.attrs().int("softmax_precision", 16)? == 16 { round } else { rounding::<T>(DataType::F32) };
    let cap = cx.attrs().float("softcap", 0.0)?;
    let mode = cx.attrs().int("qk_matmul_output_mode", 0)?;
    let wants_scores = cx.node.outputs.len() > 3;
    let mut y = alloc::<T>(count(&[batch, q_heads, steps, v_size])?)?;
    let mut scores = alloc::<T>(if wants_scores { count(&[batch, q_heads, steps, keys])? } else { 0 })?;
    let scaled = |values: &[T]| values.iter().map(|&x| round(x * root)).collect::<Vec<T>>();
    let (qs, ks) = (scaled(&q.data), scaled(&k.data));
    let (mut row, mut bias, mut p) = (alloc::<T>(keys)?, alloc::<T>(keys)?, alloc::<T>(keys)?);
    for r in 0..batch * q_heads * steps {
        let (b, h, i) = (r / (q_heads * steps), r / steps % q_heads, r % steps);
        let kv = (b * kv_heads + h / (q_heads / kv_heads)) * keys;
        let query = &qs[r * size..][..size];
        for (j, s) in row.iter_mut().enumerate() {
            let key = &ks[(kv + j) * size..][..size];
            *s = round(query.iter().zip(key).fold(T::default(), |acc, (&a, &b)| a.fma(b, acc)));
        }
        mask.row(b, h, i, &mut bias);
        let mut keep = |stage: i64, values: &[T]| {
            if wants_scores && mode == stage {
                scores[r * keys..][..keys].copy_from_slice(values);
            }
        };
        keep(0, &row);
        if cap > 0.0 {
            let cap = T::of(cap.into());
            row.iter_mut().for_each(|s| *s = round(round(round(*s / cap).tanh()) * cap));
        }
        keep(1, &row);
        row.iter_mut().zip(&bias).for_each(|(s, &m)| *s = round(*s + m));
        keep(2, &row);
        probabilities(&row, &bias, &mut p, softmax_round);
        keep(3, &p);
        let out = &mut y[r * v_size..][..v_size];
        for (j, &weight) in p.iter().enumerate() {
            let value = &v.data[(kv + j) * v_size..][..v_size];
            out.iter_mut().zip(value).for_each(|(o, &x)| *o = weight.fma(x, *o));
        }
    }
    let scores_extents = if wants_scores { [batch, q_heads, steps, keys] } else { [0; 4] };
    Ok(Attended { y: Operand::new([batch, q_heads, steps, v_size], y), scores: Operand::new(scores_extents, scores) })
}

/// What happens to every intermediate value of this element type (clause C6 of Attention).
fn rounding<T: Real>(dtype: DataType) -> fn(T) -> T {
    if dtype == DataType::BF16 { T::to_bf16 } else { |v| v }
}

/// Softmax of a row; all zero where the bias closes it entirely.
fn probabilities<T: Real>(row: &[T], bias: &[T], p: &mut [T], round: fn(T) -> T) {
    if bias.iter().all(|&m| m == T::LOWEST) {
        return p.fill(T::default());
    }
    let most = row.iter().fold(T::LOWEST, |m, &v| m.max_nan(v));
    let mut sum = T::default();
    for (y, &x) in p.iter_mut().zip(row) {
        *y = round(round(x - most).exp());
        sum = round(sum + *y);
    }
    p.iter_mut().for_each(|y| *y = round(*y / sum));
}
