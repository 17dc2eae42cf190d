//! Tests of the search order.

use super::*;
use crate::options::{Environment, Search};
use std::ffi::OsString;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A manifest and its library.
    fn driver(&self, dir: &str, name: &str, priority: i32) {
        let folder = self.path(dir);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("lib{name}.so")), "").unwrap();
        let text = format!(r#"(abi: "1", library: "lib{name}.so", priority: {priority})"#);
        std::fs::write(folder.join(format!("{name}.ottava.ron")), text).unwrap();
    }

    fn options(&self, variables: &[(&str, &str)]) -> LoadOptions {
        let place = |list: &str| {
            let paths = list.split(':').map(|p| self.path(p));
            std::env::join_paths(paths).unwrap()
        };
        let variables: Vec<(String, OsString)> = variables.iter().map(|(k, v)| ((*k).to_owned(), place(v))).collect();
        let system_dir = self.path("system");
        let environment = Environment { variables: variables.into_iter().collect(), elevated: false, system_dir };
        LoadOptions { environment, ..LoadOptions::default() }
    }
}

fn names(options: &LoadOptions) -> Vec<(Source, String)> {
    let name = |f: &Found| f.path.file_name().unwrap().to_string_lossy().into_owned();
    discover(options).iter().map(|f| (f.source, name(f))).collect()
}

fn all_sources(tree: &Tree) -> LoadOptions {
    for (dir, name) in
        [("a", "config"), ("b", "file"), ("c", "path"), ("home/ottava/drivers", "user"), ("system", "sys")]
    {
        tree.driver(dir, name, 0);
    }
    let variables =
        [(DRIVER_FILES, "b/libfile.so:b/file.ottava.ron"), (DRIVER_PATH, "c:missing"), ("XDG_DATA_HOME", "home")];
    let mut options = tree.options(&variables);
    options.libraries = vec![LibrarySpec::new(tree.path("a/libconfig.so"))];
    options
}

#[test]
fn sources_come_in_the_order_of_the_contract() {
    let tree = Tree::new();
    let mut options = all_sources(&tree);
    let expected = [
        (Source::Config, "libconfig.so"),
        (Source::DriverFiles, "libfile.so"),
        (Source::DriverFiles, "libfile.so"),
        (Source::DriverPath, "libpath.so"),
        (Source::DriverPath, "missing"),
        (Source::UserDir, "libuser.so"),
        (Source::SystemDir, "libsys.so"),
    ];
    assert_eq!(names(&options), expected.map(|(s, n)| (s, n.to_owned())));
    options.search = Search { user: false, system: false };
    assert_eq!(names(&options).len(), 5);
}

#[test]
fn an_elevated_process_trusts_only_configuration_and_system() {
    let tree = Tree::new();
    let mut options = all_sources(&tree);
    options.environment.elevated = true;
    let sources: Vec<Source> = names(&options).into_iter().map(|(s, _)| s).collect();
    assert_eq!(sources, [Source::Config, Source::SystemDir]);
}

#[test]
fn higher_priorities_come_first_and_names_decide_ties() {
    let tree = Tree::new();
    for (name, priority) in [("low", -1), ("b", 0), ("a", 0), ("high", 9)] {
        tree.driver("c", name, priority);
    }
    let order: Vec<String> = names(&tree.options(&[(DRIVER_PATH, "c")])).into_iter().map(|(_, n)| n).collect();
    assert_eq!(order, ["libhigh.so", "liba.so", "libb.so", "liblow.so"]);
}

#[test]
fn what_is_wrong_is_found_too() {
    let tree = Tree::new();
    std::fs::create_dir(tree.path("c")).unwrap();
    std::fs::write(tree.path("c/broken.ottava.ron"), "(abi:").unwrap();
    let found = discover(&tree.options(&[(DRIVER_PATH, "c:gone")]));
    let reasons: Vec<&str> = found.iter().map(|f| f.library.as_ref().unwrap_err().reason.as_str()).collect();
    assert!(reasons[0].contains("broken.ottava.ron") && reasons[1].contains("gone"), "{reasons:?}");
}

#[test]
fn a_named_manifest_belongs_to_the_named_library() {
    let tree = Tree::new();
    tree.driver("c", "a", 0);
    tree.driver("c", "b", 0);
    let mut options = tree.options(&[]);
    let spec = |path| LibrarySpec { manifest: Some(tree.path("c/a.ottava.ron")), ..LibrarySpec::new(tree.path(path)) };
    options.libraries = vec![spec("c/liba.so"), spec("c/libb.so")];
    let found = discover(&options);
    assert!(found[0].library.is_ok());
    assert!(found[1].library.as_ref().unwrap_err().reason.contains("not of this library"));
}
