//! SHA-256 of files.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Whether a text is a SHA-256 in hexadecimal digits.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The SHA-256 of a file in lower-case hexadecimal digits.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher, mut block) = (File::open(path)?, Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut block)? {
            0 => break,
            n => hasher.update(&block[..n]),
        }
    }
    Ok(hasher.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_is_the_published_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::of_file(&path).unwrap(), expected);
        assert!(super::is_hash(expected) && !super::is_hash(&expected[1..]) && !super::is_hash(&"x".repeat(64)));
    }
}
