//! Encoding: the table's invariants, round trips, and what a decoder refuses.

use super::regs::REGS;
use super::table::OPS;
use super::*;

#[test]
fn the_tables_are_ordered_and_complete() {
    assert!(OPS.is_sorted_by_key(|o| o.code));
    assert!(OPS.iter().all(|o| o.op as u8 == o.code && Opcode::from_code(o.code) == Some(o.op)));
    assert!(OPS.iter().all(|o| Opcode::from_name(o.name) == Some(o.op)));
    for (number, info) in REGS.iter().enumerate() {
        assert_eq!(info.reg as usize, number, "{}", info.name);
        assert_eq!(Reg::from_name(info.name), Some(info.reg));
    }
    assert_eq!(Reg::from_number(REGS.len() as u32), None);
}

#[test]
fn bytes_are_as_documented() {
    let inst = Inst::new(Opcode::Gemm, Local::a(0x10).bits(), Local::acc_add(3).bits(), 0).pop_prev().push_next();
    let bytes = inst.encode();
    assert_eq!(bytes, [0x21, 0x91, 0, 0, 0x10, 0, 0, 0, 3, 0, 0, 0xC0, 0, 0, 0, 0]);
    assert_eq!(Inst::decode(&bytes), Ok(inst));
}

#[test]
fn addresses_round_trip() {
    for local in [Local::a(7), Local::w(LOCAL_MAX), Local::acc(1), Local::acc_add(2), Local::acc_full(3)] {
        assert_eq!(Local::from_bits(local.bits()), Some(local));
    }
    for bits in [0x0100_0000, 0x4000_0000, 0x9000_0000] {
        assert_eq!(Local::from_bits(bits), None, "{bits:#x}");
    }
    let (addr, high) = DramAddr::split(Region::Const, (5 << 29) + 77).unwrap();
    assert_eq!((addr.offset, high), (77, 5));
    assert_eq!(DramAddr::from_bits(addr.bits()), Some(addr));
    assert_eq!(DramAddr::from_bits(6 << 29), None);
}

const LOCAL_MAX: u32 = addr::LOCAL_MASK;

#[test]
fn what_the_table_does_not_allow_is_refused() {
    let wait = Inst::new(Opcode::Wait, 0, 0, 0);
    let cases = [
        (Inst { queue: Queue::St, ..Inst::new(Opcode::Gemm, 0, 0, 0) }, "cannot wait in queue st"),
        (Inst { flags: 8, ..Inst::new(Opcode::Gemm, 0, 0, 0) }, "has no flags 0x0008"),
        (Inst { c: 5, ..Inst::new(Opcode::Gemm, 0, 0, 0) }, "operand c of GEMM must be zero"),
        (Inst::set(Reg::M, 1).push_next(), "takes no tokens"),
        (Inst::new(Opcode::Set, 99, 0, 0), "register 99"),
        (Inst { a: 64, ..wait }, "event 64"),
        (wait.pop_prev(), "neighbour"),
        (Inst::new(Opcode::Ld2d, 6 << 29, 0, 0), "region 6"),
        (Inst::new(Opcode::Gemm, 1 << 27, 0, 0), "no local address"),
    ];
    for (inst, message) in cases {
        let error = Inst::decode(&inst.encode()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(Inst::decode(&[0; 16]), Err(DecodeError::Opcode(0)));
    assert_eq!(Inst::decode(&[3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(DecodeError::QueueByte(4)));
}

fn sample() -> Stream {
    let end = Inst::new(Opcode::End, 0, 0, 0);
    Stream {
        commands: vec![Inst::set(Reg::M, 5), Inst::new(Opcode::Ld2d, 0, 0, 0), end],
        constants: vec![1, 2, 3],
        regions: [4, 5, 6, 3],
        nodes: vec![NodeMark { first: 1, node: 9 }],
        config_hash: 0x0123_4567_89AB_CDEF,
    }
}

#[test]
fn containers_round_trip_and_damage_is_found() {
    let stream = sample();
    assert_eq!((stream.node_of(0), stream.node_of(1), stream.node_of(2)), (None, Some(9), Some(9)));
    for crc in [false, true] {
        let bytes = stream.to_bytes(crc);
        assert_eq!(Stream::from_bytes(&bytes).unwrap(), stream);
        for cut in 0..bytes.len() {
            assert!(Stream::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
    let good = stream.to_bytes(true);
    for at in 24..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert!(matches!(Stream::from_bytes(&bad), Err(ContainerError::Crc { .. })), "byte {at}");
    }
}

#[test]
fn any_header_byte_may_be_hostile() {
    let good = sample().to_bytes(false);
    for at in 0..good.len() {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[at] = value;
            // Any answer is fine; a panic is not.
            let _ = Stream::from_bytes(&bad);
        }
    }
}
