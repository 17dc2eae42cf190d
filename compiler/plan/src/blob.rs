//! Compiled programs: what they were made for, and whether one fits a device.
//!
//! A blob is used only if every field of its key is that of the device, the driver, the program and the options at hand;
//! anything else means compiling anew, with a sentence that says why.

use crate::file::sha;
use crate::{Blob, Partition};
use ottava_hal::wire::{self, Store, Writer};
use ottava_hal::{
    BlobKey, CompileOptions, DataType, DeviceInfo, DriverInfo, Options, Program, RequantMode, Result, Status, Tensor,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The key of a program compiled for a device, without its payload's length and hash. `device_options` are those the
/// device was opened with.
///
/// # Errors
/// Only when the program is too large to encode.
pub fn blob_key(
    driver: &DriverInfo,
    device: &DeviceInfo,
    program: &Program,
    options: &CompileOptions,
    device_options: &Options,
) -> Result<BlobKey> {
    let (program_hash, quant_hash) = program_hashes(program)?;
    Ok(BlobKey {
        driver: driver.name.clone(),
        driver_version: driver.version.clone(),
        uuid: device.uuid,
        hw_rev: device.hw_rev,
        ir_version: wire::VERSION,
        core_hash: core_hash(),
        ops_hash: ops_hash(program),
        program_hash,
        quant_hash,
        options_hash: options_hash(options, device_options),
        payload_len: 0,
        payload_sha256: [0; 32],
    })
}

/// The first eight bytes of the SHA-256 of what is written.
fn short(w: &Writer) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = sha(w.bytes());
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Hash of the numbers that programs are made of.
fn core_hash() -> u64 {
    let mut w = Writer::default();
    for ty in DataType::ALL {
        w.u32(ty as u32);
        w.str(ty.name());
    }
    RequantMode::ALL.iter().for_each(|mode| w.u32(mode.as_u32()));
    Status::ALL.iter().for_each(|status| w.i32(*status as i32));
    short(&w)
}

/// Hash of the operators that the program uses, with their versions.
fn ops_hash(program: &Program) -> u64 {
    let ops: BTreeSet<(&str, &str, u32)> =
        program.nodes.iter().map(|n| (n.domain.as_str(), n.op.as_str(), n.version)).collect();
    let mut w = Writer::default();
    for (domain, op, version) in ops {
        w.str(domain);
        w.str(op);
        w.u32(version);
    }
    short(&w)
}

/// Hashes of the program without its quantization, and of every scale and zero point.
fn program_hashes(program: &Program) -> Result<(u64, u64)> {
    let (mut plain, mut quant) = (program.clone(), Writer::default());
    for value in &mut plain.values {
        let params = value.ty.quant.take();
        quant.bool(params.is_some());
        if let Some(params) = params {
            quant.quant(&params);
        }
    }
    let mut w = Writer::default();
    wire::encode(&plain, &mut Contents, &mut w)?;
    Ok((short(&w), short(&quant)))
}

fn options_hash(options: &CompileOptions, device_options: &Options) -> u64 {
    let mut w = Writer::default();
    w.bool(options.exact_only);
    w.bool(options.debug);
    for (key, value) in device_options {
        w.str(key);
        w.str(value);
    }
    short(&w)
}

/// Stands for the data of constants by its hash.
struct Contents;

impl Store for Contents {
    fn store(&mut self, tensor: &Tensor) -> Result<Option<u64>> {
        Ok(Some(content_hash(tensor.bytes())))
    }
}

/// Words that are hashed side by side: the multiplications of one word after the other would wait for each other.
const LANES: usize = 4;

/// A hash for telling constants apart, several times faster than SHA-256: words are mixed in by multiplication to 128 bits
/// whose halves are folded together, so that every bit reaches every other.
fn content_hash(bytes: &[u8]) -> u64 {
    let mut lanes: [u64; LANES] = core::array::from_fn(|i| mix(bytes.len() as u64, i as u64));
    let (rows, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    let mut last = [0; 8 * LANES];
    last[..rest.len()].copy_from_slice(rest);
    for row in rows.iter().chain([&last]) {
        for (lane, word) in lanes.iter_mut().zip(row.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    lanes.into_iter().fold(0, mix)
}

/// One step of [`content_hash`].
fn mix(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
    (wide as u64) ^ (wide >> 64) as u64
}

impl Blob {
    /// A blob of what [`Device::serialize`](ottava_hal::Device::serialize) has returned; completes the key.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(key: BlobKey, payload: impl Into<Vec<u8>>) -> Result<Self> {
        let payload = payload.into();
        let (n, payload_sha256) = (payload.len(), sha(&payload));
        let key = BlobKey { payload_len: n as u64, payload_sha256, ..key };
        Ok(Self { key, payload: Tensor::from_shared(DataType::U8, &[n], Arc::new(payload), 0)? })
    }

    /// Whether the payload is the one that the key was made for. Opening a plan file has compared it already.
    pub fn is_intact(&self) -> bool {
        self.key.payload_len == self.payload.bytes().len() as u64
            && self.key.payload_sha256 == sha(self.payload.bytes())
    }
}

impl Partition {
    /// The blob that fits a key by [`blob_key`].
    ///
    /// # Errors
    /// A note for the report that says why there is none: the program must be compiled anew.
    pub fn blob_for(&self, key: &BlobKey) -> Result<&Blob, String> {
        if let Some(blob) = self.blobs.iter().find(|b| difference(&b.key, key).is_none()) {
            return Ok(blob);
        }
        let (name, device) = (&self.program.name, &self.device);
        let why = match self.blobs.iter().find_map(|b| difference(&b.key, key)) {
            Some(why) => format!("its compiled programs do not fit: {why}"),
            None => "the plan has no compiled program for it".into(),
        };
        Err(format!("partition `{name}` is compiled anew for device `{device}`: {why}"))
    }
}

/// In what a blob's key differs from the one that is wanted.
fn difference(found: &BlobKey, wanted: &BlobKey) -> Option<String> {
    let changed = |what: &str| Some(format!("{what} is another"));
    if (&found.driver, &found.driver_version) != (&wanted.driver, &wanted.driver_version) {
        let BlobKey { driver, driver_version, .. } = wanted;
        return Some(format!(
            "made by driver {} {}, this is {driver} {driver_version}",
            found.driver, found.driver_version
        ));
    }
    if found.uuid != wanted.uuid {
        return changed("the device");
    }
    if found.hw_rev != wanted.hw_rev {
        return changed("the device's revision or instruction set");
    }
    if (found.ir_version, found.core_hash, found.ops_hash) != (wanted.ir_version, wanted.core_hash, wanted.ops_hash) {
        return changed("the version of the program's encoding or operators");
    }
    if found.program_hash != wanted.program_hash {
        return changed("the program");
    }
    if found.quant_hash != wanted.quant_hash {
        return changed("the quantization");
    }
    if found.options_hash != wanted.options_hash {
        return changed("a compile option or an option of the device");
    }
    None
}
