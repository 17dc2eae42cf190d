//! Streams to text.

use super::operand::print;
use crate::isa::{Inst, OperandKind, Reg, Region, Stream};
use std::fmt::Write;

/// Bytes of constants per line.
const CONST_LINE: usize = 32;

/// The text of a stream. Instructions must be valid, as the decoder leaves them.
pub fn disassemble(stream: &Stream) -> String {
    let mut out = format!(".config {:#018x}\n.regions", stream.config_hash);
    for (region, bytes) in Region::ALL.into_iter().zip(stream.regions) {
        // Writing to a String cannot fail.
        let _ = write!(out, " {}={bytes}", region.name());
    }
    out.push('\n');
    for line in stream.constants.chunks(CONST_LINE) {
        out.push_str(".const");
        line.iter().for_each(|b| _ = write!(out, " {b:02x}"));
        out.push('\n');
    }
    let mut marks = stream.nodes.iter().peekable();
    let mut mark_up_to = |out: &mut String, index: usize| {
        while let Some(mark) = marks.next_if(|m| m.first as usize <= index) {
            let _ = writeln!(out, ".node {}", mark.node);
        }
    };
    for (index, inst) in stream.commands.iter().enumerate() {
        mark_up_to(&mut out, index);
        out.push_str(&instruction_text(inst));
        out.push('\n');
    }
    mark_up_to(&mut out, stream.commands.len());
    out
}

/// One instruction as one line without its end.
pub fn instruction_text(inst: &Inst) -> String {
    let info = inst.op.info();
    let mut out = info.name.to_owned();
    for (name, _) in info.flags.iter().filter(|(_, bit)| inst.flags & bit != 0) {
        out.push('.');
        out.push_str(name);
    }
    let reg = Reg::from_number(inst.a);
    let operands = info.operands.into_iter().zip([inst.a, inst.b, inst.c]);
    let shown = operands.filter(|(kind, _)| *kind != OperandKind::None);
    let texts: Vec<String> = shown.map(|(kind, value)| print(kind, value, reg)).collect();
    if !texts.is_empty() {
        out.push(' ');
        out.push_str(&texts.join(", "));
    }
    if info.is_control() {
        return out;
    }
    out.push_str(" @");
    out.push_str(inst.queue.name());
    let tokens = inst.tokens;
    let names = [
        (tokens.pop_prev, " pop_prev"),
        (tokens.pop_next, " pop_next"),
        (tokens.push_prev, " push_prev"),
        (tokens.push_next, " push_next"),
    ];
    names.into_iter().filter(|(set, _)| *set).for_each(|(_, name)| out.push_str(name));
    out
}
