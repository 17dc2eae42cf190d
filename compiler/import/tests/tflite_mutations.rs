//! Damaged TFLite files: seeded mutations of a good one are imported or refused; nothing panics, and no small file makes
//! the importer ask for much memory. This file holds one test, so that nothing else allocates beside it.
mod flat;

use flat::*;
use ottava_import::{TfliteOptions, import_tflite_bytes};

/// Memory that the import of a small file may take.
const MAX_MEMORY: u64 = 64 << 20;
/// Mutations of bytes, and as many of fields.
const SEEDS: u64 = 300;

/// A small generator of numbers (xorshift), so that a failure can be repeated by its seed.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number that hurts: huge, negative, or at a border.
    fn nasty(&mut self) -> i32 {
        let values = [0, 1, -1, i32::MAX, i32::MIN, 1 << 20, -2, 65, 255, 1 << 30, 7, 4711];
        values[self.below(values.len())]
    }
}

/// Changed bytes: cut, flipped, or words replaced by numbers that hurt.
fn bytes_changed(good: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    match rng.below(3) {
        0 => bytes.truncate(rng.below(good.len())),
        1 => {
            for _ in 0..=rng.below(6) {
                let at = 8 + rng.below(good.len() - 8);
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        _ => {
            let at = 8 + rng.below(good.len() - 12) / 4 * 4;
            bytes[at..at + 4].copy_from_slice(&rng.nasty().to_le_bytes());
        }
    }
    bytes
}

/// A changed field of a tensor or operator: numbers that hurt in lists, scalars and options.
fn fields_changed(mut model: Model, rng: &mut Rng) -> Vec<u8> {
    let nasty = rng.nasty();
    let (tensor, operator) = (rng.below(model.tensors.len()), rng.below(model.operators.len()));
    match rng.below(6) {
        0 => change(&mut model.tensors[tensor], 0, nasty, rng),
        1 => change(&mut model.operators[operator], 1, nasty, rng),
        2 => change(&mut model.operators[operator], 2, nasty, rng),
        3 => model.tensors[tensor].0.push((1, i8(nasty as i8))),
        4 => model.codes[operator] = Table::default().with(0, i8(127)).with(3, i32(nasty.rem_euclid(210))),
        _ => {
            for (_, field) in &mut model.operators[operator].0 {
                if let Field::Table(options) = field {
                    let n = rng.below(options.0.len());
                    if let Some((_, Field::Inline(bytes))) = options.0.get_mut(n) {
                        let len = bytes.len().min(4);
                        bytes[..len].copy_from_slice(&nasty.to_le_bytes()[..len]);
                    }
                }
            }
        }
    }
    model.bytes()
}

/// One word of a vector becomes `value`, or the vector is repeated.
fn change(table: &mut Table, number: u16, value: i32, rng: &mut Rng) {
    for (n, field) in &mut table.0 {
        let Field::Vector(len, bytes) = field else { continue };
        if *n != number || *len == 0 {
            continue;
        }
        if rng.below(4) == 0 {
            (*len, *bytes) = (*len * 3, bytes.repeat(3));
        } else {
            let at = rng.below(*len) * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
}

fn survives(bytes: &[u8]) -> bool {
    match import_tflite_bytes(bytes, "mutated.tflite", &TfliteOptions::default()) {
        Ok(_) => true,
        Err(e) => {
            assert!(e.to_string().starts_with("mutated.tflite: "), "{e}");
            false
        }
    }
}

/// The largest address space that the process has had, where the system says so.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmPeak:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn damaged_models_are_refused_without_panic_and_in_bounded_memory() {
    let (model, good) = (network(), network().bytes());
    assert!(survives(&good));
    let before = peak_memory();
    let (mut imported, mut refused) = (0, 0);
    for seed in 1..=SEEDS {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        rng.next();
        for bytes in [bytes_changed(&good, &mut rng), fields_changed(model.clone(), &mut rng)] {
            if survives(&bytes) { imported += 1 } else { refused += 1 }
        }
    }
    assert!(imported > 50 && refused > 200, "{imported} imported, {refused} refused: the mutations miss the point");
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before <= MAX_MEMORY, "the peak grew by {} bytes", after - before);
    }
}
