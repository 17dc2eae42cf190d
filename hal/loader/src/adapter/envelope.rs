//! The bytes of a saved executable: the driver's own, behind what the adapter must know to use them again.
//!
//! A driver's bytes do not say which types inputs and outputs have, so the adapter writes them in front. What is read here
//! may come from strangers: every error is `CorruptBlob`.

use ottava_hal::wire::{Reader, Writer, corrupt};
use ottava_hal::{Result, TensorType};

/// First bytes.
const MAGIC: &[u8; 8] = b"OTTAVAx1";
/// Fewest bytes of a type or name; bounds the memory that a wrong count can ask for.
const LEAST: usize = 4;

/// What stands in front of a driver's bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    /// Types of the inputs.
    pub inputs: Vec<TensorType>,
    /// Types of the outputs.
    pub outputs: Vec<TensorType>,
    /// Names of the nodes, by id.
    pub nodes: Vec<String>,
}

/// Head and driver's bytes as one.
pub(crate) fn seal(head: &Head, payload: &[u8]) -> Vec<u8> {
    let mut w = Writer::default();
    w.raw(MAGIC);
    w.list(&head.inputs, |w, ty| w.tensor_type(ty));
    w.list(&head.outputs, |w, ty| w.tensor_type(ty));
    w.list(&head.nodes, |w, name| w.str(name));
    w.block(payload);
    w.into_bytes()
}

/// The parts of [`seal`].
pub(crate) fn open(bytes: &[u8]) -> Result<(Head, &[u8])> {
    let mut r = Reader::new(bytes);
    if r.raw(MAGIC.len())? != MAGIC {
        return Err(corrupt("the bytes are no executable of a loaded driver"));
    }
    let inputs = r.list(LEAST, Reader::tensor_type)?;
    let outputs = r.list(LEAST, Reader::tensor_type)?;
    let nodes = r.list(LEAST, |r| r.str().map(str::to_owned))?;
    let payload = r.block()?;
    r.end()?;
    Ok((Head { inputs, outputs, nodes }, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, QuantParams, Status};

    fn head() -> Head {
        let ty = TensorType::fixed(DataType::U8, &[1, 8]).quantized(QuantParams::per_tensor(0.5, 3));
        Head { inputs: vec![ty.clone(), ty.clone()], outputs: vec![ty], nodes: vec!["conv".into()] }
    }

    #[test]
    fn what_is_sealed_opens() {
        let bytes = seal(&head(), b"driver's own");
        assert_eq!(open(&bytes), Ok((head(), &b"driver's own"[..])));
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = seal(&head(), b"driver's own");
        for n in 0..bytes.len() {
            assert_eq!(open(&bytes[..n]).unwrap_err().status(), Status::CorruptBlob, "{n} bytes");
        }
        for i in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[i] ^= 0x80;
            // A changed name or payload is for the blob's hash to find; nothing here may panic.
            let _ = open(&bytes);
        }
    }
}
