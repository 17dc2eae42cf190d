//! Operands as text and back. `parse_*` give a message on failure; the caller knows the place.

use crate::isa::{DramAddr, Dtype, Local, OperandKind, Reg, RegKind, Region, Space};
use crate::suggest::hint;

/// Message and help.
pub(super) type Problem = (String, String);

/// The text of an operand; `reg` is the register that a value belongs to.
pub(super) fn print(kind: OperandKind, value: u32, reg: Option<Reg>) -> String {
    match kind {
        OperandKind::None | OperandKind::Number => value.to_string(),
        OperandKind::Event => format!("e{value}"),
        OperandKind::Reg => Reg::from_number(value).map_or_else(|| hex(value), |reg| reg.info().name.to_owned()),
        OperandKind::Dram => DramAddr::from_bits(value).map_or_else(|| hex(value), print_dram),
        OperandKind::Local => print_local(value),
        OperandKind::Value => print_value(value, reg.map_or(RegKind::Unsigned, |reg| reg.info().kind)),
    }
}

fn print_value(value: u32, kind: RegKind) -> String {
    match kind {
        RegKind::Unsigned => value.to_string(),
        RegKind::Signed => value.cast_signed().to_string(),
        RegKind::Local => print_local(value),
        RegKind::Dtype => Dtype::from_code(value).map_or_else(|| hex(value), |dtype| dtype.name().to_owned()),
        // The shortest decimal that reads back as the same f32; NaN has no such text.
        RegKind::Float if f32::from_bits(value).is_finite() => format!("{:?}", f32::from_bits(value)),
        RegKind::Float => hex(value),
    }
}

fn hex(value: u32) -> String {
    format!("{value:#x}")
}

fn print_dram(addr: DramAddr) -> String {
    format!("{}+{}", addr.region.name(), addr.offset)
}

fn print_local(value: u32) -> String {
    let Some(local) = Local::from_bits(value) else { return hex(value) };
    let add = if local.accumulate { ".add" } else { "" };
    let full = if local.full_width { ".full" } else { "" };
    format!("{}{add}{full}+{}", local.space.name(), local.offset)
}

/// The value of an operand's text.
pub(super) fn parse(kind: OperandKind, text: &str, reg: Option<Reg>) -> Result<u32, Problem> {
    match kind {
        OperandKind::None => Err((format!("`{text}` is one operand too many"), String::new())),
        OperandKind::Number => unsigned(text),
        OperandKind::Event => unsigned(text.strip_prefix('e').ok_or_else(|| wanted(text, "an event such as e3"))?),
        OperandKind::Reg => parse_register(text),
        OperandKind::Dram => parse_dram(text),
        OperandKind::Local => parse_local(text),
        OperandKind::Value => parse_value(text, reg.map_or(RegKind::Unsigned, |reg| reg.info().kind)),
    }
}

fn wanted(text: &str, expected: &str) -> Problem {
    (format!("`{text}` is not {expected}"), String::new())
}

/// A decimal or hexadecimal number of 32 bits.
pub(super) fn unsigned(text: &str) -> Result<u32, Problem> {
    u32::try_from(number(text)?).map_err(|_| wanted(text, "a number below 2^32"))
}

/// A decimal or hexadecimal number of 64 bits, digits only.
pub(super) fn number(text: &str) -> Result<u64, Problem> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wanted(text, "a number"));
    }
    u64::from_str_radix(digits, radix).map_err(|_| wanted(text, "a number below 2^64"))
}

fn parse_register(text: &str) -> Result<u32, Problem> {
    if let Some(reg) = Reg::from_name(text) {
        return Ok(reg as u32);
    }
    let names = crate::isa::regs::REGS.iter().map(|info| info.name);
    Err((format!("unknown register `{text}`"), hint(text, names)))
}

fn parse_dram(text: &str) -> Result<u32, Problem> {
    let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
    let Some(region) = Region::ENDS.into_iter().find(|r| r.name() == name) else {
        return Err((format!("unknown region `{name}`"), hint(name, Region::ENDS.map(Region::name))));
    };
    let offset = unsigned(offset)?;
    if offset > DramAddr::MASK {
        return Err((format!("offset {offset} has more than 29 bits"), "set DHI".to_owned()));
    }
    Ok(DramAddr { region, offset }.bits())
}

fn parse_local(text: &str) -> Result<u32, Problem> {
    let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
    let mut parts = name.split('.');
    let memory = parts.next().unwrap_or_default();
    let spaces = [Space::A, Space::W, Space::Acc];
    let Some(space) = spaces.into_iter().find(|s| s.name() == memory) else {
        return Err((format!("unknown memory `{memory}`"), hint(memory, spaces.map(Space::name))));
    };
    let mut local = Local { space, accumulate: false, full_width: false, offset: unsigned(offset)? };
    for mode in parts {
        let slot = match mode {
            "add" if space == Space::Acc => &mut local.accumulate,
            "full" if space == Space::Acc => &mut local.full_width,
            _ => return Err((format!("`.{mode}` does not belong to {memory}"), "acc takes .add and .full".to_owned())),
        };
        if std::mem::replace(slot, true) {
            return Err((format!("`.{mode}` is given twice"), String::new()));
        }
    }
    if local.offset > crate::isa::addr::LOCAL_MASK {
        return Err((format!("offset {} has more than 24 bits", local.offset), String::new()));
    }
    Ok(local.bits())
}

fn parse_value(text: &str, kind: RegKind) -> Result<u32, Problem> {
    if text.starts_with("0x") {
        return unsigned(text);
    }
    match kind {
        RegKind::Unsigned => unsigned(text),
        RegKind::Signed => {
            let value = text.parse::<i32>().map_err(|_| wanted(text, "a signed number of 32 bits"))?;
            Ok(value.cast_unsigned())
        }
        RegKind::Float => {
            let value = text.parse::<f32>().ok().filter(|v| v.is_finite());
            value.map(f32::to_bits).ok_or_else(|| wanted(text, "a finite decimal number or hexadecimal bits"))
        }
        RegKind::Local => parse_local(text),
        RegKind::Dtype => match Dtype::ALL.into_iter().find(|d| d.name() == text) {
            Some(dtype) => Ok(dtype as u32),
            None => Err((format!("unknown type `{text}`"), hint(text, Dtype::ALL.map(Dtype::name)))),
        },
    }
}
