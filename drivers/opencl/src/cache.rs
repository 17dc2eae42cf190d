//! Program binaries on disk.
//!
//! A file is named by the SHA-256 of everything that a binary depends on: device, driver, options and text. It holds the
//! magic `OTCLPROG`, that hash, the SHA-256 of the rest, and the binary. Files are written beside and renamed, so another
//! process never sees half of one; a file that is not what it should be is ignored with a warning and written anew. A
//! binary is code that the OpenCL implementation runs: the folder must be one that only its user can write.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 8] = b"OTCLPROG";
/// More than any program of this driver.
const MAX_BYTES: u64 = 64 << 20;
/// Magic and two hashes.
const HEADER: usize = 8 + 32 + 32;

/// What a binary was made of.
pub(crate) type Key = [u8; 32];

/// A folder of binaries.
#[derive(Debug, Clone)]
pub(crate) struct Cache(PathBuf);

/// The key of everything that a binary depends on.
pub(crate) fn key(parts: &[&str]) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Cache {
    /// A folder, which is made when something is kept.
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|b| format!("{b:02x}")).collect();
        self.0.join(name + ".clbin")
    }

    /// The binary of a key, if there is a sound one.
    pub(crate) fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        match read(&path, key) {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!(path = %path.display(), why, "a kept OpenCL program is ignored");
                None
            }
        }
    }

    /// Keeps a binary. What goes wrong is only a start that takes longer.
    pub(crate) fn store(&self, key: &Key, binary: &[u8]) {
        if let Err(e) = self.write(key, binary) {
            tracing::warn!(folder = %self.0.display(), %e, "an OpenCL program could not be kept");
        }
    }

    fn write(&self, key: &Key, binary: &[u8]) -> std::io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(&self.0)?;
        // Relaxed is enough: the number only has to be another one each time.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = self.0.join(format!(".{}-{count}.tmp", std::process::id()));
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(MAGIC)?;
            file.write_all(key)?;
            file.write_all(&Sha256::digest(binary))?;
            file.write_all(binary)
        });
        let renamed = written.and_then(|()| std::fs::rename(&beside, self.path(key)));
        if renamed.is_err() {
            // Nothing more can be done about it.
            let _ = std::fs::remove_file(&beside);
        }
        renamed
    }
}

fn read(path: &Path, key: &Key) -> Result<Option<Vec<u8>>, String> {
    let data = match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        data => data.map_err(|e| e.to_string())?,
    };
    if !data.is_file() {
        return Err("it is no regular file".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES || bytes.len() <= HEADER {
        return Err(format!("it has {} bytes", bytes.len()));
    }
    let binary = bytes.split_off(HEADER);
    let head = [&MAGIC[..], key, &Sha256::digest(&binary)[..]].concat();
    if bytes != head {
        return Err("its bytes are not those that were written".into());
    }
    Ok(Some(binary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("inner"));
        let (a, b) = (key(&["a", "b"]), key(&["ab", ""]));
        assert_ne!(a, b);
        assert_eq!(cache.load(&a), None);
        cache.store(&a, b"binary");
        assert_eq!((cache.load(&a), cache.load(&b)), (Some(b"binary".to_vec()), None));
        let sound = std::fs::read(cache.path(&a)).unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            std::fs::write(cache.path(&a), &damaged).unwrap();
            assert_eq!(cache.load(&a), None, "byte {at}");
            std::fs::write(cache.path(&a), &sound[..at]).unwrap();
            assert_eq!(cache.load(&a), None, "cut at {at}");
        }
        cache.store(&a, b"again");
        assert_eq!(cache.load(&a), Some(b"again".to_vec()));
        std::fs::copy(cache.path(&a), cache.path(&b)).unwrap();
        assert_eq!(cache.load(&b), None, "a file under another name");
    }
}
