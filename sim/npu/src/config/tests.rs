//! Reading of configurations: defaults, presets, and errors with their places.

use super::*;

#[test]
fn an_empty_npu_is_edge16() {
    let empty = NpuConfig::parse("Npu()").unwrap();
    assert_eq!(empty, NpuConfig::default());
    assert_eq!(NpuConfig::preset("edge16").unwrap(), empty);
}

#[test]
fn every_preset_parses_and_keeps_its_name() {
    for name in NpuConfig::presets() {
        let config = NpuConfig::preset(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(config.name, name);
        assert_eq!(NpuConfig::parse(&config.to_ron()).unwrap(), config, "the written form of {name}");
    }
    assert_eq!(NpuConfig::presets().count(), 10);
}

#[test]
fn partial_keys_keep_the_other_values() {
    let c = NpuConfig::parse("Npu(array: (cols: 32, ports: 8), sram: (w: (bytes: 1024)))").unwrap();
    assert_eq!((c.array.rows, c.array.cols, c.array.ports), (16, 32, Some(8)));
    assert_eq!((c.sram.w.bytes, c.sram.w.banks, c.sram.a.bytes), (1024, 4, 262_144));
}

#[test]
fn errors_name_place_and_remedy() {
    let cases = [
        ("Npu(\n  clok_hz: 5,\n)", (2, 3), "unknown key `clok_hz`", "did you mean `clock_hz`?"),
        ("Npu(array: (dataflow: Wz))", (1, 23), "unknown value `Wz`", "did you mean `Ws`?"),
        ("Npu(\n  array: (cols: 8,\n   rows: 0))", (3, 4), "`array.rows` is 0", "1..=1024"),
        ("Npu(sram: (w: (bytes: 100, banks: 3)))", (1, 28), "does not divide 100 bytes", "divisor"),
        ("Npu(dram: Simple(bytes_per_cycle: 0.0, latency: 1))", (1, 18), "bytes_per_cycle` is 0", "must be in"),
        ("Npu(fault: [(\"token_lost\", \"ex\", 5, 1)])", (1, 5), "unknown place \"ex\"", "ld->ex"),
        ("Npu(fault: [(\"bit_flop\", \"a\", 5, 1)])", (1, 5), "unknown fault", "did you mean `bit_flip`?"),
        ("Npu(vector: (cycles: {\"ad\": 1}))", (1, 23), "operation \"ad\"", "did you mean `add`?"),
    ];
    for (text, (line, column), message, help) in cases {
        let error = NpuConfig::parse(text).unwrap_err();
        let shown = error.clone().in_file("my.ron").to_string();
        assert!(error.message.contains(message) && error.help.contains(help), "{text}: {shown}");
        let (l, c) = error.at.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(l, line, "{shown}");
        assert!(c.abs_diff(column) <= 8, "{shown} should be near column {column}");
        assert!(shown.starts_with(&format!("my.ron:{l}:{c}: ")), "{shown}");
    }
    assert!(NpuConfig::preset("edge1").unwrap_err().help.contains("edge"));
}

/// Every error has a place and names the key, what was found, and what was expected.
#[test]
fn errors_name_the_key_what_was_found_and_what_was_expected() {
    let cases = [
        ("array: (rows: \"16\")", ["`array.rows`", "found `\"16\"`", "expected an integer"]),
        ("array: (rows: -1)", ["`array.rows`", "found `-1`", "not below 0"]),
        ("array: (rows: 16.5)", ["`array.rows`", "found `16.5`", "expected"]),
        ("array: (dataflow: Xs)", ["`array.dataflow`", "`Xs`", "`Os`"]),
        ("array: 5", ["`array`", "found `5`", "expected"]),
        ("clock_hz: fast", ["`clock_hz`", "found `fast`", "expected an integer"]),
        ("crc: 1", ["`crc`", "found `1`", "expected boolean"]),
        ("name: edge", ["`name`", "found `edge`", "expected string"]),
        ("sram: (a: (bytes: 99))", ["`sram.a.banks`", "is 4", "divisor"]),
        ("sram: (acc: (bytes: 10))", ["`sram.acc.bytes`", "is 10", "multiple of 4"]),
        ("dtypes: []", ["`dtypes`", "empty", "S8"]),
        ("vector: (cycles: {\"add\": 0})", ["`vector.cycles.add`", "is 0", "1..="]),
        ("dram: Simple(bytes_per_cycle: 1.0)", ["`dram.latency`", "is missing", "expected"]),
        ("fault: [(\"bit_flip\", \"zz\", 1, 2)]", ["`fault`", "\"zz\"", "scratch"]),
        ("fault: [(\"bit_flip\", \"a\", 1)]", ["`fault`", "3 values", "4 elements"]),
    ];
    for (text, parts) in cases {
        let error = NpuConfig::parse(&format!("Npu(\n  {text},\n)")).unwrap_err().in_file("my.ron");
        let shown = error.to_string();
        assert!(shown.starts_with("my.ron:2:"), "{shown}");
        assert!(parts.iter().all(|part| shown.contains(part)), "{text}: {shown} without {parts:?}");
    }
    let energy = "source: \"x\", mac_s8: -1, sram_rd_byte: 1, sram_wr_byte: 1, acc_rd: 1, acc_wr: 1, dram_byte: 1, \
                  vec_op: 1, instr: 1, static_per_cycle: 1";
    let shown = NpuConfig::parse(&format!("Npu(energy: Some(({energy})))")).unwrap_err().to_string();
    assert!(shown.contains(":1:32: `energy.mac_s8` is -1; it must be in 0..=1e9"), "{shown}");
    // What is not written stands for itself at the beginning.
    let shown = NpuConfig::parse("Npu(array: (rows: 16\n").unwrap_err().to_string();
    assert!(shown.contains("`array.rows`"), "{shown}");
}

#[test]
fn hash_sees_the_machine_and_not_its_name() {
    let base = NpuConfig::default();
    let renamed = NpuConfig { name: "x".into(), realtime: Some(1.0), ..base.clone() };
    assert_eq!(base.hash64(), renamed.hash64());
    let hashes: std::collections::BTreeSet<u64> =
        NpuConfig::presets().map(|p| NpuConfig::preset(p).unwrap().hash64()).collect();
    assert_eq!(hashes.len(), 10);
}

#[test]
fn a_byte_order_mark_is_no_text() {
    assert_eq!(NpuConfig::parse("\u{feff}Npu()").unwrap(), NpuConfig::default());
}

#[test]
fn names_and_numbers_are_printed_short() {
    let message = |text: &str| NpuConfig::parse(text).unwrap_err().to_string();
    assert!(NpuConfig::parse(&format!("Npu(name: \"{}\")", "é".repeat(64))).is_ok());
    let long = message(&format!("Npu(name: \"{}\")", "x".repeat(100_000)));
    assert!(long.contains("`name` has 100000 characters: `xxx") && long.len() < 250, "{long}");
    assert!(message(r#"Npu(name: "a\nb")"#).contains(r"`name` has control characters: `a\nb`"));
    assert!(message("Npu(name: \"\")").contains("`name` is empty"));
    let rate = message("Npu(dram: Simple(bytes_per_cycle: 1e308, latency: 1))");
    assert!(rate.contains("`dram.bytes_per_cycle` is 1e308;"), "{rate}");
    assert!(message(&format!("Npu({}: 1)", "k".repeat(5000))).len() < 500);
}

#[test]
fn every_value_of_a_product_has_its_source() {
    for name in ["nvdla2048", "ethos_u55", "gemmini", "tpu_v1"] {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name).unwrap();
        let values = text.lines().filter(|line| {
            let code = line.split("//").next().unwrap_or_default().trim();
            code.contains(|c: char| c.is_ascii_digit()) && !code.starts_with("name:")
        });
        for line in values {
            assert!(line.contains("//"), "{name}: `{line}` has no source");
        }
    }
}
