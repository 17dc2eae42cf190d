//! Three hundred damaged inputs by seed: configurations, programs as text, containers. Each is a clear error that says
//! where: never a panic, never a wrong answer.

use ottava_npu::{NpuConfig, NpuError, Program, Stream, asm};

/// splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// What every message must be: short, at most the line and a caret below it, without debris of the parser.
#[track_caller]
fn is_clear(message: &str, seed: u64) {
    assert!(!message.is_empty() && message.len() < 600 && message.lines().count() <= 3, "{seed}: {message}");
    assert!(!message.contains("panicked") && !message.contains("unwrap"), "{seed}: {message}");
}

const CONFIG: &str = r#"Npu(
  name: "chip", clock_hz: 500000000,
  array: (rows: 16, cols: 16, dataflow: Ws, timing: Pipelined),
  sram: (a: (bytes: 262144, banks: 4), w: (bytes: 262144, banks: 4), acc: (bytes: 65536)),
  vector: (lanes: 16, cycles: {"add": 1}),
  dma: (channels: 1, in_flight: 16),
  dram: Simple(bytes_per_cycle: 16.0, latency: 100),
  dtypes: [S8], requant: [Fp32Rne], crc: false,
)"#;

/// A configuration with one thing wrong.
fn damaged_config(rng: &mut Rng) -> String {
    const KEYS: [&str; 15] = [
        "clock_hz",
        "rows",
        "cols",
        "dataflow",
        "timing",
        "bytes",
        "banks",
        "lanes",
        "channels",
        "in_flight",
        "latency",
        "bytes_per_cycle",
        "dtypes",
        "requant",
        "array",
    ];
    let key = rng.pick(&KEYS);
    let with = |value: &str| {
        let at = CONFIG.find(&format!("{key}: ")).unwrap() + key.len() + 2;
        let end = at + CONFIG[at..].find([',', ')']).unwrap();
        format!("{}{value}{}", &CONFIG[..at], &CONFIG[end..])
    };
    match rng.below(8) {
        0 => CONFIG.replacen(&format!("{key}:"), &format!("{key}x:"), 1),
        1 => with("-1"),
        2 => with("\"many\""),
        3 => with("99999999999999999999999"),
        4 => with("Nothing"),
        5 => with(""),
        6 => {
            let brackets: Vec<usize> = CONFIG.match_indices(['(', ')', '[', ']']).map(|(i, _)| i).collect();
            let at = rng.pick(&brackets);
            format!("{}{}", &CONFIG[..at], &CONFIG[at + 1..])
        }
        _ => CONFIG[..1 + rng.below(CONFIG.len() - 2)].to_owned(),
    }
}

#[test]
fn a_hundred_damaged_configurations() {
    assert!(NpuConfig::parse(CONFIG).is_ok());
    for seed in 0..100 {
        let text = damaged_config(&mut Rng(seed));
        match NpuConfig::parse(&text) {
            Ok(_) => panic!("{seed} is accepted: {text}"),
            Err(e) => {
                is_clear(&e.to_string(), seed);
                assert!(e.at.is_some(), "{seed} says where: {e}");
            }
        }
    }
}

/// The product for a configuration.
fn stream(config: &NpuConfig) -> Stream {
    let bare = asm::assemble(include_str!("product.npu")).unwrap();
    Stream { constants: vec![1; 64], config_hash: config.hash64(), ..bare }
}

/// Replaces one of the places where `from` stands.
fn replaced(rng: &mut Rng, text: &str, from: &str, to: &str) -> String {
    let places: Vec<usize> = text.match_indices(from).map(|(i, _)| i).collect();
    let at = rng.pick(&places);
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// A program with one thing wrong.
fn damaged_program(rng: &mut Rng, good: &str) -> String {
    let change = rng.below(9);
    let (from, to): (&str, &str) = match change {
        0 => rng.pick(&[("LD2D", "LD3D"), ("GEMM", "GEM"), ("SET", "ST"), ("PRELOAD", "LOAD"), ("END", "EN")]),
        1 => rng.pick(&[(" push_next", ""), (" pop_prev", "")]),
        2 => {
            rng.pick(&[("@ld", "@ld pop_next"), ("@ex push_next", "@ex push_prev push_next"), ("@st", "@st push_prev")])
        }
        3 => rng.pick(&[
            ("in+0", "in+60"),
            ("A+0", "A+262140"),
            ("W+0", "W+262144"),
            ("out+0", "out+4"),
            ("const+0", "const+49"),
        ]),
        4 => rng.pick(&[("@ld", "@st"), ("@ex", "@ld"), ("@vec", "@gpu"), ("@st", "@ex")]),
        5 => rng.pick(&[(", A+0", ""), ("in+0, ", ""), ("acc+0", "acc+"), ("64", "sixty"), ("M, 4", "M 4")]),
        6 => rng.pick(&[("SET ROWB", "SET ROWQ"), ("SET M", "SET MM"), ("SET K", "SET")]),
        7 => (".config 0x", ".config 0x1"),
        _ => rng.pick(&[
            ("END\n", ""),
            (".regions in=64", ".regions in=6"),
            ("out=64", "out=63"),
            ("push_next", "push_nxt"),
        ]),
    };
    replaced(rng, good, from, to)
}

#[test]
fn a_hundred_damaged_programs() {
    let config = NpuConfig::default();
    let good = asm::disassemble(&stream(&config));
    assert!(Program::load(&config, asm::assemble(&good).unwrap()).is_ok());
    for seed in 0..100 {
        let text = damaged_program(&mut Rng(seed), &good);
        let message = match asm::assemble(&text) {
            Err(e) => e.to_string(),
            Ok(stream) => match Program::load(&config, stream) {
                Err(e) => e.to_string(),
                Ok(_) => panic!("{seed} is accepted:\n{text}"),
            },
        };
        is_clear(&message, seed);
        assert!(message.contains(|c: char| c.is_ascii_digit()), "{seed} says where: {message}");
    }
}

#[test]
fn a_hundred_damaged_containers() {
    let config = NpuConfig { crc: true, ..NpuConfig::default() };
    let good = stream(&config).to_bytes(true);
    assert!(Program::from_bytes(&config, &good).is_ok());
    for seed in 0..100 {
        let rng = &mut Rng(seed);
        let mut bad = good.clone();
        match rng.below(4) {
            0 => bad.truncate(rng.below(good.len())),
            1 => bad.extend((0..=rng.below(40)).map(|i| i as u8)),
            2 => {
                // Bytes 8 to 11 say what the stream needs; a device that has more runs it.
                let at = rng.below(good.len() - 4);
                bad[if at >= 8 { at + 4 } else { at }] ^= 1 << rng.below(8);
            }
            _ => {
                let at = 24 + rng.below(good.len() - 64);
                (at..at + 32).for_each(|i| bad[i] = rng.next() as u8);
            }
        }
        match Program::from_bytes(&config, &bad) {
            Ok(_) => panic!("{seed} is accepted"),
            Err(NpuError::Container(e)) => is_clear(&e.to_string(), seed),
            Err(e) => is_clear(&e.to_string(), seed),
        }
    }
}
