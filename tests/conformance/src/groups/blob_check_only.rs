//! E.10: what a driver says of a blob by its key alone.

use super::Group;
use super::blob_roundtrip::{key, save};
use crate::kit::Work;
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{BlobKey, BlobVerdict};

pub(super) const GROUP: Group = Group {
    id: "E.10",
    name: "blob.check_only",
    about: "keys of this version are usable, those of others are not, each with words; no device is needed",
    cases: |_| {
        vec![
            Case::new("E.10", "blob.check_only.own", own),
            Case::new("E.10", "blob.check_only.other", other),
            Case::new("E.10", "blob.check_only.stable", stable),
        ]
    },
};

/// A key of the driver under test; a driver without blobs ends the case.
fn own_key(subject: &Subject) -> Result<BlobKey, Stop> {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let payload = save(&*device, &*work.exe)?;
    Ok(key(subject, &*device, &payload))
}

fn own(subject: &Subject) -> Check {
    match subject.driver.check_blob(&own_key(subject)?)? {
        BlobVerdict::Optimal => Ok(()),
        BlobVerdict::RecompilePreferred(why) => {
            ensure!(!why.is_empty(), "it would rather compile again, without a word of why");
            Ok(())
        }
        BlobVerdict::Incompatible(why) => Err(Stop::failed(format!("the driver's own key is refused: {why}"))),
    }
}

fn other(subject: &Subject) -> Check {
    let own = own_key(subject)?;
    let version = BlobKey { driver_version: format!("{}-older", own.driver_version), ..own.clone() };
    let driver = BlobKey { driver: "another driver".into(), ..own };
    for (what, key) in [("version", version), ("driver", driver)] {
        match subject.driver.check_blob(&key)? {
            BlobVerdict::Optimal => return Err(Stop::failed(format!("a key of another {what} is said to be optimal"))),
            BlobVerdict::RecompilePreferred(why) | BlobVerdict::Incompatible(why) => {
                ensure!(!why.trim().is_empty(), "a key of another {what} is refused without a word of why");
            }
        }
    }
    Ok(())
}

fn stable(subject: &Subject) -> Check {
    let key = own_key(subject)?;
    let first = subject.driver.check_blob(&key)?;
    for _ in 0..3 {
        let again = subject.driver.check_blob(&key)?;
        ensure!(again == first, "the verdict changes from {first:?} to {again:?}");
    }
    Ok(())
}
