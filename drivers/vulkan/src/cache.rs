//! Compiled pipelines on disk, one file per device and driver.
//!
//! `"OVPC"`, `u32` version, `u64` length and `u64` FNV-1a of what follows: the key (device, driver, layout of the
//! driver's own cache), then the driver's bytes. A file that is damaged or of something else is not used: drivers trust
//! what they are handed.

use crate::probe::Traits;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 4] = b"OVPC";
const VERSION: u32 = 1;
/// A larger file is no cache.
const MAX_BYTES: u64 = 256 << 20;
const HEADER: usize = 24;
const KEY: usize = 40;

/// Where the pipelines of a device are kept.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    file: PathBuf,
    key: [u8; KEY],
}

impl Cache {
    /// The place in a folder for a device.
    pub(crate) fn new(folder: &Path, traits: &Traits) -> Self {
        let mut key = [0; KEY];
        key[..16].copy_from_slice(&traits.uuid);
        key[16..32].copy_from_slice(&traits.cache_uuid);
        key[32..36].copy_from_slice(&traits.driver_version.to_le_bytes());
        key[36..].copy_from_slice(&traits.api.to_le_bytes());
        Self { file: folder.join(format!("vulkan-{:016x}.pipelines", fnv(&key))), key }
    }

    /// What was kept; empty if nothing was, or nothing that can be used.
    pub(crate) fn load(&self) -> Vec<u8> {
        match self.read() {
            Ok(bytes) => bytes,
            Err(why) => {
                tracing::warn!("the pipeline cache {} is not used: {why}", self.file.display());
                Vec::new()
            }
        }
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let data = match std::fs::metadata(&self.file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            data => data.map_err(|e| e.to_string())?,
        };
        if !data.is_file() || data.len() > MAX_BYTES {
            return Err("it is no regular file, or too large".into());
        }
        let file = std::fs::File::open(&self.file).map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        self.unwrap(&bytes).map(<[u8]>::to_vec)
    }

    /// The driver's bytes of a file.
    fn unwrap<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8], String> {
        let (header, rest) = bytes.split_at_checked(HEADER).ok_or("it ends too early")?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if header[..4] != *MAGIC || header[4..8] != VERSION.to_le_bytes() {
            return Err("it is of another version".into());
        }
        if number(8) != rest.len() as u64 || number(16) != fnv(rest) {
            return Err("it is damaged".into());
        }
        let (key, data) = rest.split_at_checked(KEY).ok_or("it ends too early")?;
        if key == self.key { Ok(data) } else { Err("it is of another device or driver".into()) }
    }

    fn wrap(&self, data: &[u8]) -> Vec<u8> {
        let rest = [&self.key[..], data].concat();
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        bytes.extend((rest.len() as u64).to_le_bytes());
        bytes.extend(fnv(&rest).to_le_bytes());
        bytes.extend(rest);
        bytes
    }

    /// Keeps the driver's bytes; a reader sees the old file or the new one.
    pub(crate) fn save(&self, data: &[u8]) {
        if let Err(e) = self.write(data) {
            tracing::warn!("the pipeline cache {} cannot be written: {e}", self.file.display());
        }
    }

    fn write(&self, data: &[u8]) -> std::io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Devices of one process may save at the same time.
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let part = self.file.with_extension(format!("{}-{count}.part", std::process::id()));
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&part)
            .and_then(|mut file| file.write_all(&self.wrap(data)))
            .and_then(|()| std::fs::rename(&part, &self.file));
        if written.is_err() {
            // What is left of a failed attempt is of no use; that it cannot be removed changes nothing.
            let _ = std::fs::remove_file(&part);
        }
        written
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_damage_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("deep"), &Traits::default());
        assert!(cache.load().is_empty());
        cache.save(b"pipelines");
        assert_eq!(cache.load(), b"pipelines");
        cache.save(b"more pipelines");
        assert_eq!(cache.load(), b"more pipelines");
        assert_eq!(std::fs::read_dir(folder.path().join("deep")).unwrap().count(), 1, "no part is left");
        let whole = std::fs::read(&cache.file).unwrap();
        for n in 0..whole.len() {
            assert!(cache.unwrap(&whole[..n]).is_err(), "cut at {n}");
            let mut damaged = whole.clone();
            damaged[n] ^= 1;
            std::fs::write(&cache.file, &damaged).unwrap();
            assert!(cache.load().is_empty(), "bit at {n}");
        }
        let other = Cache { key: [1; KEY], ..cache.clone() };
        assert!(other.unwrap(&whole).unwrap_err().contains("another device"));
    }
}
