//! The C header and the description of layouts, generated from the tables. `cargo run -p ottava-abi --example header`
//! writes them; tests compare what is checked in.

mod c_types;

use crate::constants::{GROUPS, Group};
use crate::registry::{self, Entry};
use crate::types::HANDLES;
use std::fmt::Write;

/// Extensions: name, what its hash is called in C, tables, hash.
const EXTENSIONS: [(&str, &str, &[Entry], u64); 3] = [
    (crate::PROFILE_NAME, "PROFILE", registry::PROFILE, registry::PROFILE_HASH),
    (crate::TEST_HOOKS_NAME, "TEST_HOOKS", registry::TEST_HOOKS, registry::TEST_HOOKS_HASH),
    (crate::DESCRIBE_NAME, "DESCRIBE", registry::DESCRIBE, registry::DESCRIBE_HASH),
];

fn all() -> impl Iterator<Item = &'static Entry> {
    registry::CORE.iter().chain(EXTENSIONS.iter().flat_map(|e| e.2))
}

/// The text of `ottava_driver.h`.
pub fn c_header() -> String {
    let mut h = String::from(include_str!("prologue.h"));
    versions(&mut h);
    GROUPS.into_iter().flatten().for_each(|g| group(&mut h, g));
    h.push_str("/* ---- Handles ---- */\n\n");
    for (name, doc) in HANDLES {
        comment(&mut h, "", doc);
        line(&mut h, format_args!("typedef struct {name} {name};"));
    }
    h.push_str("\n/* ---- Tables ---- */\n\n");
    all().for_each(|e| line(&mut h, format_args!("typedef struct {0} {0};", e.name)));
    h.push('\n');
    all().for_each(|e| declaration(&mut h, e));
    h.push_str("/* ---- Layout: every size and offset as in Rust ---- */\n\n");
    all().for_each(|e| assertions(&mut h, e));
    h.push_str(include_str!("epilogue.h"));
    h
}

fn line(h: &mut String, text: std::fmt::Arguments) {
    writeln!(h, "{text}").expect("a string takes everything");
}

fn comment(h: &mut String, indent: &str, doc: &[&str]) {
    let text = doc.iter().map(|l| l.trim()).collect::<Vec<_>>().join(&format!("\n{indent}   "));
    line(h, format_args!("{indent}/* {text} */"));
}

fn versions(h: &mut String) {
    let [major, minor, patch] = crate::note::SDK_VERSION;
    line(h, format_args!("/* Version of this header. Major 0 is the draft of major 1. */"));
    line(h, format_args!("#define OTTAVA_ABI_MAJOR {major}u\n#define OTTAVA_ABI_MINOR {minor}u"));
    line(h, format_args!("#define OTTAVA_ABI_PATCH {patch}u\n"));
    line(h, format_args!("/* Hash of all core tables, the layout check when a driver is loaded. */"));
    line(h, format_args!("#define OTTAVA_CORE_HASH UINT64_C({:#018x})", registry::CORE_HASH));
    for (name, c, _, hash) in EXTENSIONS {
        line(h, format_args!("/* Extension `{name}`: its name, and the hash of its tables. */"));
        line(h, format_args!("#define OTTAVA_{c}_NAME \"{name}\"\n#define OTTAVA_{c}_HASH UINT64_C({hash:#018x})"));
    }
    h.push_str("/* Hash of each table. */\n");
    for e in all() {
        let name = e.name.to_uppercase();
        line(h, format_args!("#define {name}_HASH UINT64_C({:#018x})", e.hash));
    }
    h.push_str("\n/* ---- Numbers ---- */\n\n");
}

fn group(h: &mut String, group: &Group) {
    comment(h, "", group.doc);
    for item in group.items {
        let value = match group.ty {
            "i32" => format!("INT32_C({})", item.value),
            "u32" => format!("UINT32_C({})", item.value),
            _ => format!("UINT64_C({})", item.value),
        };
        let doc = item.doc.join(" ");
        line(h, format_args!("#define {}{} {value} /* {} */", group.prefix, item.name, doc.trim()));
    }
    h.push('\n');
}

fn declaration(h: &mut String, entry: &Entry) {
    comment(h, "", entry.doc);
    line(h, format_args!("struct {} {{", entry.name));
    for field in entry.fields {
        match c_types::slice_element(field.ty) {
            Some(element) => {
                let mut doc: Vec<&str> = field.doc.to_vec();
                let of = format!("Of {element}.");
                doc.push(&of);
                comment(h, "    ", &doc);
            }
            None => comment(h, "    ", field.doc),
        }
        line(h, format_args!("    {};", c_types::declare(field.ty, field.name)));
    }
    h.push_str("};\n\n");
}

fn assertions(h: &mut String, entry: &Entry) {
    let name = entry.name;
    line(h, format_args!("OTTAVA_ASSERT(sizeof({name}) == {}, \"{name}\");", entry.size));
    for f in entry.fields {
        let (field, offset) = (f.name, f.offset);
        line(h, format_args!("OTTAVA_ASSERT(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"));
    }
    h.push('\n');
}

/// Every table as JSON: name, kind, size, hash, and of each field name, type, offset, size.
pub fn layout_json() -> String {
    let mut json = format!("{{\n  \"core_hash\": \"{:#018x}\",\n  \"tables\": [\n", registry::CORE_HASH);
    let tables: Vec<_> = all().map(table_json).collect();
    json.push_str(&tables.join(",\n"));
    json.push_str("\n  ]\n}\n");
    json
}

fn table_json(e: &Entry) -> String {
    let fields: Vec<_> = e.fields.iter().map(field_json).collect();
    format!(
        "    {{\"name\": \"{}\", \"kind\": {}, \"size\": {}, \"hash\": \"{:#018x}\", \"fields\": [\n{}\n    ]}}",
        e.name,
        e.kind,
        e.size,
        e.hash,
        fields.join(",\n")
    )
}

fn field_json(f: &crate::Field) -> String {
    let ty: String = f.ty.replace('"', "'").split_whitespace().collect::<Vec<_>>().join(" ");
    format!("      {{\"name\": \"{}\", \"type\": \"{ty}\", \"offset\": {}, \"size\": {}}}", f.name, f.offset, f.size)
}
