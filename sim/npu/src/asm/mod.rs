//! The text form of a command stream: [`disassemble`] and [`assemble`] are inverse to each other.
//!
//! ```text
//! .config 0x0123456789abcdef          ; the configuration's hash
//! .regions in=64 out=64 scratch=0 const=4
//! .const 01 02 03 ff                  ; bytes of region 3, any number of lines
//! .node 7                             ; from here on, instructions belong to node 7
//! SET M, 4
//! SET SA, 0.5
//! LD2D in+0, A+16 @ld
//! PRELOAD W+0 @ex pop_prev
//! GEMM.ACC A+16, acc+0 @ex push_next
//! ST2D acc.full+0, out+0 @st pop_prev
//! WAIT e3 @ld
//! END
//! ```
//!
//! A line is an instruction, a directive or empty; `;` begins a comment. An instruction is its name with flags behind
//! dots, operands separated by commas, the queue behind `@`, then tokens. Numbers are decimal or `0x` hexadecimal;
//! signed registers take a sign, float registers a decimal number, any register raw hexadecimal bits. Accumulator
//! addresses carry `.add` (accumulate on write) and `.full` (full-width read).

mod error;
mod operand;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use error::AsmError;
pub use parse::assemble;
pub use print::{disassemble, instruction_text};
