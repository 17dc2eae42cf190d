//! What is refused, and with which words. The process lives through all of it.

mod common;

use common::*;
use ottava_abi::status;
use ottava_loader::{Candidate, LibrarySpec, Policy, Rule, Source, State, load_all};
use std::os::unix::fs::PermissionsExt;

/// The variant is refused with a code and words.
fn refused(defines: &[&str], code: i32, words: &str) {
    let Some(built) = variant(defines) else { return };
    let (found, reason) = reason(&built.library);
    assert_eq!(found, code, "{defines:?}: {reason}");
    assert!(reason.contains(words), "{defines:?}: {reason}");
}

#[test]
fn files_that_are_no_drivers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("libtext.so");
    std::fs::write(&path, "this is not a library, but it has more than twenty bytes").unwrap();
    assert!(reason(&path).1.contains("is not an ELF file"));
    assert!(reason(&dir.path().join("missing.so")).1.contains("No such file"));
    let source = dir.path().join("plain.c");
    std::fs::write(&source, "int ottava_driver_entry_v1(void) { return 0; }").unwrap();
    let Some(built) = build(&source, &[]) else { return };
    assert!(reason(&built.library).1.contains("no ABI note"));
}

#[test]
fn notes_of_other_versions_are_refused_before_any_code_runs() {
    refused(&["VARIANT_GOOD", "NOTE_MAJOR=7"], status::ABI_RANGE, "7 to 7");
    refused(&["VARIANT_GOOD", "NOTE_HASH=0x1234ull"], status::LAYOUT_MISMATCH, "0000000000001234");
}

#[test]
fn the_rust_door_compares_tables_whose_hash_is_right() {
    let Some(path) = example("other_layout", "the_rust_door_compares_tables_whose_hash_is_right") else { return };
    let (code, reason) = reason(&path);
    assert_eq!(code, status::LAYOUT_MISMATCH, "{reason}");
    assert!(reason.contains("package: expected ottava-abi, found ottava-loader"), "{reason}");
    assert!(reason.len() < 300 && !reason.contains('\n'), "{reason}");
}

#[test]
fn libraries_that_cannot_be_opened_say_what_the_dynamic_linker_said() {
    refused(&["VARIANT_UNDEFINED"], status::LOAD_FAILED, "nobody_has_this_function");
    refused(&["VARIANT_NO_ENTRY"], status::LOAD_FAILED, "ottava_driver_entry_v1");
}

#[test]
fn broken_tables_are_named_by_field() {
    refused(&["VARIANT_NULL_COMPILE"], status::NULL_ENTRY, "ottava_device_vtbl_v1.compile is NULL");
    refused(&["VARIANT_NULL_TABLE"], status::NULL_ENTRY, "ottava_device_vtbl_v1 is NULL");
    refused(&["VARIANT_NO_TABLE"], status::NULL_ENTRY, "ottava_driver_v1 is NULL");
    refused(&["VARIANT_WRONG_SIZE"], status::LAYOUT_MISMATCH, "size and kind");
    refused(&["VARIANT_NO_NAME"], status::LOAD_FAILED, "a text of 7 bytes is NULL");
}

#[test]
fn a_driver_s_own_refusal_becomes_the_reason() {
    refused(&["VARIANT_FAILS"], status::LOAD_FAILED, "the kernel module acme_npu is not loaded");
    refused(&["VARIANT_DEVICES"], status::LOAD_FAILED, "4294967295 elements");
}

/// What becomes of the template under a policy.
fn under(policy: Policy, spec: LibrarySpec) -> Candidate {
    let mut options = only(vec![spec]);
    options.policy = policy;
    load_all(&options).remove(0)
}

#[test]
fn policy_is_asked_before_the_library_is_read() {
    let Some(built) = template() else { return };
    let spec = || LibrarySpec::new(&built.library);
    let dir = || vec![Rule::Dir(built.dir.path().into())];
    let denied = under(Policy { deny: dir(), ..Policy::default() }, spec());
    assert_eq!((denied.status, denied.code), (State::Refused, status::POLICY_REFUSED));
    assert!(denied.name.is_none() && denied.reason.unwrap().contains("denies"));
    let elsewhere = Policy { allow: vec![Rule::Dir("/usr".into())], ..Policy::default() };
    assert_eq!(under(elsewhere, spec()).code, status::POLICY_REFUSED);
    let wrong = LibrarySpec { sha256: Some("0".repeat(64)), ..spec() };
    assert!(under(Policy::default(), wrong).reason.unwrap().contains("SHA-256"));
    for broken in ["0".repeat(63), "0x".to_owned() + &"0".repeat(62)] {
        let reason = under(Policy::default(), LibrarySpec { sha256: Some(broken), ..spec() }).reason.unwrap();
        assert!(
            reason.contains("configuration has the sha256") && reason.contains("expected 64 hexadecimal"),
            "{reason}"
        );
    }
    let strict = under(Policy { require_hash: true, ..Policy::default() }, spec());
    assert!(strict.reason.unwrap().contains("requires a hash"));
    std::fs::set_permissions(&built.library, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(reason(&built.library).1.contains("writable for everyone"));
    std::fs::set_permissions(&built.library, std::fs::Permissions::from_mode(0o755)).unwrap();
    let allowed = under(Policy { allow: dir(), ..Policy::default() }, spec());
    assert_eq!(allowed.status, State::Loaded, "{allowed:?}");
}

#[test]
fn manifests_carry_conditions_and_errors() {
    let Some(built) = template() else { return };
    let manifest = built.dir.path().join("x.ottava.ron");
    let with = |text: &str| {
        std::fs::write(&manifest, text).unwrap();
        load_all(&only(vec![LibrarySpec::new(&manifest)])).remove(0)
    };
    let invalid = with(r#"(abi: "1", library: "libdriver.so", colour: "red")"#);
    assert_eq!(invalid.code, status::MANIFEST_INVALID);
    assert!(invalid.reason.unwrap().contains("colour"));
    let variable = with(r#"(abi: "1", library: "libdriver.so", env: ["ACME_LICENSE"])"#);
    assert!(variable.reason.unwrap().contains("ACME_LICENSE"));
    let hash = with(&format!(r#"(abi: "1", library: "libdriver.so", sha256: Some("{}"))"#, "a".repeat(64)));
    assert_eq!(hash.code, status::POLICY_REFUSED);
    let good = with(r#"(abi: "1", library: "libdriver.so", vendor: "me", kinds: [DSP])"#);
    assert_eq!((good.status, good.path), (State::Loaded, built.library.clone()));
    // A manifest that names other kinds is loaded; the warning comes once.
    let log = logged(|| {
        for _ in 0..2 {
            let other = with(r#"(abi: "1", library: "libdriver.so", kinds: [NPU, GPU])"#);
            assert_eq!(other.status, State::Loaded);
        }
    });
    assert_eq!(log.matches("names the kinds [NPU, GPU], device `my-driver` is Dsp").count(), 1, "{}", log);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn directories_are_searched_for_manifests() {
    let Some(built) = template() else { return };
    let dir = built.dir.path();
    std::fs::rename(&built.library, dir.join("libmy_driver.so")).unwrap();
    let mut options = only(vec![]);
    options.environment.variables.insert(ottava_loader::DRIVER_PATH.to_owned(), dir.into());
    let alone = load_all(&options).remove(0);
    assert!(alone.reason.as_ref().unwrap().contains("no manifest names this driver"), "{alone:?}");
    let shipped = repository().join("plugins/template-c/my_driver.ottava.ron");
    std::fs::copy(shipped, dir.join("my_driver.ottava.ron")).unwrap();
    let all = load_all(&options);
    assert_eq!((all.len(), all[0].status, all[0].source), (1, State::Loaded, Source::DriverPath), "{all:?}");
    options.environment.elevated = true;
    assert!(load_all(&options).is_empty());
}

#[test]
fn a_library_and_a_name_are_loaded_once() {
    let (Some(a), Some(b)) = (template(), template()) else { return };
    let paths = [&a.library, &a.library, &b.library];
    let all = load_all(&only(paths.map(LibrarySpec::new).into()));
    assert_eq!(all[0].status, State::Loaded);
    assert!(all[1].reason.as_ref().unwrap().contains("the same library is already loaded (configuration)"));
    assert!(all[2].reason.as_ref().unwrap().contains("a driver named `my-driver` is already loaded from"));
    assert_eq!(load(&b.library).status, State::Loaded);
    assert_eq!(load(&a.library).status, State::Loaded);
}
