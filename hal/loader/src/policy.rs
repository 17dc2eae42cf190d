//! What may be loaded: write permissions, `deny`, `allow`, hashes. Asked before a byte of the library is interpreted.
//!
//! Whoever may replace a file between these checks and the moment the dynamic linker reads it owns its directory, which is
//! why directories that everyone may write to are refused too.

use crate::hash;
use crate::options::{Policy, Rule};
use crate::refusal::{Refusal, Result};
use std::cell::OnceCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Permission to write for everyone.
const WORLD_WRITABLE: u32 = 0o002;
/// Files in a folder belong to their owners, whoever may write to the folder.
const STICKY: u32 = 0o1000;

/// What is known of a library before it is read.
pub(crate) struct Subject<'a> {
    /// The library.
    pub library: &'a Path,
    /// Its manifest.
    pub manifest: Option<&'a Path>,
    /// Hashes that the manifest and the application state.
    pub hashes: Vec<&'a str>,
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses a path that everyone may write to.
pub(crate) fn check_not_writable(path: &Path, what: &str) -> Result<()> {
    let data = path.metadata().map_err(|e| Refusal::load(format!("{what} {}: {e}", path.display())))?;
    if data.mode() & WORLD_WRITABLE == 0 {
        return Ok(());
    }
    let mode = data.mode() & 0o7777;
    let path = path.display();
    Err(Refusal::policy(format!("{what} {path} is writable for everyone (mode {mode:o}); run chmod o-w {path}")))
}

/// The hash of a library, computed when it is first asked for.
struct LazyHash<'a> {
    library: &'a Path,
    value: OnceCell<String>,
}

impl LazyHash<'_> {
    fn get(&self) -> Result<&str> {
        if let Some(hash) = self.value.get() {
            return Ok(hash);
        }
        let cannot = |e| Refusal::load(format!("library {}: {e}", self.library.display()));
        let hash = hash::of_file(self.library).map_err(cannot)?;
        Ok(self.value.get_or_init(|| hash))
    }

    fn is(&self, wanted: &str) -> Result<bool> {
        Ok(self.get()?.eq_ignore_ascii_case(wanted))
    }
}

fn matches(rule: &Rule, hash: &LazyHash) -> Result<bool> {
    match rule {
        Rule::Dir(dir) => Ok(dir.canonicalize().is_ok_and(|dir| hash.library.starts_with(dir))),
        Rule::Sha256(wanted) => hash.is(wanted),
    }
}

/// Whether one of the rules names the library. A hash that cannot be computed is an error, not a mismatch.
fn named(rules: &[Rule], hash: &LazyHash) -> Result<bool> {
    for rule in rules {
        if matches(rule, hash)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Folders above a file. Whoever may write to one of them may put another folder in the place of the next one; the sticky
/// bit forbids that to everyone but the owner.
fn check_ancestors(path: &Path) -> Result<()> {
    let cannot = |e| Refusal::load(format!("{}: {e}", path.display()));
    let (named, real) = (std::path::absolute(path).map_err(cannot)?, path.canonicalize().map_err(cannot)?);
    for folder in named.ancestors().chain(real.ancestors()).skip(1) {
        let data = folder.metadata().map_err(|e| Refusal::load(format!("directory {}: {e}", folder.display())))?;
        if data.mode() & (WORLD_WRITABLE | STICKY) == WORLD_WRITABLE {
            let (mode, shown) = (data.mode() & 0o7777, folder.display());
            let what = format!("directory {shown}, above {}, is writable for everyone (mode {mode:o})", path.display());
            return Err(Refusal::policy(format!("{what}; run chmod o-w {shown}")));
        }
    }
    Ok(())
}

fn check_writable(subject: &Subject, real: &Path) -> Result<()> {
    check_not_writable(real, "library")?;
    check_not_writable(folder_of(real), "directory")?;
    check_not_writable(folder_of(subject.library), "directory")?;
    check_ancestors(subject.library)?;
    let Some(manifest) = subject.manifest else { return Ok(()) };
    check_not_writable(manifest, "manifest")?;
    check_not_writable(folder_of(manifest), "directory")?;
    check_ancestors(manifest)
}

/// A hash that is none would never match, so a rule with it would be no rule.
fn check_rules(policy: &Policy) -> Result<()> {
    for (list, rules) in [("allow", &policy.allow), ("deny", &policy.deny)] {
        let mut hashes = rules.iter().filter_map(|r| if let Rule::Sha256(hash) = r { Some(hash) } else { None });
        if let Some(hash) = hashes.find(|h| !hash::is_hash(h)) {
            let what = format!("the policy's `{list}` has the sha256 \"{hash}\", expected 64 hexadecimal digits");
            return Err(Refusal::policy(what));
        }
    }
    Ok(())
}

/// Applies the policy; the library's real path.
pub(crate) fn check(policy: &Policy, subject: &Subject) -> Result<PathBuf> {
    check_rules(policy)?;
    let cannot = |e| Refusal::load(format!("library {}: {e}", subject.library.display()));
    let real = subject.library.canonicalize().map_err(cannot)?;
    if !real.is_file() {
        return Err(Refusal::load(format!("{} is not a file", real.display())));
    }
    check_writable(subject, &real)?;
    let hash = LazyHash { library: &real, value: OnceCell::new() };
    if named(&policy.deny, &hash)? {
        return Err(Refusal::policy("the policy denies this library (`deny`)"));
    }
    if !policy.allow.is_empty() && !named(&policy.allow, &hash)? {
        return Err(Refusal::policy("the policy's `allow` names neither its directory nor its SHA-256"));
    }
    check_hashes(policy, subject, &hash)?;
    Ok(real)
}

fn check_hashes(policy: &Policy, subject: &Subject, hash: &LazyHash) -> Result<()> {
    for wanted in &subject.hashes {
        if !hash.is(wanted)? {
            return Err(Refusal::policy(format!("SHA-256 is {}, expected {wanted}", hash.get()?)));
        }
    }
    let by_hash: Vec<Rule> = policy.allow.iter().filter(|r| matches!(r, Rule::Sha256(_))).cloned().collect();
    if policy.require_hash && subject.hashes.is_empty() && !named(&by_hash, hash)? {
        let what = "the policy requires a hash (`require_hash`), neither manifest nor configuration gives one";
        return Err(Refusal::policy(format!("{what}; the library's SHA-256 is {}", hash.get()?)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// A directory with a library whose bytes are `abc`.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libx.so");
        std::fs::write(&library, "abc").unwrap();
        (dir, library)
    }

    fn reason(policy: &Policy, library: &Path, hashes: Vec<&str>) -> Option<String> {
        check(policy, &Subject { library, manifest: None, hashes }).err().map(|r| r.reason)
    }

    #[test]
    fn everything_is_allowed_by_default() {
        let (_dir, library) = folder();
        assert_eq!(reason(&Policy::default(), &library, vec![]), None);
        assert_eq!(reason(&Policy::default(), &library, vec![ABC]), None);
    }

    #[test]
    fn deny_is_stronger_than_allow() {
        let (dir, library) = folder();
        let rules = || vec![Rule::Dir(dir.path().into())];
        let allowed = Policy { allow: rules(), ..Policy::default() };
        assert_eq!(reason(&allowed, &library, vec![]), None);
        let both = Policy { deny: vec![Rule::Sha256(ABC.to_uppercase())], ..allowed };
        assert!(reason(&both, &library, vec![]).unwrap().contains("denies"));
        let other = Policy { allow: vec![Rule::Dir("/usr".into()), Rule::Sha256("0".repeat(64))], ..Policy::default() };
        assert!(reason(&other, &library, vec![]).unwrap().contains("`allow` names neither"));
    }

    #[test]
    fn hashes_are_compared_and_may_be_required() {
        let (_dir, library) = folder();
        let wrong = "1".repeat(64);
        assert!(reason(&Policy::default(), &library, vec![&wrong]).unwrap().contains(ABC));
        let strict = Policy { require_hash: true, ..Policy::default() };
        assert!(reason(&strict, &library, vec![]).unwrap().contains("requires a hash"));
        assert_eq!(reason(&strict, &library, vec![ABC]), None);
        let listed = Policy { allow: vec![Rule::Sha256(ABC.into())], ..strict };
        assert_eq!(reason(&listed, &library, vec![]), None);
    }

    #[test]
    fn what_everyone_may_write_is_refused() {
        let (dir, library) = folder();
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        set(&library, 0o666);
        assert!(reason(&Policy::default(), &library, vec![]).unwrap().contains("library"));
        set(&library, 0o644);
        set(dir.path(), 0o777);
        assert!(reason(&Policy::default(), &library, vec![]).unwrap().contains("directory"));
        set(dir.path(), 0o700);
        let manifest = dir.path().join("x.ottava.ron");
        std::fs::write(&manifest, "").unwrap();
        set(&manifest, 0o602);
        let subject = Subject { library: &library, manifest: Some(&manifest), hashes: vec![] };
        assert!(check(&Policy::default(), &subject).unwrap_err().reason.contains("manifest"));
    }

    #[test]
    fn folders_above_may_be_written_to_by_everyone_only_if_they_are_sticky() {
        let dir = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
        std::fs::create_dir_all(&inner).unwrap();
        let library = inner.join("libx.so");
        std::fs::write(&library, "abc").unwrap();
        set(&outer, 0o777);
        let words = reason(&Policy::default(), &library, vec![]).unwrap();
        assert!(words.contains("outer, above") && words.contains("mode 777"), "{words}");
        // A link from elsewhere does not hide it.
        let link = dir.path().join("liby.so");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        assert!(reason(&Policy::default(), &link, vec![]).unwrap().contains("outer, above"));
        set(&outer, 0o1777);
        assert_eq!(reason(&Policy::default(), &library, vec![]), None);
    }

    #[test]
    fn rules_with_broken_hashes_are_errors() {
        let (_dir, library) = folder();
        let rules = |hash: &str| vec![Rule::Sha256(hash.into())];
        for policy in [
            Policy { deny: rules(&ABC[1..]), ..Policy::default() },
            Policy { allow: rules(&ABC.replace('b', "g")), ..Policy::default() },
        ] {
            assert!(reason(&policy, &library, vec![]).unwrap().contains("expected 64 hexadecimal digits"));
        }
    }

    #[test]
    fn only_files_are_libraries() {
        let (dir, library) = folder();
        assert!(reason(&Policy::default(), dir.path(), vec![]).unwrap().contains("not a file"));
        assert!(reason(&Policy::default(), &library.join("x"), vec![]).is_some());
    }
}
