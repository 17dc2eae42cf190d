//! Copies and fills of the contract as commands. Vulkan fills whole words; the bytes before and behind them are copied
//! from a word-aligned scratch that holds the pattern.

use crate::gpu::Gpu;
use crate::job::Part;
use crate::memory::Memory;
use crate::record::{Commands, barrier, copy};
use ottava_hal::Result;
use std::sync::Arc;

/// A copy; both parts have the same length and do not overlap.
pub(crate) fn copied(gpu: &Arc<Gpu>, from: &Part, to: &Part) -> Result<Commands> {
    Commands::record(gpu, |raw, commands| {
        let ((source, begin, _), (target, at, _)) = (from.place(), to.place());
        copy(raw, commands, (source, begin), (target, at), from.len as u64);
        Ok(())
    })
}

/// How a range is filled: bytes up to the first word, whole words, the rest; and the pattern of the words.
fn split(offset: usize, len: usize, pattern: u32) -> (usize, usize, usize, u32) {
    let head = (offset.next_multiple_of(4) - offset).min(len);
    let body = (len - head) / 4 * 4;
    (head, body, len - head - body, pattern.rotate_right(8 * head as u32))
}

/// A fill.
pub(crate) fn filled(gpu: &Arc<Gpu>, scratch: &Memory, to: &Part, pattern: u32) -> Result<Commands> {
    Commands::record(gpu, |raw, commands| {
        let (target, begin, _) = to.place();
        let (head, body, tail, words) = split(to.offset, to.len, pattern);
        if head + tail > 0 {
            // SAFETY: the command buffer is being recorded; the scratch has 16 bytes.
            unsafe { raw.cmd_fill_buffer(commands, scratch.buffer, 0, 16, pattern) };
            barrier(raw, commands);
            copy(raw, commands, (scratch.buffer, 0), (target, begin), head as u64);
            let behind = begin + (head + body) as u64;
            copy(raw, commands, (scratch.buffer, head as u64), (target, behind), tail as u64);
        }
        if body > 0 {
            // SAFETY: as above; begin and length are multiples of 4 and inside the buffer.
            unsafe { raw.cmd_fill_buffer(commands, target, begin + head as u64, body as u64, words) };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_fill_repeat_the_pattern_from_the_first_byte() {
        let pattern = 0x0403_0201u32;
        for offset in 0..9 {
            for len in 0..20 {
                let (head, body, tail, words) = split(offset, len, pattern);
                assert_eq!(head + body + tail, len);
                assert!(body == 0 || (offset + head).is_multiple_of(4) && body.is_multiple_of(4));
                let scratch: Vec<u8> = pattern.to_le_bytes().repeat(4);
                let mut bytes = scratch[..head].to_vec();
                bytes.extend(words.to_le_bytes().repeat(body / 4));
                bytes.extend(&scratch[head..head + tail]);
                let expect: Vec<u8> = pattern.to_le_bytes().into_iter().cycle().take(len).collect();
                assert_eq!(bytes, expect, "{offset}+{len}");
            }
        }
    }
}
