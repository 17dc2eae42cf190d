//! What a tensor may be instead of 8 bits, and what that costs.

/// How a tensor that leaves 8 bits is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// 16-bit integers: the node that computes it writes s16, its readers stay integer operators.
    S16,
    /// 32-bit floats: the nodes that read it compute in float.
    Float,
}

/// A wider form that removes this share of the noise which float removes is as good.
const AS_GOOD: f64 = 0.9;

impl Precision {
    /// Cost of a multiply-accumulate, in those of 8 bits: half as many 16-bit lanes fit in a register, a quarter
    /// as many floats, and floats are converted besides.
    pub fn mac_cost(self) -> u64 {
        match self {
            Self::S16 => 2,
            Self::Float => 5,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::S16 => "s16",
            Self::Float => "float",
        }
    }

    /// The cheaper form that removes nearly all that can be removed: `float` and `s16` are the output's relative noise
    /// with the tensor alone in that form, `None` where no chosen device runs it; `base` is that of everything in 8 bits.
    pub fn choose(base: f64, float: f64, s16: Option<f64>) -> (Self, f64) {
        match s16 {
            Some(s16) if base - s16 >= AS_GOOD * (base - float) => (Self::S16, s16),
            _ => (Self::Float, float),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_form_is_taken_where_it_is_as_good() {
        assert_eq!(Precision::choose(1.0, 0.5, None), (Precision::Float, 0.5));
        assert_eq!(Precision::choose(1.0, 0.5, Some(0.52)), (Precision::S16, 0.52));
        assert_eq!(Precision::choose(1.0, 0.5, Some(0.7)), (Precision::Float, 0.5));
        assert!(Precision::S16.mac_cost() < Precision::Float.mac_cost());
    }
}
