//! The container NPUC: commands, constants, region sizes and the map from instructions to program nodes.
//!
//! Little-endian. Header, 24 bytes: `"NPUC"`, `u8 version = 1`, `u8 flags` (bit 0: checksum present), `u16 sections`,
//! `u32 capability bits`, `u32 CRC-32 of all bytes behind the header` (0 without checksum), `u64 config hash`. Then per
//! section `u32 kind, u32 offset, u32 bytes, u32 0`, kinds ascending, each at most once: 1 `cmd` (instructions), 2
//! `const` (initial bytes of region 3), 3 `reloc` (per region a `u64`: the bytes the stream may address), 4 `dbg`
//! (`u32 first instruction, u32 node`, ascending).

use super::table::caps;
use super::{DecodeError, INST_BYTES, Inst};
use std::ops::Range;
use thiserror::Error;

const MAGIC: &[u8; 4] = b"NPUC";
const VERSION: u8 = 1;
const HEADER: usize = 24;
const ENTRY: usize = 16;
const HAS_CRC: u8 = 1;

/// From `first` on, instructions belong to program node `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMark {
    /// Index of the first instruction.
    pub first: u32,
    /// The caller's node number.
    pub node: u32,
}

/// A decoded command stream with everything that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The instructions; the last one is END.
    pub commands: Vec<Inst>,
    /// The first bytes of region 3; a host may bind a larger region instead.
    pub constants: Vec<u8>,
    /// Bytes of each region that the stream may address.
    pub regions: [u64; 4],
    /// Node ranges, ascending by `first`.
    pub nodes: Vec<NodeMark>,
    /// [`crate::NpuConfig::hash64`] of the configuration that the stream was made for.
    pub config_hash: u64,
}

/// A container that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ContainerError {
    #[error("the bytes do not begin with NPUC")]
    Magic,
    #[error("container version {0}, this machine reads version {VERSION}")]
    Version(u8),
    #[error("the container has unknown header flags {0:#04x}")]
    HeaderFlags(u8),
    #[error("the stream needs capability bits {0:#x} that this machine does not have")]
    Capability(u32),
    #[error("the container ends inside its {0}")]
    Truncated(&'static str),
    #[error("the device wants a checksum and the container has none")]
    NoCrc,
    #[error("the checksum is {stored:#010x} and the bytes give {found:#010x}")]
    Crc { stored: u32, found: u32 },
    #[error("section {index} is wrong: {why}")]
    Section { index: usize, why: &'static str },
    #[error("instruction {index}: {error}")]
    Command { index: usize, error: DecodeError },
}

impl Stream {
    /// The node of an instruction; `None` before the first mark.
    pub fn node_of(&self, instruction: usize) -> Option<u32> {
        let behind = self.nodes.partition_point(|mark| mark.first as usize <= instruction);
        Some(self.nodes[behind.checked_sub(1)?].node)
    }

    /// Whether container bytes carry a checksum.
    pub fn has_crc(bytes: &[u8]) -> bool {
        bytes.get(5).is_some_and(|flags| flags & HAS_CRC != 0)
    }

    /// The container's bytes, with a checksum if `crc`.
    pub fn to_bytes(&self, crc: bool) -> Vec<u8> {
        let commands: Vec<u8> = self.commands.iter().flat_map(Inst::encode).collect();
        let reloc: Vec<u8> = self.regions.iter().flat_map(|r| r.to_le_bytes()).collect();
        let marks = self.nodes.iter().flat_map(|m| [m.first.to_le_bytes(), m.node.to_le_bytes()]);
        let dbg: Vec<u8> = marks.flatten().collect();
        let sections: [(u32, &[u8]); 4] = [(1, &commands), (2, &self.constants), (3, &reloc), (4, &dbg)];
        let mut table = Vec::new();
        let mut payload = Vec::new();
        for (kind, bytes) in sections {
            let offset = HEADER + sections.len() * ENTRY + payload.len();
            table.extend([kind, offset as u32, bytes.len() as u32, 0].iter().flat_map(|v| v.to_le_bytes()));
            payload.extend_from_slice(bytes);
        }
        table.extend_from_slice(&payload);
        let mut out = self.header(sections.len() as u16, crc.then(|| crc32(&table)));
        out.extend_from_slice(&table);
        out
    }

    fn header(&self, n_sections: u16, crc: Option<u32>) -> Vec<u8> {
        let capability = self.commands.iter().fold(0, |bits, inst| bits | inst.op.info().capability);
        let mut out = MAGIC.to_vec();
        out.extend([VERSION, if crc.is_some() { HAS_CRC } else { 0 }]);
        out.extend(n_sections.to_le_bytes());
        out.extend(u32::to_le_bytes(capability));
        out.extend(crc.unwrap_or(0).to_le_bytes());
        out.extend(self.config_hash.to_le_bytes());
        out
    }

    /// Reads a container. Memory use is bounded by the length of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContainerError> {
        let header = bytes.get(..HEADER).ok_or(ContainerError::Truncated("header"))?;
        if &header[..4] != MAGIC {
            return Err(ContainerError::Magic);
        }
        if header[4] != VERSION {
            return Err(ContainerError::Version(header[4]));
        }
        if header[5] & !HAS_CRC != 0 {
            return Err(ContainerError::HeaderFlags(header[5]));
        }
        let missing = u32_at(header, 8) & !caps::ALL;
        if missing != 0 {
            return Err(ContainerError::Capability(missing));
        }
        let (stored, found) = (u32_at(header, 12), if header[5] & HAS_CRC != 0 { crc32(&bytes[HEADER..]) } else { 0 });
        if stored != found {
            return Err(ContainerError::Crc { stored, found });
        }
        let n_sections = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let mut stream = Self { config_hash: u64_at(header, 16), ..Self::default() };
        let mut last_kind = 0;
        for index in 0..n_sections {
            let (kind, range) = section_entry(bytes, index, n_sections)?;
            if kind <= last_kind {
                return Err(ContainerError::Section { index, why: "the kinds do not ascend" });
            }
            last_kind = kind;
            stream.read_section(index, kind, &bytes[range])?;
        }
        Ok(stream)
    }

    fn read_section(&mut self, index: usize, kind: u32, bytes: &[u8]) -> Result<(), ContainerError> {
        let wrong = |why| Err(ContainerError::Section { index, why });
        match kind {
            1 => self.commands = decode_all(bytes)?,
            2 => self.constants = bytes.to_vec(),
            3 if bytes.len() == 32 => self.regions = std::array::from_fn(|i| u64_at(bytes, i * 8)),
            3 => return wrong("four region sizes of eight bytes are needed"),
            4 if bytes.len().is_multiple_of(8) => {
                let mark = |m: &[u8]| NodeMark { first: u32_at(m, 0), node: u32_at(m, 4) };
                self.nodes = bytes.chunks_exact(8).map(mark).collect();
                if !self.nodes.is_sorted_by_key(|m| m.first) {
                    return wrong("the node marks do not ascend");
                }
                if self.nodes.last().is_some_and(|m| m.first as usize > self.commands.len()) {
                    return wrong("a node mark lies behind the last instruction");
                }
            }
            4 => return wrong("node marks have eight bytes"),
            _ => return wrong("the kind is unknown"),
        }
        Ok(())
    }
}

/// Decodes instructions, nothing else.
pub fn decode_all(bytes: &[u8]) -> Result<Vec<Inst>, ContainerError> {
    let (chunks, rest) = bytes.as_chunks::<INST_BYTES>();
    if !rest.is_empty() {
        return Err(ContainerError::Truncated("last instruction"));
    }
    let decode = |(index, chunk)| Inst::decode(chunk).map_err(|error| ContainerError::Command { index, error });
    chunks.iter().enumerate().map(decode).collect()
}

fn section_entry(bytes: &[u8], index: usize, n_sections: usize) -> Result<(u32, Range<usize>), ContainerError> {
    let at = HEADER + index * ENTRY;
    let entry = bytes.get(at..at + ENTRY).ok_or(ContainerError::Truncated("section table"))?;
    let (offset, len) = (u32_at(entry, 4) as usize, u32_at(entry, 8) as usize);
    let wrong = |why| ContainerError::Section { index, why };
    if u32_at(entry, 12) != 0 {
        return Err(wrong("the reserved word is not zero"));
    }
    if offset < HEADER + n_sections * ENTRY {
        return Err(wrong("it lies inside the section table"));
    }
    let end = offset.checked_add(len).filter(|&end| end <= bytes.len());
    end.map(|end| (u32_at(entry, 0), offset..end)).ok_or(ContainerError::Truncated("section"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// CRC-32 (reflected, polynomial 0xEDB88320, as in zip).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 != 0 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    let table: [u32; 256] = std::array::from_fn(|i| (0..8).fold(i as u32, step));
    !bytes.iter().fold(!0_u32, |crc, &b| crc >> 8 ^ table[((crc ^ u32::from(b)) & 0xFF) as usize])
}
