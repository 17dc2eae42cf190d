//! The operator list: one slice per family, explicit and greppable.

use crate::{Op, control, elementwise, movement, nn, quant, recurrent, reduce, tensor};
use ottava_hal::{Error, Reason, Result};

/// Every operator, by family.
pub static OPS: &[&[&dyn Op]] = &[
    elementwise::TABLE,
    movement::TABLE,
    tensor::TABLE,
    reduce::TABLE,
    nn::TABLE,
    recurrent::TABLE,
    quant::TABLE,
    control::TABLE,
];

/// Every operator.
pub fn all() -> impl Iterator<Item = &'static dyn Op> {
    OPS.iter().flat_map(|family| family.iter().copied())
}

/// The operator of a domain and name, or an error that names it.
pub fn lookup(domain: &str, name: &str) -> Result<&'static dyn Op> {
    all().find(|op| op.spec().name == name && op.spec().domain == domain).ok_or_else(|| {
        let sep = if domain.is_empty() { "" } else { "::" };
        Error::unsupported(Reason::OpUnknown, format!("operator {domain}{sep}{name} is not implemented"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for op in all() {
            let spec = op.spec();
            assert!(seen.insert((spec.domain, spec.name)), "{} is listed twice", spec.name);
            assert!(spec.inputs.0 <= spec.inputs.1 && spec.outputs.0 <= spec.outputs.1, "{}", spec.name);
        }
    }
}
