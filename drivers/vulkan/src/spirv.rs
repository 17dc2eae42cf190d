//! Float controls added to a kernel's SPIR-V where a device offers them: rounding to nearest even, denormals kept.
//!
//! The file that is checked in asks for nothing, so that every device takes it. What is added are capabilities behind
//! those that are there, the extension, and execution modes behind those of the entry point (SPIR-V specification 1.3,
//! section 2.4 orders them).

const CAPABILITY: u32 = 17;
const EXTENSION: u32 = 10;
const ENTRY_POINT: u32 = 15;
const EXECUTION_MODE: u32 = 16;
const HEADER_WORDS: usize = 5;

/// A mode: the number of its capability and of itself (SPV_KHR_float_controls).
#[derive(Debug, Clone, Copy)]
struct Mode {
    capability: u32,
    mode: u32,
}

const KEEP_DENORMALS: Mode = Mode { capability: 4464, mode: 4459 };
const ROUND_EVEN: Mode = Mode { capability: 4467, mode: 4462 };

/// The words of a module; none if the bytes are no module.
pub(crate) fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    (bytes.len().is_multiple_of(4) && words.len() > HEADER_WORDS && words[0] == 0x0723_0203).then_some(words)
}

/// The module with the modes that are wanted.
pub(crate) fn with_modes(words: &[u32], round_even: bool, keep_denormals: bool) -> Option<Vec<u32>> {
    let wanted = [(keep_denormals, KEEP_DENORMALS), (round_even, ROUND_EVEN)];
    let modes: Vec<Mode> = wanted.into_iter().filter(|(is, _)| *is).map(|(_, mode)| mode).collect();
    let (mut head, mut entry, mut behind_modes) = (HEADER_WORDS, None, 0);
    let mut at = HEADER_WORDS;
    while at < words.len() {
        let (len, op) = ((words[at] >> 16) as usize, words[at] & 0xFFFF);
        let next = at.checked_add(len).filter(|n| len > 0 && *n <= words.len())?;
        match op {
            CAPABILITY => head = next,
            ENTRY_POINT => (entry, behind_modes) = (words.get(at + 2).copied(), next),
            EXECUTION_MODE => behind_modes = next,
            _ => {}
        }
        at = next;
    }
    let entry = entry?;
    let mut out = words[..head].to_vec();
    out.extend(modes.iter().flat_map(|m| [2 << 16 | CAPABILITY, m.capability]));
    if !modes.is_empty() {
        out.extend(extension("SPV_KHR_float_controls"));
    }
    out.extend(&words[head..behind_modes]);
    out.extend(modes.iter().flat_map(|m| [4 << 16 | EXECUTION_MODE, entry, m.mode, 32]));
    out.extend(&words[behind_modes..]);
    Some(out)
}

fn extension(name: &str) -> Vec<u32> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((name.len() + 1).next_multiple_of(4), 0);
    let text = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut out = vec![0];
    out.extend(text);
    out[0] = (out.len() as u32) << 16 | EXTENSION;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_gpu::KERNELS;

    fn ops(words: &[u32]) -> Vec<u32> {
        let (mut at, mut ops) = (HEADER_WORDS, Vec::new());
        while at < words.len() {
            ops.push(words[at] & 0xFFFF);
            at += (words[at] >> 16) as usize;
        }
        ops
    }

    #[test]
    fn modes_are_added_to_every_kernel_and_nothing_else_changes() {
        for kernel in KERNELS {
            let plain = words(kernel.spirv).unwrap();
            assert_eq!(with_modes(&plain, false, false).unwrap(), plain);
            let with = with_modes(&plain, true, true).unwrap();
            let count = |ops: &[u32], op| ops.iter().filter(|o| **o == op).count();
            let (before, after) = (ops(&plain), ops(&with));
            assert_eq!(count(&after, CAPABILITY), count(&before, CAPABILITY) + 2);
            assert_eq!(count(&after, EXECUTION_MODE), count(&before, EXECUTION_MODE) + 2);
            assert_eq!(after.len(), before.len() + 5, "{}", kernel.full_name());
        }
    }

    #[test]
    fn bytes_that_are_no_module_are_none() {
        assert_eq!(words(&[1, 2, 3]), None);
        assert_eq!(with_modes(&[0x0723_0203, 0, 0, 0, 0, 0], true, true), None);
        assert_eq!(with_modes(&[0x0723_0203, 0, 0, 0, 0, 9 << 16 | CAPABILITY], true, true), None);
    }
}
