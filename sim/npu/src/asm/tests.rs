//! Round trips and places of errors.

use super::*;
use crate::isa::regs::REGS;
use crate::isa::table::OPS;
use crate::isa::{Inst, NodeMark, OperandKind, Queue, Stream, Tokens};
use proptest::prelude::*;

/// A valid instruction from raw numbers.
fn instruction() -> impl Strategy<Value = Inst> {
    let raw = (0..OPS.len(), any::<[u32; 3]>(), any::<u16>(), 0..4_usize, any::<u8>());
    raw.prop_filter_map("a queue or token that the instruction does not have", |(at, values, flags, queue, tokens)| {
        let info = &OPS[at];
        let fit = |kind: OperandKind, v: u32| match kind {
            OperandKind::None => 0,
            OperandKind::Reg => v % REGS.len() as u32,
            OperandKind::Event => v % 64,
            OperandKind::Dram => v & 0x7FFF_FFFF,
            OperandKind::Local => [0, 1 << 28, 1 << 31, 3 << 30, 5 << 29, 7 << 29][v as usize % 6] | v >> 8,
            OperandKind::Value | OperandKind::Number => v,
        };
        let [a, b, c] = std::array::from_fn(|i| fit(info.operands[i], values[i]));
        let mut inst = Inst { flags: flags & info.flag_mask(), ..Inst::new(info.op, a, b, c) };
        if !info.is_control() {
            inst.queue = Queue::ALL[queue];
            inst.tokens = Tokens::from_bits(tokens & 15);
        }
        inst.check().is_ok().then_some(inst)
    })
}

fn streams() -> impl Strategy<Value = Stream> {
    let parts = (
        prop::collection::vec(instruction(), 0..40),
        prop::collection::vec(any::<u8>(), 0..100),
        any::<[u64; 4]>(),
        prop::collection::vec((0..40_u32, any::<u32>()), 0..5),
        any::<u64>(),
    );
    parts.prop_map(|(commands, constants, regions, marks, config_hash)| {
        let n = commands.len() as u32;
        let mut nodes: Vec<NodeMark> =
            marks.into_iter().map(|(first, node)| NodeMark { first: first.min(n), node }).collect();
        nodes.sort_by_key(|m| m.first);
        Stream { commands, constants, regions, nodes, config_hash }
    })
}

proptest! {
    #[test]
    fn text_and_bytes_are_the_same_stream(stream in streams()) {
        let text = disassemble(&stream);
        let back = assemble(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&back, &stream);
        prop_assert_eq!(disassemble(&back), text);
        let bytes = back.to_bytes(true);
        prop_assert_eq!(Stream::from_bytes(&bytes).unwrap(), stream);
    }

    #[test]
    fn any_text_gives_a_stream_or_an_error(text in "[A-Z0-9a-z_.+@, ;=x\n-]{0,200}") {
        let _ = assemble(&text);
    }

    #[test]
    fn any_line_of_pieces_gives_a_stream_or_an_error(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "GEMM", "SET", ".ACC", " ", " A+0", ",", " acc.add+3", " @", "ex", " pop_prev", "é", ".node", " 5", "K",
            ]),
            0..12,
        )
    ) {
        let _ = assemble(&pieces.concat());
    }
}

#[test]
fn the_documented_text_is_read() {
    let text = include_str!("mod.rs");
    let inside = text.lines().skip_while(|l| *l != "//! ```text").skip(1).take_while(|l| *l != "//! ```");
    let text: String = inside.map(|l| format!("{}\n", l.strip_prefix("//! ").unwrap_or_default())).collect();
    let stream = assemble(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((stream.commands.len(), stream.constants.len()), (8, 4));
    assert_eq!((stream.regions, stream.nodes.len()), ([64, 64, 0, 4], 1));
    assert_eq!(instruction_text(&stream.commands[4]), "GEMM.ACC A+16, acc+0 @ex push_next");
}

#[test]
fn values_read_as_their_register_says() {
    let text = "SET ZA, -7\nSET SA, 0.1\nSET SO, 0x7fc00000\nSET RQ_TABLE, W+12\nSET DTYPE_A, u8\nSET M, 0x10\n";
    let stream = assemble(text).unwrap();
    let values: Vec<u32> = stream.commands.iter().map(|i| i.b).collect();
    assert_eq!(values, [(-7_i32).cast_unsigned(), 0.1_f32.to_bits(), 0x7FC0_0000, 1 << 28 | 12, 1, 16]);
    let shown: Vec<String> = stream.commands.iter().map(instruction_text).collect();
    let expected =
        ["SET ZA, -7", "SET SA, 0.1", "SET SO, 0x7fc00000", "SET RQ_TABLE, W+12", "SET DTYPE_A, u8", "SET M, 16"];
    assert_eq!(shown, expected);
}

#[test]
fn errors_point_at_the_word() {
    let cases = [
        ("GEM A+0, acc+0 @ex", 1, "unknown instruction `GEM`; did you mean `GEMM`?"),
        ("GEMM.ACX A+0, acc+0 @ex", 6, "unknown flag `ACX` of GEMM; did you mean `ACC`?"),
        ("SET MM, 4", 5, "unknown register `MM`; did you mean `M`?"),
        ("SET M, four", 8, "`four` is not a number"),
        ("SET M, 5000000000", 8, "below 2^32"),
        ("SET DTYPE_A, s7", 14, "unknown type `s7`"),
        ("  GEMM A+0 @ex", 11, "GEMM needs one more operand; expected a local address"),
        ("GEMM A+0, acc+0, A+1 @ex", 18, "`A+1` is one operand too many"),
        ("GEMM A+0, acc+0", 16, "GEMM needs a queue; write @ex"),
        ("GEMM A+0, acc+0 @exx", 18, "unknown queue `exx`; did you mean `ex`?"),
        ("GEMM A+0, acc+0 @ex push", 21, "unknown token `push`"),
        ("GEMM A+0, acc+0 @vec", 1, "GEMM cannot wait in queue vec"),
        ("LD2D inn+0, A+0 @ld", 6, "unknown region `inn`; did you mean `in`?"),
        ("LD2D in+0, A.add+0 @ld", 12, "`.add` does not belong to A"),
        ("LD2D in+0x20000000, A+0 @ld", 6, "more than 29 bits; set DHI"),
        ("WAIT 3 @ld", 6, "`3` is not an event such as e3"),
        ("WAIT e64 @ld", 1, "event 64"),
        ("END @ld", 6, "takes no queue"),
        (".nod 4", 2, "unknown directive `.nod`; did you mean `node`?"),
        (".const 1ff", 8, "two hexadecimal digits"),
    ];
    for (text, column, message) in cases {
        let error = assemble(&format!("END\n{text}")).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(message), "{shown}");
        assert_eq!((error.line, error.column), (2, column), "{shown}");
        let caret = shown.lines().last().unwrap();
        assert_eq!(caret.chars().position(|c| c == '^'), Some(column + 1), "{shown}");
    }
}
