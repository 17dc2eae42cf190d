//! `ottava new-driver`: a driver project outside this repository.
//!
//! The project is the vendor template under its own name, with the sources of the vendor kit beside it, so that it builds
//! without anything of this repository.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{make_folder, write_file};
use crate::ui::Answer;
use rust_embed::RustEmbed;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Write a driver project that builds, loads and runs one real int8 operator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava new-driver acme --lang rust acme-driver
  ottava new-driver acme --lang c acme-driver")]
pub struct Args {
    /// Name of the driver: lower-case letters, digits and `_`, a letter first.
    #[arg(value_parser = name)]
    name: String,
    /// Language.
    #[arg(long, value_enum)]
    lang: Lang,
    /// Folder of the project; it must not exist, or be empty.
    folder: PathBuf,
}

/// Languages of the templates.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Lang {
    /// The kit's safe traits.
    Rust,
    /// The C header.
    C,
}

/// The driver contract.
#[derive(RustEmbed)]
#[folder = "../../hal/core/"]
#[include = "Cargo.toml"]
#[include = "src/*"]
struct Hal;

/// The tables of the plugin boundary.
#[derive(RustEmbed)]
#[folder = "../../hal/abi/"]
#[include = "Cargo.toml"]
#[include = "src/*"]
struct Abi;

/// The vendor kit.
#[derive(RustEmbed)]
#[folder = "../plugin/"]
#[include = "Cargo.toml"]
#[include = "src/*"]
struct Kit;

/// The Rust template.
#[derive(RustEmbed)]
#[folder = "../../plugins/template-rust/"]
#[include = "src/*"]
#[include = "*.md"]
#[include = "*.ottava.ron"]
#[exclude = "target/*"]
struct RustTemplate;

/// The C template.
#[derive(RustEmbed)]
#[folder = "../../plugins/template-c/"]
#[include = "*.c"]
#[include = "*.md"]
#[include = "*.ottava.ron"]
struct CTemplate;

/// The C headers.
#[derive(RustEmbed)]
#[folder = "../include/"]
#[include = "*.h"]
struct Headers;

/// Versions of the kit's dependencies come from here, so that they cannot differ.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
/// Names in the templates that the project's name replaces.
const TEMPLATE: [&str; 2] = ["my-driver", "my_driver"];
/// Where the headers are, seen from the template and from the project.
const INCLUDE: [&str; 2] = ["../../sdk/include", "include"];

fn name(text: &str) -> Result<String, String> {
    let valid = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= 31
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if ["cpu", "npu", "reference"].contains(&text) {
        return Err("is the name of a built-in driver".to_owned());
    }
    if valid { Ok(text.to_owned()) } else { Err("needs lower-case letters, digits and `_`, a letter first".to_owned()) }
}

/// A file of the project: path and content.
type File = (String, Vec<u8>);

/// Writes the project.
pub fn run(args: &Args, _: &Context) -> Result<Answer> {
    let taken = std::fs::read_dir(&args.folder).is_ok_and(|mut d| d.next().is_some()) || args.folder.is_file();
    if taken {
        let what = format!("`{}` is there already and is not empty; name a new folder", args.folder.display());
        return Err(Failure::Usage(what));
    }
    let files = match args.lang {
        Lang::Rust => rust_project(&args.name),
        Lang::C => c_project(&args.name),
    };
    for (path, content) in &files {
        let path = args.folder.join(path);
        make_folder(path.parent().unwrap_or(Path::new("")))?;
        write_file(&path, content)?;
    }
    let names: Vec<String> = files.iter().map(|(path, _)| args.folder.join(path).display().to_string()).collect();
    let text = format!("{} files in {}\nnext: read {}", files.len(), args.folder.display(), readme(args));
    Ok(Answer::new(text, json!({ "files": names })))
}

fn readme(args: &Args) -> String {
    args.folder.join("README.md").display().to_string()
}

/// Every file of an embedded folder under a folder of the project.
fn embedded<E: RustEmbed>(folder: &str) -> Vec<File> {
    let path = |file: &str| if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") };
    E::iter().filter_map(|file| Some((path(&file), E::get(&file)?.data.into_owned()))).collect()
}

/// The files of a template under the project's name.
fn named<E: RustEmbed>(name: &str) -> Vec<File> {
    let renamed =
        |text: &str| TEMPLATE.iter().fold(text.replace(INCLUDE[0], INCLUDE[1]), |text, old| text.replace(old, name));
    let rename = |(path, content): File| match String::from_utf8(content) {
        Ok(text) => (renamed(&path), renamed(&text).into_bytes()),
        Err(e) => (path, e.into_bytes()),
    };
    embedded::<E>("").into_iter().map(rename).collect()
}

fn c_project(name: &str) -> Vec<File> {
    [named::<CTemplate>(name), embedded::<Headers>("include")].concat()
}

fn rust_project(name: &str) -> Vec<File> {
    let kit = [embedded::<Hal>("kit/hal"), embedded::<Abi>("kit/abi"), embedded::<Kit>("kit/plugin")].concat();
    let mut files = named::<RustTemplate>(name);
    files.push(("Cargo.toml".to_owned(), cargo_toml(name, &kit).into_bytes()));
    files.extend(kit);
    files
}

/// The project's manifest: the package, and a workspace that holds the kit.
fn cargo_toml(name: &str, kit: &[File]) -> String {
    let manifests = kit.iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    let wanted: String = manifests.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
    let needed = |line: &&str| {
        let key = line.split(['=', ' ']).next().unwrap_or("");
        let asked = [format!("{key}.workspace"), format!("{key} = {{ workspace")];
        !key.is_empty() && !key.starts_with("ottava") && asked.iter().any(|a| wanted.contains(a.as_str()))
    };
    let dependencies: String =
        section("[workspace.dependencies]").lines().filter(needed).map(|l| format!("{l}\n")).collect();
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nottava-plugin.workspace = true\n\n\
         [workspace]\nresolver = \"3\"\nmembers = [\"kit/hal\", \"kit/abi\", \"kit/plugin\"]\n\n\
         [workspace.package]\n{}\n[workspace.lints.rust]\n{}\n[workspace.lints.clippy]\n{}\n\
         [workspace.dependencies]\n\
         ottava-hal = {{ path = \"kit/hal\" }}\nottava-abi = {{ path = \"kit/abi\", default-features = false }}\n\
         ottava-plugin = {{ path = \"kit/plugin\" }}\n{dependencies}",
        section("[workspace.package]"),
        section("[workspace.lints.rust]"),
        section("[workspace.lints.clippy]"),
    )
}

/// The lines of a section of the workspace's manifest.
fn section(header: &str) -> String {
    let lines = WORKSPACE.lines().skip_while(|l| *l != header).skip(1);
    lines.take_while(|l| !l.starts_with('[')).filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(name("acme_2").is_ok());
        for bad in ["", "cpu", "2acme", "Acme", "a-b", "a b"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_project_names_every_dependency_of_the_kit() {
        let files = rust_project("acme");
        let text = |path: &str| {
            let found = files.iter().find(|(p, _)| p == path).unwrap_or_else(|| panic!("{path} is missing"));
            String::from_utf8(found.1.clone()).unwrap()
        };
        let manifest = text("Cargo.toml");
        for dependency in ["bytemuck", "half", "libm", "parking_lot", "thiserror", "tracing", "abi_stable"] {
            assert!(manifest.contains(&format!("\n{dependency} = ")), "{dependency} is missing in\n{manifest}");
        }
        assert!(text("src/lib.rs").contains("acme") && !text("src/lib.rs").contains(TEMPLATE[0]));
    }
}
