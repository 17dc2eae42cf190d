//! `ottava conformance`: drivers that are good, that crash, hang and exit; lists, reports, repro files, hostile paths.
//!
//! The bad drivers are the C template with one line changed, built by the C compiler of the machine; without one these tests
//! say so and end.

mod common;

use common::{Run, folder, ottava};
use ottava_conformance::{Repro, ReproFile};
use ottava_hal::{DataType, Node, Program, QuantParams, Tensor, TensorType, Value as Slot, ValueId};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A case that is quick and opens and closes devices.
const CASE: &str = "dev.open_close.leaves_nothing";
const CLOSE: &str = "static void close(ottava_device* d) { (void)d; }";

/// Builds the C template with its function `close` replaced; `false` if there is no C compiler.
fn build(dir: &Path, close: &str) -> bool {
    build_with(dir, CLOSE, close)
}

/// Builds the C template with a part of its text replaced; `false` if there is no C compiler.
fn build_with(dir: &Path, old: &str, new: &str) -> bool {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: there is no C compiler");
        return false;
    }
    let project = dir.join("project");
    let _ = std::fs::remove_dir_all(&project);
    ottava(dir, &["new-driver", "acme", "--lang", "c", "project"]).succeeds();
    let source = project.join("acme.c");
    let text = std::fs::read_to_string(&source).unwrap();
    assert!(text.contains(old));
    std::fs::write(&source, text.replace(old, new)).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden", "-Iproject/include"]);
    let built = cc.args(["project/acme.c", "-o", "libacme.so", "-lm"]).current_dir(dir).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    true
}

fn conformance(dir: &Path, more: &[&str]) -> Run {
    let args = [&["conformance", "./libacme.so", "--filter", CASE, "--report", "out"], more].concat();
    ottava(dir, &args)
}

/// The report without what depends on time.
fn report(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("out/report.json")).unwrap();
    let mut doc: Value = serde_json::from_str(&text).unwrap();
    doc["seconds"] = Value::Null;
    doc["cases"].as_array_mut().unwrap().iter_mut().for_each(|case| case["millis"] = Value::Null);
    doc
}

#[test]
fn a_good_driver_is_conformant_and_its_report_is_always_the_same() {
    let dir = folder();
    if !build(dir.path(), CLOSE) {
        return;
    }
    let run = conformance(dir.path(), &["--seed", "7"]);
    run.succeeds();
    assert!(run.stdout.contains("B.3") && run.stdout.contains("1 passed"), "{}", run.stdout);
    let first = report(dir.path());
    assert_eq!((&first["passed"], &first["conformant"], &first["schema"]), (&1.into(), &true.into(), &1.into()));
    let s = &first["submission"];
    assert_eq!((&s["driver"]["driver"], &s["seed"], &s["profile"]), (&"acme".into(), &7.into(), &"minimal".into()));
    assert_eq!((&s["library"]["file"], &s["library"]["doors"][0]), (&"libacme.so".into(), &"c".into()));
    assert_eq!(s["library"]["sha256"].as_str().map(str::len), Some(64));
    assert!(first["coverage"].as_array().unwrap().iter().any(|c| c["op"] == "Add" && c["dtype"] == "s8"));
    conformance(dir.path(), &["--seed", "7"]).succeeds();
    assert_eq!(report(dir.path()), first);
    let html = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    for part in ["Conformance of acme", "Coverage", "Submission", CASE] {
        assert!(html.contains(part), "{part}");
    }
    assert!(std::fs::read_dir(dir.path().join("out/repro")).unwrap().next().is_none());
}

#[test]
fn drivers_that_crash_hang_or_exit_are_reported_whole() {
    let dir = folder();
    let bad = [
        ("static void close(ottava_device* d) { (void)d; abort(); }", "crashed", "signal"),
        ("static void close(ottava_device* d) { (void)d; exit(0); }", "crashed", "without a result"),
        (
            "static void close(ottava_device* d) { (void)d; extern int pause(void); for (;;) pause(); }",
            "hung",
            "no end within 2 s",
        ),
    ];
    for (close, result, words) in bad {
        if !build(dir.path(), close) {
            return;
        }
        let run = conformance(dir.path(), &["--timeout", "2"]);
        run.fails(1, &["`acme` is not conformant: 1 case is bad"]);
        let doc = report(dir.path());
        assert_eq!((&doc[result], &doc["conformant"]), (&1.into(), &false.into()), "{close}");
        let case = doc["cases"].as_array().unwrap().iter().find(|c| c["name"] == CASE).unwrap();
        assert!(case["detail"].as_str().unwrap().contains(words), "{close}: {case}");
        for file in ["report.html", "junit.xml", case["repro"].as_str().unwrap()] {
            assert!(dir.path().join("out").join(file).is_file(), "{file}");
        }
        let repro = format!("out/{}", case["repro"].as_str().unwrap());
        let again = ottava(dir.path(), &["conformance", "./libacme.so", "--timeout", "2", "--repro", &repro]);
        again.fails(1, &[&format!("`{CASE}` {result}")]);
    }
}

#[test]
fn lists_are_kept_apart_and_an_unexpected_pass_fails() {
    let dir = folder();
    if !build(dir.path(), CLOSE) {
        return;
    }
    let with = |text: &str| {
        std::fs::write(dir.path().join("e.ron"), text).unwrap();
        conformance(dir.path(), &["--expect", "e.ron"])
    };
    with(r#"(expected_failures: [("dev.open_close.*", "leaks", "2999-01-01")])"#).fails(1, &["not conformant"]);
    assert_eq!(report(dir.path())["xpass"], 1);
    with(r#"(unsupported: [("dev.open_close.*", "no")])"#).fails(3, &["e.ron", "the profile minimal needs"]);
    with("(\n  unsuported: [],\n)").fails(3, &["e.ron:2:", "did you mean `unsupported`?"]);
    with("(\n  expected_failures: [(\"a\", \"b\", \"soon\")],\n)").fails(3, &["e.ron:2:", "`soon` is not a day"]);
    with(r#"(unsupported: [("no.such.case", "gone")])"#).fails(0, &["`no.such.case` means no case"]);
    // Without --expect, the list beside the library is taken.
    std::fs::write(dir.path().join("libacme.expect.ron"), r#"(unsupported: [("zzz", "gone")])"#).unwrap();
    conformance(dir.path(), &[]).fails(0, &["libacme.expect.ron", "`zzz` means no case"]);
}

#[test]
fn what_is_worse_than_before_comes_first() {
    let dir = folder();
    if !build(dir.path(), CLOSE) {
        return;
    }
    conformance(dir.path(), &[]).succeeds();
    std::fs::rename(dir.path().join("out/report.json"), dir.path().join("old.json")).unwrap();
    assert!(build(dir.path(), "static void close(ottava_device* d) { (void)d; abort(); }"));
    let run = conformance(dir.path(), &["--baseline", "old.json"]);
    run.fails(1, &[]);
    assert!(run.stdout.starts_with("1 case is worse"), "{}", run.stdout);
    assert_eq!(report(dir.path())["regressions"][0]["was"], "passed");
    std::fs::write(dir.path().join("old.json"), "[]").unwrap();
    conformance(dir.path(), &["--baseline", "old.json"]).fails(3, &["old.json", "report.json"]);
}

#[test]
fn what_is_no_driver_is_refused_with_the_reason() {
    let dir = folder();
    std::fs::write(dir.path().join("text.so"), "not a library, but a text that is long enough").unwrap();
    std::fs::create_dir(dir.path().join("folder.so")).unwrap();
    for (path, words) in [("text.so", "not an ELF file"), ("folder.so", "folder.so"), ("missing.so", "missing.so")] {
        let run = ottava(dir.path(), &["conformance", path]);
        run.fails(4, &[path, "is not loaded", words]);
    }
    ottava(dir.path(), &["conformance", "--device", "nowhere"]).fails(2, &["there is no device `nowhere`"]);
    ottava(dir.path(), &["conformance", "text.so", "--oracle", "x.ron"])
        .fails(2, &["`--oracle x.ron` is not npu:CHIP.ron"]);
    ottava(dir.path(), &["conformance", "text.so", "--oracle", "npu:missing.ron"]).fails(3, &["missing.ron"]);
    ottava(dir.path(), &["conformance", "text.so", "--repro", "text.so"]).fails(3, &["no repro file"]);
}

#[test]
fn a_dry_run_lists_the_cases() {
    let dir = folder();
    let args = ["conformance", "--device", "reference", "--profile", "full", "--filter", "B.3", "--dry-run", "--json"];
    let json = ottava(dir.path(), &args).json();
    let names: Vec<&str> = json["cases"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(names.contains(&CASE), "{names:?}");
    let none = ["conformance", "--device", "reference", "--filter", "nothing.like.this"];
    ottava(dir.path(), &none).fails(2, &["no case of the profile minimal is `nothing.like.this`"]);
}

#[test]
fn a_chip_is_compared_with_its_description() {
    let dir = folder();
    let device = |chip: &str| {
        let config = format!(r#"Ottava(devices: [(id: "chip", driver: "npu", options: {{"config": "{chip}"}})])"#);
        std::fs::write(dir.path().join("ottava.ron"), config).unwrap();
    };
    let compared = |more: &[&str]| {
        let args = ["conformance", "--device", "chip", "--filter", "oracle.run.Conv", "--oracle", "npu:edge16"];
        ottava(dir.path(), &[&args, more].concat())
    };
    device("edge16");
    compared(&["--cycle-tolerance", "0"]).succeeds();
    device("edge32");
    compared(&[]).succeeds();
    let slower = compared(&["--cycle-tolerance", "5"]);
    slower.fails(1, &["not conformant"]);
    assert!(slower.stdout.contains("cycles, the description says"), "{}", slower.stdout);
}

/// The file of a failed addition of s8 tensors.
fn repro() -> ReproFile {
    let x: Vec<i64> = (0..64).map(|i| (i * 41 + 3) % 256 - 128).collect();
    let x = Tensor::from_ints(DataType::S8, &[1, 64], &x).unwrap();
    let value = |name: &str, scale, zp| {
        let ty = TensorType::fixed(DataType::S8, &[1, 64]).quantized(QuantParams::per_tensor(scale, zp));
        Slot { name: name.into(), ty, constant: None }
    };
    let mut node = Node::new("add", "Add", 14);
    (node.inputs, node.outputs) = (vec![Some(ValueId(0)), Some(ValueId(1))], vec![ValueId(2)]);
    let values = vec![value("a", 0.3, 4), value("b", 0.17, -9), value("y", 0.41, 5)];
    let (inputs, outputs) = (vec![ValueId(0), ValueId(1)], vec![ValueId(2)]);
    let program = Program { name: "p".into(), values, nodes: vec![node], inputs, outputs };
    let inputs = vec![x.clone(), x];
    let expected = ottava_reference::Interpreter::new(&program).unwrap().run(&inputs).unwrap();
    let text = str::to_owned;
    ReproFile {
        group: text("G.1"),
        case: text("num.Add.0"),
        detail: text("the sums differ"),
        driver: text("acme 0.1.0"),
        device: text("acme"),
        seed: 1,
        stress: false,
        repro: Some(Repro { program, inputs, actual: expected.clone(), expected }),
    }
}

#[test]
fn a_repro_file_names_the_cause_of_wrong_numbers() {
    let dir = folder();
    std::fs::write(dir.path().join("a.orepro"), repro().to_bytes().unwrap()).unwrap();
    let replay =
        |more: &[&str]| ottava(dir.path(), &[&["conformance", "./libacme.so", "--repro", "a.orepro"], more].concat());
    if !build(dir.path(), CLOSE) {
        return;
    }
    let good = replay(&[]);
    good.succeeds();
    assert!(good.stdout.contains("num.Add.0 (G.1), seed 1") && good.stdout.contains("passed"), "{}", good.stdout);
    let defects = [
        ("nearbyintf(", "floorf(", "it is always rounded down"),
        (" + (float)s->zero;", ";", "the zero point of the output is not added"),
        ("k < e->bytes[y]; k++) v[y]", "k + 1 < e->bytes[y]; k++) v[y]", "the last element is not written"),
    ];
    for (old, new, cause) in defects {
        assert!(build_with(dir.path(), old, new));
        let bad = replay(&[]);
        bad.fails(1, &["`num.Add.0` failed"]);
        for part in ["the sums differ", "the first is [0, ", "real result", "zero point", "explains everything"] {
            assert!(bad.stdout.contains(part), "`{part}` is not in: {}", bad.stdout);
        }
        assert!(bad.stdout.contains(&format!("likely cause: {cause}")), "{}", bad.stdout);
        let json = replay(&["--json"]).value();
        assert!(json["diagnosis"]["cause"].as_str().unwrap().starts_with(cause), "{json}");
    }
}
