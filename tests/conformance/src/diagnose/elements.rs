//! Tensors as lists of comparable elements, whatever their type.

use ottava_hal::Tensor;

/// The elements of all outputs behind each other, as bits.
pub(crate) struct Elements {
    bits: Vec<u128>,
    /// Number of elements of each output.
    lengths: Vec<usize>,
    /// The same elements as integers, where all outputs are integers.
    ints: Option<Vec<i64>>,
}

impl Elements {
    pub fn of(tensors: &[Tensor]) -> Self {
        let bits: Vec<Vec<u128>> = tensors.iter().map(bits_of).collect();
        let ints: Option<Vec<Vec<i64>>> =
            tensors.iter().map(|t| if t.dtype().is_integer() { t.to_ints().ok() } else { None }).collect();
        Self {
            lengths: bits.iter().map(Vec::len).collect(),
            bits: bits.into_iter().flatten().collect(),
            ints: ints.map(|lists| lists.into_iter().flatten().collect()),
        }
    }

    pub fn len(&self) -> usize {
        self.bits.len()
    }

    pub fn at(&self, i: usize) -> Option<u128> {
        self.bits.get(i).copied()
    }

    /// Indices of the elements that are not the same.
    pub fn differing(&self, other: &Self) -> Vec<usize> {
        (0..self.len()).filter(|i| self.at(*i) != other.at(*i)).collect()
    }

    /// The largest difference of integers.
    pub fn largest(&self, other: &Self) -> Option<u64> {
        let (a, b) = (self.ints.as_ref()?, other.ints.as_ref()?);
        a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max()
    }

    /// Output and index in it of an element.
    pub fn place(&self, mut flat: usize) -> (usize, usize) {
        for (output, n) in self.lengths.iter().enumerate() {
            if flat < *n {
                return (output, flat);
            }
            flat -= n;
        }
        (0, 0)
    }
}

fn bits_of(t: &Tensor) -> Vec<u128> {
    let width = t.dtype().bits() / 8;
    if width == 0 {
        return t.to_ints().unwrap_or_default().into_iter().map(|v| v as u128).collect();
    }
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0u128, |word, b| word << 8 | u128::from(*b));
    t.bytes().chunks_exact(width).map(word).collect()
}

/// An element in words.
pub(crate) fn text(t: &Tensor, i: usize) -> String {
    if t.dtype().is_float() {
        let value = t.to_f32s().ok().and_then(|v| v.get(i).copied());
        return value.map_or_else(String::new, |v| format!("{v:?} (bits {:#x})", v.to_bits()));
    }
    t.to_ints().ok().and_then(|v| v.get(i).copied()).map_or_else(String::new, |v| v.to_string())
}
