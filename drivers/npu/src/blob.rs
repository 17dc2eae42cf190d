//! The bytes of an executable: types, places and names, then the container of the command stream.
//!
//! Little-endian. `"ONPB"`, `u32 version`, inputs, outputs, nodes, container. Lists and texts begin with their `u32`
//! length. A type is `u32 dtype`, `u32 rank`, `u64` extents, `u32 scheme` (0 none, 1 tensor, 2 axis, 3 blocks), axis,
//! block, scales, zero points. The bytes may come from anywhere: every length is compared with what is left.

use crate::executable::Interface;
use ottava_hal::{DataType, Error, QuantParams, Result, Scheme, Status, TensorType};

const MAGIC: &[u8; 4] = b"ONPB";
const VERSION: u32 = 1;
/// More axes than any tensor of the device has.
const MAX_RANK: u32 = 16;

/// Writes an executable.
pub(crate) fn write(interface: &Interface, container: &[u8]) -> Result<Vec<u8>> {
    let mut out = Writer(MAGIC.to_vec());
    out.u32(VERSION);
    for (types, at) in [(&interface.inputs, &interface.input_at), (&interface.outputs, &interface.output_at)] {
        out.u32(types.len() as u32);
        for (ty, at) in types.iter().zip(at) {
            out.ty(ty)?;
            out.u64(*at);
        }
    }
    out.u32(interface.nodes.len() as u32);
    for (name, kernel) in &interface.nodes {
        out.bytes(name.as_bytes());
        out.bytes(kernel.as_bytes());
    }
    out.bytes(container);
    Ok(out.0)
}

/// Reads an executable; the container is not looked at.
pub(crate) fn read(bytes: &[u8]) -> Result<(Interface, &[u8])> {
    let mut from = Reader(bytes);
    if from.take(4)? != MAGIC {
        return Err(corrupt("it does not begin with ONPB"));
    }
    let version = from.u32()?;
    if version != VERSION {
        let what = format!("blob version {version}, this driver reads version {VERSION}");
        return Err(Error::failed(Status::IncompatibleBlob, what));
    }
    let (inputs, input_at) = from.values()?;
    let (outputs, output_at) = from.values()?;
    let n_nodes = from.count(8)?;
    let mut nodes = Vec::with_capacity(n_nodes);
    for _ in 0..n_nodes {
        nodes.push((from.text()?, from.text()?));
    }
    let container = from.bytes()?;
    if !from.0.is_empty() {
        return Err(corrupt("there are bytes behind the end"));
    }
    Ok((Interface { inputs, outputs, input_at, output_at, nodes }, container))
}

fn corrupt(what: &str) -> Error {
    Error::failed(Status::CorruptBlob, format!("the blob is damaged: {what}; compile the program again"))
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, v: u32) {
        self.0.extend(v.to_le_bytes());
    }

    fn u64(&mut self, v: u64) {
        self.0.extend(v.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn ty(&mut self, ty: &TensorType) -> Result<()> {
        let dims = ty.shape.known().ok_or_else(|| Error::invalid("a saved type has a fixed shape"))?;
        self.u32(ty.dtype as u32);
        self.u32(dims.len() as u32);
        dims.iter().for_each(|&d| self.u64(d as u64));
        let Some(quant) = ty.quant.as_deref() else {
            self.u32(0);
            return Ok(());
        };
        let (scheme, axis, block) = match quant.scheme {
            Scheme::PerTensor => (1, 0, 0),
            Scheme::PerAxis { axis } => (2, axis, 0),
            Scheme::Blocked { axis, block } => (3, axis, block),
        };
        self.u32(scheme);
        self.u64(axis as u64);
        self.u64(block as u64);
        self.u32(quant.scales.len() as u32);
        quant.scales.iter().for_each(|s| self.u32(s.to_bits()));
        quant.zero_points.iter().for_each(|z| self.u32(z.cast_unsigned()));
        Ok(())
    }
}

/// What is left of the bytes.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, n: usize) -> Result<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or_else(|| corrupt("it ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }

    fn size(&mut self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| corrupt("a number is too large"))
    }

    /// A number of things of at least `least` bytes each.
    fn count(&mut self, least: usize) -> Result<usize> {
        let n = self.u32()? as usize;
        if n.checked_mul(least).is_some_and(|bytes| bytes <= self.0.len()) {
            return Ok(n);
        }
        Err(corrupt("a list is longer than the blob"))
    }

    fn bytes(&mut self) -> Result<&'b [u8]> {
        let n = self.size()?;
        self.take(n)
    }

    fn text(&mut self) -> Result<String> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| corrupt("a name is no text"))
    }

    fn values(&mut self) -> Result<(Vec<TensorType>, Vec<u64>)> {
        let n = self.count(20)?;
        let (mut types, mut places) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for _ in 0..n {
            types.push(self.ty()?);
            places.push(self.u64()?);
        }
        Ok((types, places))
    }

    fn ty(&mut self) -> Result<TensorType> {
        let dtype = DataType::from_u32(self.u32()?).ok_or_else(|| corrupt("an element type is unknown"))?;
        let rank = self.u32()?;
        if rank > MAX_RANK {
            return Err(corrupt("a tensor has too many axes"));
        }
        let dims = (0..rank).map(|_| self.size()).collect::<Result<Vec<_>>>()?;
        let ty = TensorType::fixed(dtype, &dims);
        let scheme = self.u32()?;
        if scheme == 0 {
            return Ok(ty);
        }
        let (axis, block) = (self.size()?, self.size()?);
        let scheme = match scheme {
            1 => Scheme::PerTensor,
            2 => Scheme::PerAxis { axis },
            3 if block > 0 => Scheme::Blocked { axis, block },
            _ => return Err(corrupt("a quantization scheme is unknown")),
        };
        let n = self.count(8)?;
        let scales = (0..n).map(|_| self.u32().map(f32::from_bits)).collect::<Result<_>>()?;
        let zero_points = (0..n).map(|_| self.u32().map(u32::cast_signed)).collect::<Result<_>>()?;
        let quant = QuantParams { scheme, scales, zero_points };
        quant.check(dtype, Some(&dims)).map_err(|e| corrupt(&e))?;
        Ok(ty.quantized(quant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        let quant = QuantParams::per_axis_symmetric(1, vec![0.5, 0.25]);
        Interface {
            inputs: vec![TensorType::fixed(DataType::S8, &[3, 2]).quantized(quant)],
            outputs: vec![TensorType::fixed(DataType::F32, &[])],
            input_at: vec![64],
            output_at: vec![0],
            nodes: vec![("conv".into(), "gemm 4x4x4".into())],
        }
    }

    #[test]
    fn bytes_read_back() {
        let bytes = write(&interface(), b"stream").unwrap();
        let (found, container) = read(&bytes).unwrap();
        assert_eq!((found, container), (interface(), &b"stream"[..]));
    }

    #[test]
    fn no_damage_panics_and_no_cut_passes() {
        let bytes = write(&interface(), b"stream").unwrap();
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err(), "cut at {n}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[n] ^= 1 << bit;
                drop(read(&damaged));
            }
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(read(&long).unwrap_err().to_string().contains("behind the end"));
        let mut other = bytes;
        other[4] = 9;
        assert_eq!(read(&other).unwrap_err().status(), Status::IncompatibleBlob);
    }
}
