//! Keys of compiled blobs as the driver reads them.

use super::error::broken;
use ottava_abi::{BlobKeyV1, ErrorV1, blob_verdict, copy_text};
use ottava_hal::{BlobKey, BlobVerdict, Result};

/// First bytes of a key.
const MAGIC: [u8; 8] = *b"OTTABLOB";

/// The key as the driver reads it.
pub(crate) fn key(key: &BlobKey) -> BlobKeyV1 {
    let mut raw = BlobKeyV1 {
        magic: MAGIC,
        device_uuid: key.uuid,
        hw_rev: key.hw_rev,
        ir_version: key.ir_version,
        core_hash: key.core_hash,
        op_schema_hash: key.ops_hash,
        program_hash: key.program_hash,
        quant_hash: key.quant_hash,
        options_hash: key.options_hash,
        payload_len: key.payload_len,
        payload_sha256: key.payload_sha256,
        ..BlobKeyV1::blank()
    };
    copy_text(&mut raw.driver_name, &key.driver);
    copy_text(&mut raw.driver_version, &key.driver_version);
    raw
}

/// The driver's answer; `err` holds its words.
pub(crate) fn verdict(driver: &str, answer: u32, err: &ErrorV1) -> Result<BlobVerdict> {
    let words = || {
        Some(err.text()).filter(|t| !t.trim().is_empty()).unwrap_or_else(|| {
            crate::once::warn(driver, &format!("`{driver}` refuses a blob without words, which a driver must not"));
            "the driver gives no reason".to_owned()
        })
    };
    match answer {
        blob_verdict::OPTIMAL => Ok(BlobVerdict::Optimal),
        blob_verdict::RECOMPILE_PREFERRED => Ok(BlobVerdict::RecompilePreferred(words())),
        blob_verdict::INCOMPATIBLE => Ok(BlobVerdict::Incompatible(words())),
        other => Err(broken(driver, "check_blob", format_args!("the unknown verdict {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::text_of;

    fn example() -> BlobKey {
        BlobKey {
            driver: "acme".into(),
            driver_version: "1.2".into(),
            uuid: [7; 16],
            hw_rev: 1,
            ir_version: 2,
            core_hash: 3,
            ops_hash: 4,
            program_hash: 5,
            quant_hash: 6,
            options_hash: 7,
            payload_len: 8,
            payload_sha256: [9; 32],
        }
    }

    #[test]
    fn every_field_of_the_key_crosses() {
        let raw = key(&example());
        assert_eq!((text_of(&raw.driver_name), text_of(&raw.driver_version)), ("acme".into(), "1.2".into()));
        assert_eq!((raw.hw_rev, raw.ir_version, raw.core_hash, raw.op_schema_hash), (1, 2, 3, 4));
        assert_eq!((raw.program_hash, raw.quant_hash, raw.options_hash, raw.payload_len), (5, 6, 7, 8));
        assert_eq!((raw.device_uuid, raw.payload_sha256, raw.magic), ([7; 16], [9; 32], MAGIC));
    }

    #[test]
    fn verdicts_carry_the_drivers_words() {
        let mut err = ErrorV1::blank();
        err.set(0, "built for rev 2");
        assert_eq!(verdict("acme", 0, &err), Ok(BlobVerdict::Optimal));
        assert_eq!(verdict("acme", 2, &err), Ok(BlobVerdict::Incompatible("built for rev 2".into())));
        assert!(verdict("acme", 3, &err).is_err());
        let Ok(BlobVerdict::RecompilePreferred(text)) = verdict("acme", 1, &ErrorV1::blank()) else { panic!() };
        assert_eq!(text, "the driver gives no reason");
    }
}
