//! `bench --tune` and what becomes of its file: used, refused with both keys, or an error that names file and key.

mod common;

use common::{asset, folder, ottava};
use ottava::Tuning;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = r#"Ottava(
    devices: [(id: "npu", driver: "npu", options: {"config": "edge16"}), (id: "cpu", driver: "cpu")],
    TUNING
)"#;
const NAMED: &str = r#"tuning: Some("tune.ron"),"#;

fn configure(dir: &Path, tuning: &str) {
    std::fs::write(dir.join("ottava.ron"), CONFIG.replace("TUNING", tuning)).unwrap();
}

/// A quantized network, its tuning file, and a configuration that names it.
fn tuned() -> (tempfile::TempDir, Tuning) {
    let dir = folder();
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    ottava(dir.path(), &["quantize", &model, "--data", &data, "-o", "q.onnx"]).succeeds();
    configure(dir.path(), "");
    let json = ottava(dir.path(), &["bench", "q.onnx", "--tune", "tune.ron", "--runs", "3", "--json"]).json();
    for key in ["file", "cpu", "model_sha256", "devices", "signatures"] {
        assert!(!json[key].is_null(), "{key}: {json}");
    }
    configure(dir.path(), NAMED);
    let tuning = Tuning::load(&dir.path().join("tune.ron")).unwrap();
    (dir, tuning)
}

fn save(dir: &Path, tuning: &Tuning) {
    std::fs::write(dir.join("tune.ron"), tuning.to_ron().unwrap()).unwrap();
}

/// Makes every node take so long on a device.
fn set_costs(tuning: &mut Tuning, device: &str, ns: u64) {
    for time in tuning.nodes.iter_mut().filter_map(|n| n.costs.get_mut(device)) {
        (time.best_ns, time.median_ns) = (ns, ns);
    }
}

fn explained(dir: &Path, model: &str) -> Value {
    ottava(dir, &["explain", model, "--json"]).json()
}

fn devices_of(explained: &Value, op: &str) -> Vec<String> {
    let nodes = explained["nodes"].as_array().unwrap().iter().filter(|n| n["op"] == op);
    nodes.map(|n| n["device"].as_str().unwrap().to_owned()).collect()
}

fn has_measured(explained: &Value) -> bool {
    let nodes = explained["nodes"].as_array().unwrap().iter();
    nodes.flat_map(|n| n["verdicts"].as_array().unwrap()).any(|v| v["measured"] == true)
}

#[test]
fn a_file_is_written_read_and_used() {
    let (dir, tuning) = tuned();
    let text = std::fs::read_to_string(dir.path().join("tune.ron")).unwrap();
    assert_eq!(tuning.to_ron().unwrap(), text, "what is read is what was written");
    let ids: Vec<&str> = tuning.devices.iter().map(|d| d.id.as_str()).collect();
    assert_eq!(ids, ["npu", "cpu"]);
    assert!(tuning.nodes.iter().any(|n| n.costs.contains_key("npu") && n.costs.contains_key("cpu")));
    let json = explained(dir.path(), "q.onnx");
    assert_eq!(json["tuning"]["used"], true, "{}", json["tuning"]);
    assert!(json["tuning"]["file"].as_str().unwrap().ends_with("tune.ron") && has_measured(&json));
    let text = ottava(dir.path(), &["bench", "q.onnx", "--runs", "1"]).stdout;
    assert!(text.lines().any(|l| l.starts_with("tuning file tune.ron (used): measured on")), "{text}");
    let text = ottava(dir.path(), &["explain", "q.onnx"]).stdout;
    assert!(text.contains(" measured") && text.contains("tune.ron (used)"), "{text}");
    let devices = ottava(dir.path(), &["devices", "--json"]).json();
    assert_eq!(devices["tuning"]["used"], true, "{}", devices["tuning"]);
    configure(dir.path(), "");
    let json = explained(dir.path(), "q.onnx");
    assert!(json["tuning"].is_null() && !has_measured(&json));
}

#[test]
fn costs_of_the_file_decide_and_a_plan_keeps_them() {
    let (dir, mut tuning) = tuned();
    for (slow, fast) in [("npu", "cpu"), ("cpu", "npu")] {
        set_costs(&mut tuning, slow, 50_000_000);
        set_costs(&mut tuning, fast, 1_000);
        save(dir.path(), &tuning);
        let json = explained(dir.path(), "q.onnx");
        let convs = devices_of(&json, "Conv");
        assert!(!convs.is_empty() && convs.iter().all(|d| d == fast), "{convs:?}");
        ottava(dir.path(), &["compile", "q.onnx", "-o", "q.plan"]).succeeds();
        let plan = explained(dir.path(), "q.plan");
        assert_eq!(devices_of(&plan, "Conv"), convs);
        assert!(has_measured(&plan));
        let run = ottava(dir.path(), &["bench", "q.plan", "--runs", "1", "-v"]);
        run.succeeds();
        assert!(run.stderr.contains("not looked at"), "{}", run.stderr);
    }
}

#[test]
fn a_file_for_something_else_is_told_and_left_aside() {
    let (dir, tuning) = tuned();
    type Edit = fn(&mut Tuning);
    let cases: [(Edit, &[&str]); 4] = [
        (|t| t.machine.model = "Abacus 9".into(), &["Abacus 9", "this is"]),
        (|t| t.devices[1].key.version = "99.9".into(), &["`cpu` was measured as cpu 99.9", "this is cpu "]),
        (|t| t.model.sha256 = "0".repeat(64), &["measured for the model", "0000", "this is"]),
        (|t| drop(t.devices.remove(0)), &["no measurement of the device `npu`"]),
    ];
    for (edit, parts) in cases {
        let mut other = tuning.clone();
        edit(&mut other);
        let known: Vec<String> = other.devices.iter().map(|d| d.id.clone()).collect();
        other.nodes.iter_mut().for_each(|n| n.costs.retain(|id, _| known.contains(id)));
        save(dir.path(), &other);
        let run = ottava(dir.path(), &["explain", "q.onnx", "--json"]);
        assert_eq!((run.json()["tuning"]["used"].clone(), has_measured(&run.json())), (Value::Bool(false), false));
        let warned = |part: &&str| run.stderr.contains("warning") && run.stderr.contains(*part);
        assert!(parts.iter().all(warned), "{parts:?} in {}", run.stderr);
    }
    save(dir.path(), &tuning);
    let other_options = ottava(dir.path(), &["explain", "q.onnx", "--isa", "portable"]);
    other_options.succeeds();
    assert!(other_options.stderr.contains("options: isa=portable"), "{}", other_options.stderr);
}

#[test]
fn chosen_options_are_set_where_nothing_else_sets_them() {
    let (dir, mut tuning) = tuned();
    tuning.devices[1].chosen = [("threads".to_owned(), "1".to_owned())].into();
    set_costs(&mut tuning, "npu", 50_000_000);
    save(dir.path(), &tuning);
    let json = ottava(dir.path(), &["bench", "q.onnx", "--runs", "1", "--json"]).json();
    assert_eq!((&json["threads"], &json["tuning"]["chosen"]["cpu"]["threads"]), (&1.into(), &"1".into()), "{json}");
    let given = ottava(dir.path(), &["bench", "q.onnx", "--runs", "1", "--threads", "3", "--json"]);
    assert_eq!(given.json()["threads"], 3);
    assert!(given.stderr.contains("threads=3"), "{}", given.stderr);
    tuning.devices[1].chosen = [("isa".to_owned(), "portable".to_owned())].into();
    save(dir.path(), &tuning);
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron", "devices[1].chosen.isa", "`isa`"]);
    for value in ["0", "999999", "many"] {
        tuning.devices[1].chosen = [("threads".to_owned(), value.to_owned())].into();
        save(dir.path(), &tuning);
        for args in [["explain", "q.onnx"].as_slice(), &["devices"]] {
            let run = ottava(dir.path(), args);
            run.fails(3, &["tune.ron, key `devices[1].chosen.threads`", value, "from 1 to"]);
            assert!(!run.stderr.contains("ottava.ron"), "{}", run.stderr);
        }
    }
}

#[test]
fn hostile_files_are_errors_that_name_file_and_key() {
    let (dir, tuning) = tuned();
    let whole = tuning.to_ron().unwrap();
    let cpu = whole.find("\"cpu\": (best_us: ").unwrap() + "\"cpu\": (best_us: ".len();
    let end = cpu + whole[cpu..].find(',').unwrap();
    let with_time = |time: &str| format!("{}{time}{}", &whole[..cpu], &whole[end..]);
    let first = tuning.nodes[0].nodes[0].as_str();
    let stray = whole.replacen(&format!("\"{first}\""), "\"no such node\"", 1);
    let names_end = whole.find("names: [").unwrap() + "names: [".len();
    let with_name = |name: &str| format!("{}{name}, {}", &whole[..names_end], &whole[names_end..]);
    let op = format!("op: {:?}", tuning.nodes[0].op);
    let twice =
        whole.replacen("\"cpu\": (best_us", "\"npu\": (best_us: 1.0, median_us: 1.0, runs: 1), \"npu\": (best_us", 1);
    let cases: [(String, &[&str]); 18] = [
        (twice, &["`npu` is given twice", "tune.ron:"]),
        (with_name("\"\""), &["nodes[0].names[0]", "needs a name"]),
        (with_name(&format!("{first:?}")), &["nodes[0].names[1]", "twice", first]),
        (whole.replacen(&op, "op: \"Sine\"", 1), &["nodes[0].op", "`Sine`", &tuning.nodes[0].op]),
        (whole.replacen("vendor: \"", &format!("vendor: \"{}", "x".repeat(300)), 1), &["cpu.vendor", "256"]),
        (whole.replacen("isa: \"", &format!("isa: \"{}", "x".repeat(300)), 1), &["devices[0].isa", "256"]),
        (with_time("NaN"), &["costs.cpu.best_us", "NaN"]),
        (with_time("-1.0"), &["costs.cpu.best_us", "-1"]),
        (with_time("inf"), &["costs.cpu.best_us"]),
        (with_time("1e300"), &["costs.cpu.best_us"]),
        (with_time("\"fast\""), &["tune.ron:"]),
        (stray, &["names", "no such node"]),
        (whole.replacen("\"cpu\": (best_us", "\"cpx\": (best_us", 1), &["costs.cpx", "did you mean `cpu`?"]),
        (whole.replacen("format: 1", "format: 7", 1), &["format", "7"]),
        (whole.replacen("signature:", "sig:", 1), &["unknown key `sig`", "tune.ron:"]),
        (whole[..whole.len() / 2].to_owned(), &["tune.ron:"]),
        (String::new(), &["empty"]),
        ("[".repeat(100_000), &["tune.ron:"]),
    ];
    for (text, parts) in cases {
        std::fs::write(dir.path().join("tune.ron"), &text).unwrap();
        let run = ottava(dir.path(), &["explain", "q.onnx"]);
        run.fails(3, &["tune.ron"]);
        run.fails(3, parts);
    }
    let huge = std::fs::File::create(dir.path().join("tune.ron")).unwrap();
    huge.set_len(1 << 40).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron", "too large"]);
    std::fs::write(dir.path().join("tune.ron"), [0xff; 100]).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron"]);
    std::fs::remove_file(dir.path().join("tune.ron")).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron", "check the path"]);
}

#[test]
fn what_a_configuration_names_is_a_regular_file() {
    let (dir, _) = tuned();
    std::fs::remove_file(dir.path().join("tune.ron")).unwrap();
    for other in ["/proc/self/maps", "/dev/zero", "/proc/kmsg", ".", "/dev/tty"] {
        configure(dir.path(), &format!("tuning: Some({other:?}),"));
        ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["no regular file"]);
    }
    configure(dir.path(), NAMED);
    let pipes = Command::new("mkfifo").args(["tune.ron", "chip.ron"]).current_dir(dir.path()).status();
    if !pipes.is_ok_and(|s| s.success()) {
        println!("skipped: no pipe can be made here");
        return;
    }
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron", "no regular file"]);
    std::fs::write(dir.path().join("ottava.ron"), CONFIG.replace("edge16", "chip.ron").replace("TUNING", "")).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["chip.ron", "no regular file"]);
    let library = r#"Ottava(drivers: [Library(path: "tune.ron")])"#;
    std::fs::write(dir.path().join("ottava.ron"), library).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["tune.ron", "not a file"]);
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let (dir, _) = tuned();
    let (config, chip) = (dir.path().join("ottava.ron"), dir.path().join("chip.ron"));
    std::fs::write(&chip, "Npu(name: \"own\")").unwrap();
    let named = CONFIG.replace("edge16", "chip.ron").replace("TUNING", NAMED);
    std::fs::write(&config, named).unwrap();
    std::fs::write(dir.path().join("x.bin"), [0u8; 256]).unwrap();
    std::fs::hard_link(dir.path().join("tune.ron"), dir.path().join("link.ron")).unwrap();
    let before = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    for target in ["q.onnx", "ottava.ron", "tune.ron", "chip.ron", "./link.ron", "x.bin"] {
        let content = before(target);
        let verbs: [&[&str]; 5] = [
            &["bench", "q.onnx", "--raw-input", "image:f32:1x1x8x8:x.bin", "--tune", target],
            &["compile", "q.onnx", "-o", target],
            &["compile", "q.onnx", "--stop-after", "canonical", "-o", target],
            &["calibrate", "q.onnx", "--data", "x.bin", "-o", target],
            &["eval", "q.onnx", "--data", "x.bin", "--outputs", target],
        ];
        for args in verbs.into_iter().filter(|a| a[0] != "compile" || target != "x.bin") {
            ottava(dir.path(), args).fails(2, &[target, "choose another name"]);
        }
        assert!(before(target) == content, "{target}");
    }
    ottava(dir.path(), &["calibrate", "--merge", "tune.ron", "x.bin", "-o", "x.bin"]).fails(2, &["x.bin"]);
    let recipe = ["quantize", "q.onnx", "--dynamic", "-o", "o.onnx", "--save-recipe", "tune.ron"];
    ottava(dir.path(), &recipe).fails(2, &["tune.ron"]);
    ottava(dir.path(), &["demo", "-o", "."]).fails(2, &["chip.ron"]);
}

#[test]
fn wrong_usage_is_told() {
    let dir = folder();
    std::fs::copy(asset("digits.onnx"), dir.path().join("m.onnx")).unwrap();
    ottava(dir.path(), &["bench", "m.onnx", "--tune", "m.onnx"]).fails(2, &["m.onnx"]);
    ottava(dir.path(), &["bench", "m.onnx", "--tune", "t.ron", "--worker"]).fails(2, &["--worker"]);
    for target in ["no/t.ron", "."] {
        // So many runs would not end: the file is tried before anything is measured.
        let args = ["bench", "m.onnx", "--tune", target, "--runs", "10000000"];
        ottava(dir.path(), &args).fails(3, &[target, "cannot write the file"]);
    }
}
