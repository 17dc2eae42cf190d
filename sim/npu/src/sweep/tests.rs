//! Sweeps: reading, sampling, points, tables, fronts.

use super::*;
use crate::NpuConfig;

fn sweep(text: &str) -> Sweep {
    Sweep::parse(text, &NpuConfig::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> String {
    Sweep::parse(text, &NpuConfig::default()).unwrap_err().to_string()
}

const SIXTY: &str = r#"Sweep(vary: {
    "array.rows+array.cols": [8, 16, 32, 64],
    "sram.a.bytes+sram.w.bytes": (from: 65536, to: 1048576, times: 2),
    "dram": [],
})"#;

#[test]
fn every_combination_is_a_point_and_the_last_entry_changes_fastest() {
    let text = SIXTY.replace("\"dram\": []", "\"dram.bytes_per_cycle\": [4, 16, 64]");
    let sweep = sweep(&text);
    assert_eq!(sweep.len(), 4 * 5 * 3);
    let base = NpuConfig::default();
    let configs: Vec<NpuConfig> = sweep.points().map(|p| p.config(&base).unwrap()).collect();
    assert_eq!((configs[0].array.rows, configs[0].array.cols, configs[0].sram.w.bytes), (8, 8, 65_536));
    assert_eq!([0, 1, 2].map(|i| configs[i].dram.bytes_per_cycle()), [4.0, 16.0, 64.0]);
    assert_eq!((configs[59].array.rows, configs[59].sram.a.bytes), (64, 1 << 20));
    assert_eq!(sweep.points().nth(3).unwrap().cells(), ["8", "131072", "4"]);
}

#[test]
fn any_kind_of_key_varies() {
    let text = r#"Sweep(vary: {
        "array.dataflow": [Os, "Ws"], "array.ports": [None, 8], "vector.cycles.exp": [2], "crc": [true],
        "vector.cycles.mul": [3], "dram.latency": (from: 10, to: 30, step: 10), "realtime": (from: 0.5, to: 1.0, step: 0.25),
    })"#;
    let sweep = sweep(text);
    assert_eq!(sweep.len(), 2 * 2 * 3 * 3);
    let last = sweep.points().last().unwrap().config(&NpuConfig::default()).unwrap();
    assert_eq!((last.array.ports, last.dram.latency(), last.realtime), (Some(8), 30, Some(1.0)));
    assert_eq!((last.vector_cycles("exp"), last.vector_cycles("mul"), last.crc), (2, 3, true));
}

#[test]
fn what_makes_no_chip_says_why() {
    let sweep = sweep(r#"Sweep(vary: {"array.rows": [16, 0, 1.5], "sram.a.banks": [4, 3], "vector.cycles.ad": [1]})"#);
    let reasons: Vec<String> = sweep.points().filter_map(|p| p.config(&NpuConfig::default()).err()).collect();
    assert_eq!(reasons.len(), 6);
    assert!(reasons[0].contains("unknown vector operation"), "{reasons:?}");
    assert!(reasons[1].contains("does not divide"), "{reasons:?}");
    assert!(reasons[2].contains("`array.rows` is 0"), "{reasons:?}");
    assert!(reasons[4].contains("1.5"), "{reasons:?}");
}

#[test]
fn wrong_sweeps_are_refused() {
    assert!(refused("Sweep(vary: {})").contains("names no key"));
    assert!(refused(r#"Sweep(vary: {"array.row": [1]})"#).contains("did you mean `array.rows`?"));
    assert!(refused(r#"Sweep(vary: {"array": [1]})"#).contains("no key `array` with a value"));
    assert!(refused(r#"Sweep(vary: {"energy.mac_s8": [1]})"#).contains("no energy table"));
    assert!(refused(r#"Sweep(vary: {"array.rows": []})"#).contains("is empty"));
    assert!(refused(r#"Sweep(vary: {"array.rows": [1], "array.rows": [2]})"#).contains("stands twice"));
    assert!(refused(r#"Sweep(vary: {"array.rows": [1], "array.cols+array.rows": [2]})"#).contains("stands twice"));
    for range in
        ["(from: 1, to: 0, step: 1)", "(from: 1, to: 2, step: 0)", "(from: 0, to: 9, times: 2)", "(from: 1, to: 9)"]
    {
        let text = refused(&format!(r#"Sweep(vary: {{"array.rows": {range}}})"#));
        assert!(text.contains("never ends") || text.contains("needs either"), "{text}");
    }
    assert!(refused(r#"Sweep(vary: {"array.rows": 5})"#).contains("list of values"));
    let many = r#""clock_hz": (from: 1, to: 65536, step: 1), "dram.latency": (from: 1, to: 65536, step: 1)"#;
    assert!(refused(&format!("Sweep(vary: {{{many}}})")).contains("Random"));
    assert_eq!(sweep(&format!("Sweep(vary: {{{many}}}, sample: Random(points: 5, seed: 1))")).len(), 5);
    assert!(refused("Sweep(\n  vry: {})").starts_with("line 2, column "));
}

/// Every error has a place, and a misspelt key the one that is meant.
#[test]
fn errors_of_a_sweep_say_where_and_what_is_meant() {
    let rows = "\"array.rows\": [8]";
    for (text, place, parts) in [
        (format!("Sweep(vary: {{{rows}}}, sampel: Full)"), "column 34", ["`sampel`", "did you mean `sample`?"]),
        (format!("Sweep(vari: {{{rows}}})"), "column 7", ["`vari`", "did you mean `vary`?"]),
        (format!("Sweep(vary: {{{rows}}}, sample: Randm(seed: 1))"), "column 4", ["`Randm`", "did you mean `Random`?"]),
        (
            format!("Sweep(vary: {{{rows}}}, sample: Random(point: 1))"),
            "column 4",
            ["`point`", "did you mean `points`?"],
        ),
        (format!("Sweep(vary: {{{rows}}}, sample: Random(points: 0, seed: 1))"), "column 34", ["`sample`", "no point"]),
        ("Sweep(vary: {\"array.rowz\": [8]})".into(), "column 14", ["`array.rowz`", "did you mean `array.rows`?"]),
        ("Sweep(vary: {\"array.rows\": []})".into(), "column 14", ["`array.rows`", "is empty"]),
        ("Sweep(vary: {\"array.rows\": 8})".into(), "column 28", ["`vary.array.rows`", "found `8`"]),
        ("Sweep(vary: {})".into(), "column 7", ["`vary`", "names no key"]),
        ("Sweep()".into(), "column 7", ["`vary`", "is missing"]),
    ] {
        let said = refused(&text);
        assert!(said.starts_with(&format!("line 1, {place}")), "{text}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
    }
}

#[test]
fn a_seed_draws_the_same_different_points() {
    let text = |n: u64, seed: u64| {
        let vary = r#""array.rows": (from: 1, to: 100, step: 1), "array.cols": (from: 1, to: 100, step: 1)"#;
        format!("Sweep(vary: {{{vary}}}, sample: Random(points: {n}, seed: {seed}))")
    };
    let numbers = |n, seed| sweep(&text(n, seed)).points().map(|p| p.number).collect::<Vec<_>>();
    let first = numbers(500, 1);
    assert_eq!((first.len(), &first), (500, &numbers(500, 1)));
    assert!(first.windows(2).all(|w| w[0] < w[1]) && first[499] < 10_000);
    assert_ne!(first, numbers(500, 2));
    assert_eq!(numbers(20_000, 1).len(), 10_000);
}

/// A row made up from a number.
fn row(number: u64) -> Row {
    let mut stalls = [0; crate::timing::N_REASONS];
    stalls[3] = number;
    let figures = Figures {
        total_cycles: 1000 - number,
        stalls,
        sram_bytes: number * 7 % 5,
        energy_fj: Some(u128::from(number) << 70),
        ..Figures::default()
    };
    let outcome = if number == 2 { Outcome::Invalid("a, \"b\"\nc".into()) } else { Outcome::Done(figures) };
    let key = Key { workload: number << 60, chip: 1, point: u64::MAX };
    Row { number, key, workload: "a \"model\", int8.onnx".into(), values: vec!["x,y".into()], outcome }
}

#[test]
fn tables_are_read_as_they_were_written() {
    let sweep = sweep(r#"Sweep(vary: {"array.rows": [1, 2, 3, 4, 5]})"#);
    let mut table = Table::new(&sweep);
    (0..5).for_each(|n| table.insert(row(n)).unwrap());
    let (finished, mut again) = (table.csv(), Table::new(&sweep));
    again.read(&finished).unwrap();
    assert_eq!(again.csv(), finished);
    assert_eq!(again.get(4), Some(&row(4)));
    // A table under construction has no front; its last line may be cut.
    let mut open = table.header() + &Table::line(&row(0)) + &Table::line(&row(1));
    open.truncate(open.len() - 4);
    let mut resumed = Table::new(&sweep);
    resumed.read(&open).unwrap();
    assert_eq!(resumed.rows().map(|r| r.number).collect::<Vec<_>>(), [0]);
    let missing = resumed.complete(&sweep).unwrap_err();
    assert!(missing.to_string().starts_with("4 of 5 points have no row, the first is 1"), "{missing}");
    assert!(table.complete(&sweep).is_ok());
    // Other columns, other rows, no rows.
    assert!(matches!(Table::new(&sweep).read("a,b\n"), Err(TableError::Header { .. })));
    let broken = open.replace(",ok,", ",fine,");
    assert_eq!(Table::new(&sweep).read(&broken), Err(TableError::Line(2)));
    let older = format!("{}0,0123456789abcdef,1\n", table.header());
    assert_eq!(Table::new(&sweep).read(&older), Err(TableError::Older));
    let other = Row { key: Key { point: 1, ..row(0).key }, ..row(0) };
    assert_eq!(resumed.insert(other), Err(TableError::Conflict { number: 0 }));
}

#[test]
fn the_front_is_that_of_a_direct_comparison() {
    let mut state = 7;
    let points: Vec<[u128; 3]> =
        (0..300).map(|_| std::array::from_fn(|_| u128::from(super::file::splitmix(&mut state) % 12))).collect();
    let beats = |a: &[u128; 3], b: &[u128; 3]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let direct: Vec<bool> = points.iter().map(|p| !points.iter().any(|q| beats(q, p))).collect();
    assert_eq!(pareto(&points), direct);
}

#[test]
fn only_points_that_did_the_same_work_compete() {
    let rows: Vec<Row> = [(100, 4, 0), (10, 4, 3), (90, 9, 0), (95, 9, 0)]
        .iter()
        .enumerate()
        .map(|(i, &(total_cycles, sram_bytes, elsewhere))| {
            let outcome = Outcome::Done(Figures { total_cycles, sram_bytes, elsewhere, ..Figures::default() });
            Row { number: i as u64, key: Key::default(), workload: String::new(), values: vec![], outcome }
        })
        .collect();
    assert_eq!(front(&rows), [true, false, true, false]);
}
