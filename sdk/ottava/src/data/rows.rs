//! Arrays matched to the inputs of a network, cut into batches.

use super::{ANY, Affine, Data, convert};
use crate::error::{Error, Result, codes};
use crate::suggest;
use ottava_hal::{DataType, Dim, Tensor, TensorType};
use std::collections::BTreeMap;
use std::ops::Range;

/// One input with the array that feeds it.
#[derive(Debug, Clone)]
pub struct FeedInput {
    /// Name of the input.
    pub name: String,
    /// Element type of the input.
    pub dtype: DataType,
    /// Extents of one row, as the network wants them.
    pub row: Vec<usize>,
    /// The stored array, `[rows, ..]`.
    array: Tensor,
    /// The array is the whole input of every run, whatever the rows: the state that a recurrent network starts from.
    is_whole: bool,
}

/// Every input of a network with its array.
#[derive(Debug, Clone)]
pub struct Feed {
    /// Inputs in the network's order.
    pub inputs: Vec<FeedInput>,
    /// Rows of every array.
    pub n_rows: usize,
    /// Rows that the network takes at once, where its file fixes them.
    pub fixed_batch: Option<usize>,
    /// Values of the symbolic dimensions that the arrays decide (not those of axis 0).
    pub dims: BTreeMap<String, usize>,
    affine: Affine,
}

impl Feed {
    /// Matches arrays to inputs (name and declared type). `affine` replaces the data's own map.
    pub fn new(data: &Data, inputs: &[(String, TensorType)], affine: Option<Affine>) -> Result<Self> {
        let affine = affine.or(data.affine).unwrap_or_default();
        let mut feed = Self { inputs: vec![], n_rows: 0, fixed_batch: None, dims: BTreeMap::new(), affine };
        for (i, (name, ty)) in inputs.iter().enumerate() {
            let array = find(data, name, inputs)?;
            feed.add(name, ty, array, i == 0).map_err(|e| e.in_file(&data.origin))?;
        }
        if feed.n_rows == 0 {
            let what = if inputs.is_empty() { "the model has no inputs to feed" } else { "the data has no rows" };
            return Err(Error::invalid(codes::DATA_SHAPE, what).in_file(&data.origin).expected("one row or more"));
        }
        Ok(feed)
    }

    fn add(&mut self, name: &str, ty: &TensorType, array: &Tensor, first: bool) -> Result<()> {
        let wrong = |what: &str| {
            Error::invalid(codes::DATA_SHAPE, what)
                .at(format!("array for input `{name}`"))
                .found(format!("{:?}", array.shape()))
        };
        let (Some((batch, rest)), Some((&n, stored))) = (ty.shape.0.split_first(), array.shape().split_first()) else {
            return Err(wrong("the array and the input need an axis of rows").expected(&ty.shape));
        };
        let is_whole = !first && n != self.n_rows && ty.shape.known().is_some_and(|shape| shape == array.shape());
        if is_whole {
            let (name, row) = (name.to_owned(), stored.to_vec());
            self.inputs.push(FeedInput { name, dtype: ty.dtype, row, array: array.clone(), is_whole });
            return Ok(());
        }
        if !first && n != self.n_rows {
            return Err(wrong("not as many rows as the other arrays").expected(format!("{} rows", self.n_rows)));
        }
        self.n_rows = n;
        if let Dim::Known(k) = batch {
            if *k == 0 || self.fixed_batch.is_some_and(|b| b != *k) {
                return Err(wrong("the inputs are not batched alike; feed this network with `run`").expected(&ty.shape));
            }
            self.fixed_batch = Some(*k);
        }
        let row = self.match_row(rest, stored).ok_or_else(|| {
            wrong("the rows do not have the input's shape")
                .expected(format!("[rows{}]", rest.iter().map(|d| format!(", {d}")).collect::<String>()))
        })?;
        self.inputs.push(FeedInput { name: name.to_owned(), dtype: ty.dtype, row, array: array.clone(), is_whole });
        Ok(())
    }

    /// The extents of a row, with symbols taken from the array; extents of 1 may be missing from the array.
    fn match_row(&mut self, declared: &[Dim], stored: &[usize]) -> Option<Vec<usize>> {
        let squeezed = |d: &Dim| *d != Dim::Known(1);
        let same_rank = declared.len() == stored.len();
        let stored: Vec<usize> = stored.iter().copied().filter(|&n| same_rank || n != 1).collect();
        let mut left = stored.into_iter();
        let mut row = Vec::with_capacity(declared.len());
        for dim in declared {
            if !same_rank && !squeezed(dim) {
                row.push(1);
                continue;
            }
            let n = left.next()?;
            match dim {
                Dim::Known(k) if *k == n => {}
                Dim::Sym(s) if *self.dims.entry(s.to_string()).or_insert(n) == n => {}
                _ => return None,
            }
            row.push(n);
        }
        left.next().is_none().then_some(row)
    }

    /// The inputs of rows `start..start + count`, in the network's order; a short tail repeats its last row up to
    /// `batch` rows.
    pub fn batch(&self, start: usize, count: usize, batch: usize) -> Result<Vec<Tensor>> {
        self.inputs.iter().map(|i| i.rows(start, count, batch, self.affine)).collect()
    }

    /// Starts and lengths of the batches of `0..limit`.
    pub fn batches(&self, batch: usize, limit: Option<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
        batches_of(0..self.n_rows.min(limit.unwrap_or(usize::MAX)), batch)
    }
}

/// Starts and lengths of the batches of a range of rows.
pub fn batches_of(rows: Range<usize>, batch: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (end, batch) = (rows.end, batch.max(1));
    rows.step_by(batch).map(move |start| (start, batch.min(end - start)))
}

impl FeedInput {
    fn rows(&self, start: usize, count: usize, batch: usize, affine: Affine) -> Result<Tensor> {
        let fail = |e: ottava_hal::Error| Error::invalid(codes::DATA_SHAPE, e.to_string());
        if self.is_whole {
            return convert(&self.array, self.dtype, Affine::default());
        }
        let n = self.array.shape().first().copied().unwrap_or(0);
        let end = start.checked_add(count).filter(|&e| e <= n && count > 0 && count <= batch);
        let end = end.ok_or_else(|| {
            Error::invalid(codes::DATA_SHAPE, format!("rows {start}+{count} of {n} for a batch of {batch}"))
        })?;
        let row_bytes = self.array.bytes().len() / n;
        let bytes = &self.array.bytes()[start * row_bytes..end * row_bytes];
        let mut padded = bytes.to_vec();
        for _ in count..batch {
            padded.extend_from_slice(&bytes[(count - 1) * row_bytes..]);
        }
        let mut shape = vec![batch];
        shape.extend(&self.row);
        let stored = Tensor::from_bytes(self.array.dtype(), &shape, &padded).map_err(fail)?;
        convert(&stored, self.dtype, affine).map_err(|e| e.at(format!("array for input `{}`", self.name)))
    }
}

/// The array of an input: by its name, or `x` (or whatever the only array is called) for the only input.
fn find<'a>(data: &'a Data, name: &str, inputs: &[(String, TensorType)]) -> Result<&'a Tensor> {
    let any = if inputs.len() == 1 { data.arrays.get(ANY) } else { None };
    data.arrays.get(name).or(any).ok_or_else(|| {
        let names: Vec<&str> = data.arrays.keys().map(String::as_str).collect();
        let expected = if inputs.len() == 1 { format!("`{name}` or `{ANY}`") } else { format!("`{name}`") };
        Error::invalid(codes::DATA_ARRAY, format!("there is no array for input `{name}`"))
            .in_file(&data.origin)
            .found(if names.is_empty() { "no array".to_owned() } else { format!("`{}`", names.join("`, `")) })
            .expected(expected)
            .help(suggest::hint(name, names))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Shape;

    fn ty(dims: &[Dim]) -> TensorType {
        TensorType::new(DataType::F32, Shape(dims.to_vec()))
    }

    fn sym(s: &str) -> Dim {
        Dim::Sym(s.into())
    }

    fn data(arrays: &[(&str, &[usize])]) -> Data {
        let one = |(name, shape): &(&str, &[usize])| {
            let n: usize = shape.iter().product();
            let values: Vec<u8> = (0..n).map(|v| v as u8).collect();
            ((*name).to_owned(), Tensor::from_slice(shape, &values).unwrap())
        };
        Data::from_arrays("d.npz", arrays.iter().map(one).collect())
    }

    #[test]
    fn rows_are_converted_and_a_tail_is_padded_with_its_last_row() {
        let inputs = [("image".to_owned(), ty(&[sym("N"), Dim::Known(2)]))];
        let feed = Feed::new(&data(&[("x", &[3, 2])]), &inputs, None).unwrap();
        assert_eq!(feed.batches(2, None).collect::<Vec<_>>(), [(0, 2), (2, 1)]);
        let tail = feed.batch(2, 1, 2).unwrap();
        assert_eq!(tail[0].as_slice::<f32>().unwrap(), [4.0, 5.0, 4.0, 5.0]);
        assert!(feed.batch(2, 2, 2).is_err());
        assert_eq!(feed.batches(2, Some(1)).collect::<Vec<_>>(), [(0, 1)]);
    }

    #[test]
    fn symbols_beyond_axis_0_come_from_the_arrays_and_must_agree() {
        let inputs = [("a".to_owned(), ty(&[sym("B"), sym("S")])), ("b".to_owned(), ty(&[sym("B"), sym("S")]))];
        let feed = Feed::new(&data(&[("a", &[2, 5]), ("b", &[2, 5])]), &inputs, None).unwrap();
        assert_eq!(feed.dims, BTreeMap::from([("S".to_owned(), 5)]));
        assert!(Feed::new(&data(&[("a", &[2, 5]), ("b", &[2, 4])]), &inputs, None).is_err());
        let e = Feed::new(&data(&[("a", &[2, 5]), ("b", &[3, 5])]), &inputs, None).unwrap_err();
        assert!(e.to_string().contains("expected 2 rows"), "{e}");
    }

    #[test]
    fn a_missing_array_is_named_with_what_is_there() {
        let inputs = [("image".to_owned(), ty(&[sym("N"), Dim::Known(2)]))];
        let e = Feed::new(&data(&[("imag", &[3, 2])]), &inputs, None).unwrap_err();
        assert!(e.to_string().contains("did you mean `imag`?"), "{e}");
        let e = Feed::new(&data(&[("x", &[3, 4])]), &inputs, None).unwrap_err();
        assert!(e.to_string().contains("found [3, 4]; expected [rows, 2]"), "{e}");
    }

    #[test]
    fn no_rows_are_an_error() {
        let inputs = [("image".to_owned(), ty(&[sym("N"), Dim::Known(2)]))];
        let e = Feed::new(&data(&[("x", &[0, 2])]), &inputs, None).unwrap_err();
        assert!(e.to_string().contains("the data has no rows; expected one row or more"), "{e}");
        assert!(Feed::new(&data(&[("x", &[1, 2])]), &[], None).is_err());
    }

    #[test]
    fn a_state_of_fixed_shape_is_fed_whole_to_every_run() {
        let inputs =
            [("x".to_owned(), ty(&[sym("T"), Dim::Known(2)])), ("h".to_owned(), ty(&[Dim::Known(1), Dim::Known(3)]))];
        let feed = Feed::new(&data(&[("x", &[5, 2]), ("h", &[1, 3])]), &inputs, None).unwrap();
        assert_eq!((feed.n_rows, feed.fixed_batch), (5, None));
        let last = feed.batch(4, 1, 4).unwrap();
        assert_eq!((last[0].shape(), last[1].shape()), ([4usize, 2].as_slice(), [1usize, 3].as_slice()));
        assert_eq!(last[1].as_slice::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn extents_of_one_may_be_missing() {
        let inputs = [("i".to_owned(), ty(&[Dim::Known(1), Dim::Known(2), Dim::Known(1)]))];
        let feed = Feed::new(&data(&[("x", &[3, 2])]), &inputs, None).unwrap();
        assert_eq!((feed.inputs[0].row.as_slice(), feed.fixed_batch), ([2usize, 1].as_slice(), Some(1)));
    }
}
