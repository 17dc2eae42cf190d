//! The ABI note: what a library says of itself before it is loaded, in the ELF section `.ottava.abi`.
//!
//! The section holds exactly one [`AbiNote`]; the same bytes are exported as `ottava_abi_note`, for libraries whose
//! section headers were stripped.

use crate::constants::door;
use crate::table::tables;
use crate::types::Char;

/// Name of the ELF section.
pub const SECTION: &str = ".ottava.abi";
/// Name of the exported note.
pub const NOTE_SYMBOL: &str = "ottava_abi_note";
/// Name of the exported entry.
pub const ENTRY_SYMBOL: &str = "ottava_driver_entry_v1";
/// First bytes of the note.
pub const MAGIC: [u8; 8] = *b"OTTAVAv1";
/// Major version of this ABI. A draft until it freezes as 1; until then drivers state 0.
pub const MAJOR: u32 = 0;
/// Minor version of this ABI.
pub const MINOR: u32 = 9;
/// Version of this SDK: major, minor, patch.
pub const SDK_VERSION: [u32; 3] = [MAJOR, MINOR, 0];

tables! {
    /// The note.
    data AbiNote = "ottava_abi_note_v1" {
        /// `OTTAVAv1`.
        magic: [Char; 8],
        /// Smallest major version that the driver speaks.
        major_min: u32,
        /// Largest major version that the driver speaks.
        major_max: u32,
        /// Version of the SDK that the driver was built with.
        sdk_major: u32,
        /// Its minor version.
        sdk_minor: u32,
        /// Its patch.
        sdk_patch: u32,
        /// `OTTAVA_DOOR_*`.
        doors: u32,
        /// `OTTAVA_CORE_HASH` of the SDK.
        core_hash: u64,
        /// Name of the driver.
        name: [Char; 32],
        /// Version of the driver.
        version: [Char; 16],
    }
}

impl AbiNote {
    /// The note of a driver built with this SDK. A name or version that does not fit does not compile where the note is
    /// a constant.
    ///
    /// # Panics
    /// If the name has more than 31 bytes or the version more than 15.
    pub const fn new(name: &str, version: &str) -> Self {
        let rust = if cfg!(feature = "rust-door") { door::RUST } else { 0 };
        Self {
            magic: MAGIC,
            major_min: MAJOR,
            major_max: MAJOR,
            sdk_major: SDK_VERSION[0],
            sdk_minor: SDK_VERSION[1],
            sdk_patch: SDK_VERSION[2],
            doors: door::C | rust,
            core_hash: crate::CORE_HASH,
            name: fixed(name),
            version: fixed(version),
        }
    }

    /// The same note with these doors (`OTTAVA_DOOR_*`). A driver states the doors that it has, which may be fewer than
    /// this crate offers.
    pub const fn with_doors(self, doors: u32) -> Self {
        Self { doors, ..self }
    }

    /// The note in the first bytes of the section; `None` if they are too few. The fields are not checked.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: the range holds as many bytes as the note, and every bit pattern is a note (it is plain data).
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

const fn fixed<const N: usize>(text: &str) -> [Char; N] {
    let (bytes, mut out, mut i) = (text.as_bytes(), [0; N], 0);
    assert!(bytes.len() < N, "the name (31 bytes) or version (15 bytes) of the driver is too long");
    while i < bytes.len() {
        out[i] = bytes[i];
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::text_of;

    #[test]
    fn a_note_reads_back() {
        const NOTE: AbiNote = AbiNote::new("demo", "1.2.3").with_doors(door::C);
        // SAFETY: the note is plain data without padding.
        let bytes: [u8; size_of::<AbiNote>()] = unsafe { core::mem::transmute(NOTE) };
        let mut file = vec![0u8];
        file.extend(bytes);
        let back = AbiNote::from_bytes(&file[1..]).unwrap();
        assert_eq!((back.magic, back.core_hash, back.major_max), (MAGIC, crate::CORE_HASH, 0));
        assert_eq!(back.doors, door::C);
        assert_eq!((text_of(&back.name), text_of(&back.version)), ("demo".into(), "1.2.3".into()));
        assert!(AbiNote::from_bytes(&bytes[1..]).is_none());
    }
}
