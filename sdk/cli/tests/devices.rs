//! The verbs that know several devices: compile, explain, simulate, new-driver, and what a configuration may say about them.

mod common;

use common::{asset, folder, ottava};
use serde_json::Value;
use std::path::Path;

const SPLIT: &str = r#"Ottava(
    devices: [(id: "npu", driver: "npu", options: {"config": "edge16"}), (id: "cpu", driver: "cpu")],
    placement: Priority(["npu", "cpu"]),
)"#;

/// Quantizes the digits network into the folder and writes a configuration.
fn prepared(dir: &Path, config: &str) {
    let (model, data) = (asset("digits.onnx"), asset("digits_calib.npz"));
    ottava(dir, &["quantize", &model, "--data", &data, "-o", "q.onnx"]).succeeds();
    std::fs::write(dir.join("ottava.ron"), config).unwrap();
}

fn devices_of(explained: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    explained["nodes"].as_array().unwrap().iter().map(|n| (text(&n["op"]), text(&n["device"]))).collect()
}

#[test]
fn devices_say_which_instruction_sets_there_are() {
    let dir = folder();
    let config = r#"Ottava(devices: [(id: "c", driver: "cpu", options: {"isa": "portable"})])"#;
    std::fs::write(dir.path().join("ottava.ron"), config).unwrap();
    let json = ottava(dir.path(), &["devices", "--json"]).json();
    let cpu = json["devices"].as_array().unwrap().iter().find(|d| d["id"] == "cpu").unwrap();
    let isas = cpu["isas"].as_array().unwrap();
    assert!(isas.contains(&cpu["isa"]) && isas.contains(&"portable".into()) && !isas.contains(&"auto".into()), "{cpu}");
    assert_eq!(json["configured"][0]["isa"], "portable");
    let text = ottava(dir.path(), &["devices"]).stdout;
    let names: Vec<&str> = isas.iter().filter_map(Value::as_str).collect();
    assert!(text.contains(&names.join(" ")), "{text}");
}

#[test]
fn explain_gives_every_node_a_device_and_a_reason() {
    let dir = folder();
    prepared(dir.path(), SPLIT);
    let json = ottava(dir.path(), &["explain", "q.onnx", "--json"]).json();
    for node in json["nodes"].as_array().unwrap() {
        assert!(!node["reason"].as_str().unwrap().is_empty(), "{node}");
        for verdict in node["verdicts"].as_array().unwrap() {
            assert!(verdict["ok"] == true || !verdict["text"].as_str().unwrap().is_empty(), "{verdict}");
        }
    }
    let placed = devices_of(&json);
    assert!(placed.contains(&("Conv".into(), "npu".into())) && placed.iter().any(|(_, d)| d == "cpu"), "{placed:?}");
}

#[test]
fn a_plan_runs_like_its_model() {
    let dir = folder();
    prepared(dir.path(), SPLIT);
    let compiled = ottava(dir.path(), &["compile", "q.onnx", "-o", "q.plan", "--json"]).json();
    for key in ["partitions", "arena_bytes", "diagnostics"] {
        assert!(compiled.get(key).is_some(), "{key}");
    }
    assert!(compiled["partitions"].as_array().unwrap().len() > 1);
    let data = asset("digits_test.npz");
    let eval = |model: &str| {
        let json =
            ottava(dir.path(), &["eval", model, "--data", &data, "--limit", "100", "--outputs", "o.npz", "--json"])
                .json();
        (json["hits"].as_u64(), std::fs::read(dir.path().join("o.npz")).unwrap())
    };
    assert!(eval("q.plan") == eval("q.onnx"));
    let explained = ottava(dir.path(), &["explain", "q.plan", "--json"]).json();
    assert_eq!(devices_of(&explained), devices_of(&ottava(dir.path(), &["explain", "q.onnx", "--json"]).json()));
    ottava(dir.path(), &["bench", "q.plan", "--device", "cpu"]).fails(3, &["compiled for"]);
    ottava(dir.path(), &["quantize", "q.plan", "--data", &data, "-o", "z.onnx"]).fails(3, &["a plan has no graph"]);
}

#[test]
fn damaged_plans_are_told() {
    let dir = folder();
    prepared(dir.path(), SPLIT);
    ottava(dir.path(), &["compile", "q.onnx", "-o", "q.plan"]).succeeds();
    let whole = std::fs::read(dir.path().join("q.plan")).unwrap();
    let data = asset("digits_test.npz");
    let eval = |bytes: &[u8]| {
        std::fs::write(dir.path().join("bad.plan"), bytes).unwrap();
        ottava(dir.path(), &["eval", "bad.plan", "--data", &data])
    };
    eval(&whole[..whole.len() / 2]).fails(3, &["bad.plan", "truncated"]);
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    eval(&flipped).fails(3, &["bad.plan", "checksum"]);
    eval(b"").fails(3, &["bad.plan"]);
}

#[test]
fn phases_are_shown_as_text_that_parses() {
    let dir = folder();
    prepared(dir.path(), "Ottava()");
    for phase in ["imported", "canonical", "quantized"] {
        let args = ["compile", "q.onnx", "--stop-after", phase, "--emit", "text", "-o", "g.txt"];
        ottava(dir.path(), &args).succeeds();
        let text = std::fs::read_to_string(dir.path().join("g.txt")).unwrap();
        let graph = ottava_graph::text::parse(&text).unwrap();
        assert_eq!(graph.phase.name(), phase);
    }
}

#[test]
fn rules_about_nodes_and_devices_are_held() {
    let dir = folder();
    let with = |rest: &str| SPLIT.replace("placement:", &format!("{rest}\n    placement:"));
    prepared(dir.path(), &with(r#"pins: [("pool", "cpu")], bans: [("*dense*", "npu")],"#));
    let json = ottava(dir.path(), &["explain", "q.onnx", "--json"]).json();
    for node in json["nodes"].as_array().unwrap().iter().filter(|n| n["name"] == "pool" || n["name"] == "dense") {
        assert_eq!(node["device"], "cpu", "{node}");
    }
    std::fs::write(dir.path().join("ottava.ron"), with(r#"pins: [("pool", "gpu")],"#)).unwrap();
    ottava(dir.path(), &["explain", "q.onnx"]).fails(3, &["gpu", "npu", "ottava.ron", "`pins`"]);
    std::fs::write(dir.path().join("ottava.ron"), r#"Ottava(drivers: [Library(path: "no.so")])"#).unwrap();
    ottava(dir.path(), &["eval", "q.onnx", "--data", "d.npz"]).fails(3, &["no.so"]);
    let refused = ottava(dir.path(), &["devices", "--why", "--json"]);
    assert!(refused.stdout.contains("refused") || refused.stderr.contains("no.so"));
}

#[test]
fn simulate_writes_a_row_per_layer() {
    let dir = folder();
    std::fs::write(
        dir.path().join("l.csv"),
        "network,layer,kind,M,N,K,channels,count\nn,a,gemm,64,32,48,1,1\nn,b,dw,100,1,9,16,1\n",
    )
    .unwrap();
    let args = ["simulate", "--layers", "l.csv", "--npu", "edge16", "--mode", "fold_serial", "-o", "c.csv", "--json"];
    let json = ottava(dir.path(), &args).json();
    // WS, 16 x 16: 3 x 2 folds of M + 2 R + C - 2 cycles.
    assert_eq!(json["layers"][0]["compute_cycles"], 6 * (64 + 2 * 16 + 16 - 2));
    assert_eq!(std::fs::read_to_string(dir.path().join("c.csv")).unwrap().lines().count(), 3);
    ottava(dir.path(), &["simulate", "--layers", "l.csv", "--npu", "edge17", "-o", "c.csv"]).fails(3, &["edge16"]);
    std::fs::write(dir.path().join("n.ron"), "Npu(array: (rows: 0))").unwrap();
    ottava(dir.path(), &["simulate", "--layers", "l.csv", "--npu", "n.ron", "-o", "c.csv"])
        .fails(3, &["n.ron:1", "rows"]);
    prepared(dir.path(), "Ottava()");
    let json = ottava(dir.path(), &["simulate", "q.onnx", "--npu", "edge8", "-o", "m.csv", "--json"]).json();
    assert!(json["total_cycles"].as_u64().unwrap() > 0 && json["macs"].as_u64().unwrap() > 900_000, "{json}");
    let bridges = json["elsewhere"].as_array().unwrap();
    assert!(!bridges.is_empty() && bridges.iter().all(|e| !e["reason"].as_str().unwrap().is_empty()), "{bridges:?}");
    // Of a float network nothing runs there.
    let float = asset("digits.onnx");
    let said = ottava(dir.path(), &["simulate", &float, "--npu", "edge8", "-o", "f.csv", "--report", "f.html"]);
    let page = std::fs::read_to_string(dir.path().join("f.html")).unwrap();
    assert!(page.contains("ONLY 0.0 % OF THE MULTIPLY"), "{page}");
    assert!(
        said.stdout.contains("ONLY 0.0 % OF THE MULTIPLY") && said.stdout.contains("because of "),
        "{}",
        said.stdout
    );
}

#[test]
fn simulate_says_what_stays_on_the_chip() {
    let dir = folder();
    prepared(dir.path(), "Ottava()");
    let simulated = |fusion: bool| {
        std::fs::write(dir.path().join("n.ron"), format!("Npu(fusion: {fusion})")).unwrap();
        ottava(dir.path(), &["simulate", "q.onnx", "--npu", "n.ron", "-o", "m.csv", "--json"]).json()
    };
    let (on, off) = (simulated(true), simulated(false));
    let number = |json: &Value| json.as_u64().unwrap();
    let layers = |json: &Value| -> Vec<u64> {
        json["layers"].as_array().unwrap().iter().map(|l| number(&l["kept_on_chip"])).collect()
    };
    let kept = layers(&on);
    assert_eq!(number(&on["kept_on_chip"]["bytes"]), kept.iter().sum::<u64>());
    assert_eq!(number(&on["kept_on_chip"]["layers"]), kept.iter().filter(|n| **n > 0).count() as u64);
    assert!(kept.iter().any(|n| *n > 0) && layers(&off).iter().all(|n| *n == 0), "{kept:?}");
    assert!(number(&on["dram_bytes"]) < number(&off["dram_bytes"]));
    assert!(number(&on["total_cycles"]) <= number(&off["total_cycles"]));
}

#[test]
fn new_driver_writes_a_project_and_nothing_over_another() {
    let dir = folder();
    for lang in ["rust", "c"] {
        let json = ottava(dir.path(), &["new-driver", "acme", "--lang", lang, lang, "--json"]).json();
        let files: Vec<&str> = json["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(files.iter().any(|f| f.ends_with("acme.ottava.ron")), "{files:?}");
        for file in files {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
        ottava(dir.path(), &["new-driver", "acme", "--lang", lang, lang]).fails(2, &["not empty"]);
    }
    ottava(dir.path(), &["new-driver", "Ac me", "--lang", "c", "x"]).fails(2, &["lower-case"]);
}

const SWEEP: &str =
    r#"Sweep(vary: {"array.rows+array.cols": [8, 16, 0], "dram.bytes_per_cycle": (from: 4, to: 16, times: 2)})"#;

#[test]
fn a_sweep_is_the_same_whole_in_shards_and_taken_up_again() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    std::fs::write(path("s.ron"), SWEEP).unwrap();
    prepared(dir.path(), "Ottava()");
    let sweep = |more: &[&str]| {
        let args = [&["simulate", "--npu", "edge8", "--sweep", "s.ron"], more, &["--json"]].concat();
        ottava(dir.path(), &args).json()
    };
    let json = sweep(&["q.onnx", "-o", "all.csv", "--report", "all.html"]);
    assert_eq!((&json["points"], &json["invalid"], &json["simulated"]), (&9.into(), &3.into(), &9.into()));
    let all = read("all.csv");
    assert_eq!(all.lines().count(), 10);
    assert!(all.contains("`array.rows` is 0; it must be in 1..=1024"), "{all}");
    let html = read("all.html");
    for id in ["roofline", "cycles", "sweep"] {
        assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
    }
    for shard in ["1/2", "2/2"] {
        sweep(&["q.onnx", "--shard", shard, "-o", &format!("{}.csv", &shard[..1])]);
    }
    sweep(&["--merge", "1.csv", "2.csv", "-o", "merged.csv", "--report", "merged.html"]);
    assert_eq!(read("merged.csv"), all);
    // Both pages say of what they are; only where there are layers is there a roofline, and it says of which chip.
    assert!(html.contains("before anything is varied") && html.contains("Of `edge8`, 8 x 8 before"), "{html}");
    let merged = read("merged.html");
    for page in [&html, &merged] {
        assert!(page.contains("<title>q.onnx on variants of edge8</title>"), "{page}");
    }
    assert!(!merged.contains("<section id=\"roofline\">") && merged.contains("Joined tables have no layers"));
    ottava(dir.path(), &["simulate", "--npu", "edge8", "--sweep", "s.ron", "--merge", "1.csv", "-o", "x.csv"])
        .fails(3, &["points have no row"]);
    // A table that was cut in the middle of a line is taken up; rows of another chip are not.
    std::fs::write(path("cut.csv"), &all[..all.len() / 2]).unwrap();
    let json = sweep(&["q.onnx", "--resume", "-o", "cut.csv"]);
    assert!((1..9).contains(&json["simulated"].as_u64().unwrap()), "{json}");
    assert_eq!(read("cut.csv"), all);
    let args = ["simulate", "q.onnx", "--npu", "edge16", "--sweep", "s.ron", "--resume", "-o", "cut.csv", "--json"];
    assert_eq!(ottava(dir.path(), &args).json()["simulated"], 9);
}

#[test]
fn tables_of_different_things_are_not_merged() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    let list = "network,layer,kind,M,N,K,channels,count\nn,a,gemm,64,32,48,1,1\n";
    std::fs::write(path("l.csv"), list).unwrap();
    std::fs::write(path("other.csv"), list.replace("64", "65")).unwrap();
    std::fs::write(path("s.ron"), SWEEP).unwrap();
    std::fs::write(path("t.ron"), SWEEP.replace("8, 16, 0", "8, 32, 0")).unwrap();
    let part = |list: &str, npu: &str, sweep: &str, shard: &str, out: &str| {
        let args = ["simulate", list, "--npu", npu, "--sweep", sweep, "--shard", shard, "-o", out];
        ottava(dir.path(), &args).succeeds();
    };
    part("l.csv", "edge8", "s.ron", "1/2", "1.csv");
    part("l.csv", "edge8", "s.ron", "2/2", "2.csv");
    part("other.csv", "edge8", "s.ron", "2/2", "w.csv");
    part("l.csv", "edge32", "s.ron", "2/2", "c.csv");
    part("l.csv", "edge8", "t.ron", "2/2", "v.csv");
    let merge = |second: &str| {
        let args = ["simulate", "--npu", "edge8", "--sweep", "s.ron", "--merge", "1.csv", second, "-o", "m.csv"];
        ottava(dir.path(), &args)
    };
    merge("w.csv").fails(3, &["w.csv", "another workload than those of `1.csv`"]);
    merge("c.csv").fails(3, &["c.csv", "another chip than `edge8`"]);
    merge("v.csv").fails(3, &["v.csv", "has the values `32, ", "in `s.ron` it has `16, "]);
    let text = std::fs::read_to_string(path("2.csv")).unwrap();
    let key = text.lines().nth(1).and_then(|line| line.split(',').nth(1)).unwrap();
    std::fs::write(path("o.csv"), text.replace(key, &key[..16])).unwrap();
    merge("o.csv").fails(3, &["o.csv", "older format"]);
    assert!(!path("m.csv").exists());
    merge("2.csv").succeeds();
    // What closed forms do not see is named, where it is set and where it varies.
    std::fs::write(path("i.ron"), r#"Sweep(vary: {"dma.in_flight": [1, 2]})"#).unwrap();
    std::fs::write(path("n.ron"), "Npu(queues: (decode_cycles: 2))").unwrap();
    let args = ["simulate", "l.csv", "--npu", "n.ron", "-o", "m.csv", "--json"];
    let [one, two] = [&[][..], &["--sweep", "i.ron"]].map(|more| ottava(dir.path(), &[&args[..], more].concat()));
    assert!(one.stderr.contains("`queues.decode_cycles`") && !one.stderr.contains("in_flight"), "{}", one.stderr);
    let message = two.json()["diagnostics"][0]["message"].to_string();
    assert!(message.contains("`dma.in_flight`, `queues.decode_cycles`"), "{message}");
}

#[test]
fn a_simulated_model_has_a_page_a_trace_and_an_energy_if_there_is_a_table() {
    let dir = folder();
    prepared(dir.path(), "Ottava()");
    let args = ["simulate", "q.onnx", "--npu", "edge8", "-o", "m.csv", "--report", "m.html", "--trace", "m.json"];
    let said = ottava(dir.path(), &args).stdout;
    assert!(said.contains("energy: no energy table"), "{said}");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(dir.path().join("m.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        trace["traceEvents"].as_array().unwrap().iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    for track in ["nodes", "ld", "ex", "vec", "st", "dma 0", "dram"] {
        assert!(names.contains(&track), "{track} in {names:?}");
    }
    let energy = "energy: (source: \"a data sheet\", mac_s8: 0.2, sram_rd_byte: 1, sram_wr_byte: 1, acc_rd: 1, acc_wr: 1, \
                  dram_byte: 40, vec_op: 0.5, instr: 2, static_per_cycle: 0.1)";
    std::fs::write(dir.path().join("n.ron"), format!("Npu(array: (rows: 8, cols: 8), {energy})")).unwrap();
    let json = ottava(dir.path(), &["simulate", "q.onnx", "--npu", "n.ron", "-o", "m.csv", "--json"]).json();
    assert_eq!(json["energy"]["source"], "a data sheet");
    assert!(json["energy"]["picojoules"].as_f64().unwrap() > 0.2 * json["macs"].as_f64().unwrap(), "{json}");
    ottava(dir.path(), &["simulate", "q.onnx", "--npu", "n.ron", "-o", "m.csv", "--report", "m.csv"])
        .fails(2, &["--output and --report", "`m.csv`"]);
    let args = ["simulate", "q.onnx", "-o", "new", "--trace", "./new"];
    ottava(dir.path(), &args).fails(2, &["--output and --trace", "written over"]);
    assert!(!dir.path().join("new").exists());
}

/// Each would be read without end, or waited for.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_files() {
    let dir = folder();
    std::fs::write(dir.path().join("l.csv"), "network,layer,kind,M,N,K,channels,count\nn,a,gemm,64,32,48,1,1\n")
        .unwrap();
    std::fs::write(dir.path().join("m.onnx"), "").unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe.ron")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let layers = ["simulate", "l.csv", "-o", "c.csv"];
    for file in ["/dev/zero", "./pipe.ron"] {
        for flag in ["--npu", "--config", "--sweep"] {
            ottava(dir.path(), &[&layers[..], &[flag, file]].concat()).fails(3, &[file, "regular"]);
        }
        ottava(dir.path(), &["quantize", "m.onnx", "--recipe", file, "--data", "d.npz", "-o", "q.onnx"])
            .fails(3, &[file, "regular"]);
    }
    ottava(dir.path(), &["simulate", "--layers", "/dev/zero", "-o", "c.csv"]).fails(3, &["regular"]);
    std::fs::rename(dir.path().join("pipe.ron"), dir.path().join("d.npz")).unwrap();
    let model = asset("digits.onnx");
    ottava(dir.path(), &["eval", &model, "--data", "d.npz"]).fails(3, &["d.npz", "regular"]);
    ottava(dir.path(), &["quantize", &model, "--calibration", "d.npz", "-o", "q.onnx"]).fails(3, &["d.npz", "regular"]);
    ottava(dir.path(), &["calibrate", "--merge", "d.npz", "-o", "m.calib"]).fails(3, &["d.npz", "regular"]);
    assert!(!dir.path().join("c.csv").exists());
    // Files that a folder holds, beside those that are named.
    let fifo = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()), "mkfifo");
    };
    fifo(&dir.path().join("images/a.png"));
    let recipe = "Recipe(preprocess: Some((resize: (8, 8), color: Gray, layout: Nchw, scale: 1.0, offset: 0.0)))";
    std::fs::write(dir.path().join("r.ron"), recipe).unwrap();
    let args = ["eval", &model, "--data", "images", "--recipe", "r.ron"];
    ottava(dir.path(), &args).fails(3, &["a.png", "not a regular file"]);
    fifo(&dir.path().join("cases/MANIFEST.tsv"));
    std::fs::create_dir(dir.path().join("cases/test_a")).unwrap();
    std::fs::copy(&model, dir.path().join("cases/test_a/model.onnx")).unwrap();
    ottava(dir.path(), &["vectors", "cases"]).fails(3, &["MANIFEST.tsv", "not a regular file"]);
}

#[test]
fn the_simulator_is_measured_if_it_gives_the_bits_of_the_reference() {
    let dir = folder();
    prepared(dir.path(), "Ottava()");
    let args = ["simulate", "q.onnx", "-o", "m.csv", "--speed", "1", "--threads", "1", "--json", "--npu"];
    let json = ottava(dir.path(), &[&args[..], &["edge8"]].concat()).json();
    assert_eq!((&json["speed"]["equal_to_reference"], &json["speed"]["macs"]), (&true.into(), &json["macs"]));
    for what in ["compile_and_verify", "timing", "functional", "functional_and_timing"] {
        assert!(json["speed"][what]["gmacs_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{what}: {json}");
    }
    // A chip that gets a sum wrong is not measured.
    std::fs::write(dir.path().join("n.ron"), r#"Npu(fault: [("table_corrupt", "any", 0, 7)])"#).unwrap();
    let run = ottava(dir.path(), &[&args[..], &["n.ron"]].concat());
    run.fails(1, &["not those of the reference"]);
    assert_eq!(run.value()["speed"], serde_json::json!({ "equal_to_reference": false }));
}
