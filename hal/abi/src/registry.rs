//! Every table in one list: hashes of the whole, the C header and the frozen snapshots come from here.

use crate::table::{Field, Table, set_hash};
use crate::{calls::*, extensions::*, note::AbiNote, program::*, structs::*, types::*};

/// Description of a table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name in C.
    pub name: &'static str,
    /// Value of `kind`; 0 if the struct has no prefix.
    pub kind: u32,
    /// Size in bytes.
    pub size: usize,
    /// Hash of the canonical text.
    pub hash: u64,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
    /// Fields in order.
    pub fields: &'static [Field],
}

const fn entry<T: Table>() -> Entry {
    Entry { name: T::NAME, kind: T::KIND, size: size_of::<T>(), hash: T::HASH, doc: T::DOC, fields: T::FIELDS }
}

/// The frozen core, in an order in which C can declare it.
pub const CORE: &[Entry] = &[
    entry::<Str>(),
    entry::<Slice<u8>>(),
    entry::<SliceMut<u8>>(),
    entry::<ErrorV1>(),
    entry::<ExtV1>(),
    entry::<AbiNote>(),
    entry::<KeyValueV1>(),
    entry::<OptionV1>(),
    entry::<MemoryTypeV1>(),
    entry::<HostLinkV1>(),
    entry::<DeviceInfoV1>(),
    entry::<NodeV1>(),
    entry::<ValueV1>(),
    entry::<QuantV1>(),
    entry::<AttrV1>(),
    entry::<ConstV1>(),
    entry::<ProgramV1>(),
    entry::<OperandV1>(),
    entry::<PredicateV1>(),
    entry::<OpRowV1>(),
    entry::<VerdictV1>(),
    entry::<CompileOptsV1>(),
    entry::<CostV1>(),
    entry::<IoReqV1>(),
    entry::<BlobKeyV1>(),
    entry::<BufferDescV1>(),
    entry::<BindingV1>(),
    entry::<FencePointV1>(),
    entry::<CommandV1>(),
    entry::<SubmitV1>(),
    entry::<DeviceVtblV1>(),
    entry::<HostV1>(),
    entry::<DriverV1>(),
];

/// Tables of `ottava.profile/1`.
pub const PROFILE: &[Entry] = &[entry::<ProfileRecordV1>(), entry::<ProfileCounterV1>(), entry::<ProfileV1>()];
/// Tables of `ottava.test_hooks/1`.
pub const TEST_HOOKS: &[Entry] = &[entry::<TestHooksV1>()];
/// Tables of `ottava.describe/1`.
pub const DESCRIBE: &[Entry] = &[entry::<ExecKernelV1>(), entry::<DescribeV1>()];

const fn hash_of<const N: usize>(entries: &[Entry]) -> u64 {
    let (mut hashes, mut i) = ([0; N], 0);
    while i < N {
        hashes[i] = entries[i].hash;
        i += 1;
    }
    set_hash(&hashes)
}

/// Hash of all core tables: the layout check of the C door.
pub const CORE_HASH: u64 = hash_of::<{ CORE.len() }>(CORE);
/// Hash of `ottava.profile/1`.
pub const PROFILE_HASH: u64 = hash_of::<{ PROFILE.len() }>(PROFILE);
/// Hash of `ottava.test_hooks/1`.
pub const TEST_HOOKS_HASH: u64 = hash_of::<{ TEST_HOOKS.len() }>(TEST_HOOKS);
/// Hash of `ottava.describe/1`.
pub const DESCRIBE_HASH: u64 = hash_of::<{ DESCRIBE.len() }>(DESCRIBE);

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static Entry> {
        CORE.iter().chain(PROFILE).chain(TEST_HOOKS).chain(DESCRIBE)
    }

    #[test]
    fn no_struct_has_hidden_padding() {
        for e in all() {
            let mut end = 0;
            for f in e.fields {
                assert_eq!(f.offset, end, "{}.{} follows hidden padding", e.name, f.name);
                end += f.size;
            }
            assert_eq!(end, e.size, "{} ends with hidden padding", e.name);
        }
    }

    #[test]
    fn a_prefix_is_size_and_kind_and_kinds_are_unique() {
        let mut kinds = std::collections::BTreeMap::new();
        for e in all() {
            let prefixed = e.fields[0].name == "size" && e.fields[1].name == "kind";
            assert_eq!(prefixed, e.kind != 0, "{}", e.name);
            if e.kind != 0 {
                assert_eq!(kinds.insert(e.kind, e.name), None, "kind {} of {}", e.kind, e.name);
            }
        }
        assert_eq!(kinds.range(..100).map(|(k, _)| *k).collect::<Vec<_>>(), (1..=14).collect::<Vec<_>>());
    }

    #[test]
    fn hashes_differ() {
        let hashes: std::collections::BTreeSet<u64> = all().map(|e| e.hash).collect();
        assert_eq!(hashes.len(), all().count());
    }
}
