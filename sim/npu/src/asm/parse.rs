//! Text to streams.

use super::AsmError;
use super::operand::{Problem, number, parse, unsigned};
use crate::isa::table::OPS;
use crate::isa::{Inst, NodeMark, Opcode, OperandKind, Queue, Reg, Region, Stream, Tokens};
use crate::suggest::hint;

/// The stream of a text; the first error ends it.
pub fn assemble(text: &str) -> Result<Stream, AsmError> {
    let mut stream = Stream::default();
    for (number, text) in text.lines().enumerate() {
        let line = Line { number: number + 1, text };
        let code = text.split(';').next().unwrap_or_default();
        let trimmed = code.trim();
        if trimmed.is_empty() {
            continue;
        }
        if let Some(directive) = trimmed.strip_prefix('.') {
            line.directive(directive, &mut stream)?;
        } else {
            let inst = line.instruction(trimmed)?;
            stream.commands.push(inst);
        }
    }
    Ok(stream)
}

/// A line of the text; pieces are slices of it, which is how places are found.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    /// An error at `piece`, which must be a slice of the line.
    fn error(&self, piece: &str, (message, help): Problem) -> AsmError {
        let offset = (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or(self.text);
        let column = before.chars().count() + 1;
        AsmError { line: self.number, column, message, help, text: self.text.to_owned() }
    }

    fn wrong(&self, piece: &str, message: &str) -> AsmError {
        self.error(piece, (message.to_owned(), String::new()))
    }

    fn directive(&self, text: &'a str, stream: &mut Stream) -> Result<(), AsmError> {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, &text[text.len()..]));
        let rest = rest.trim();
        match name {
            "config" => stream.config_hash = number(rest).map_err(|p| self.error(rest, p))?,
            "regions" => {
                for word in rest.split_whitespace() {
                    let (region, bytes) = self.region_size(word)?;
                    stream.regions[region.index()] = bytes;
                }
            }
            "const" => {
                for word in rest.split_whitespace() {
                    let byte = u8::from_str_radix(word, 16).ok().filter(|_| word.len() == 2 && !word.starts_with('+'));
                    let byte = byte.ok_or_else(|| self.wrong(word, "a byte is two hexadecimal digits"))?;
                    stream.constants.push(byte);
                }
            }
            "node" => {
                let node = unsigned(rest).map_err(|p| self.error(rest, p))?;
                let first =
                    u32::try_from(stream.commands.len()).map_err(|_| self.wrong(rest, "the text is too long"))?;
                stream.nodes.push(NodeMark { first, node });
            }
            _ => {
                let help = hint(name, ["config", "regions", "const", "node"]);
                return Err(self.error(name, (format!("unknown directive `.{name}`"), help)));
            }
        }
        Ok(())
    }

    fn region_size(&self, word: &'a str) -> Result<(Region, u64), AsmError> {
        let Some((name, bytes)) = word.split_once('=') else {
            return Err(self.wrong(word, "a region size is written as name=bytes"));
        };
        let Some(region) = Region::ALL.into_iter().find(|r| r.name() == name) else {
            let help = hint(name, Region::ALL.map(Region::name));
            return Err(self.error(name, (format!("unknown region `{name}`"), help)));
        };
        Ok((region, number(bytes).map_err(|p| self.error(bytes, p))?))
    }

    fn instruction(&self, text: &'a str) -> Result<Inst, AsmError> {
        let (body, tail) = text.split_once('@').map_or((text, None), |(body, tail)| (body, Some(tail)));
        let body = body.trim_end();
        let (head, operands) = body.split_once(char::is_whitespace).unwrap_or((body, &body[body.len()..]));
        let mut parts = head.split('.');
        let name = parts.next().unwrap_or_default();
        let op = Opcode::from_name(name).ok_or_else(|| {
            let help = hint(name, OPS.iter().map(|info| info.name));
            self.error(name, (format!("unknown instruction `{name}`"), help))
        })?;
        let mut inst = Inst::new(op, 0, 0, 0);
        for flag in parts {
            inst.flags |= self.flag(op, flag)?;
        }
        self.operands(&mut inst, operands)?;
        match tail {
            Some(tail) => self.queue_and_tokens(&mut inst, tail)?,
            None if op.info().is_control() => {}
            None => return Err(self.error(&body[body.len()..], needs_queue(op))),
        }
        inst.check().map_err(|e| self.wrong(text, &e.to_string()))?;
        Ok(inst)
    }

    fn flag(&self, op: Opcode, flag: &str) -> Result<u16, AsmError> {
        let flags = op.info().flags;
        flags.iter().find(|(name, _)| *name == flag).map(|(_, bit)| *bit).ok_or_else(|| {
            let help = if flags.is_empty() { "it has none".to_owned() } else { hint(flag, flags.iter().map(|f| f.0)) };
            self.error(flag, (format!("unknown flag `{flag}` of {}", op.info().name), help))
        })
    }

    fn operands(&self, inst: &mut Inst, text: &'a str) -> Result<(), AsmError> {
        let kinds = inst.op.info().operands;
        let mut values = [0; 3];
        let trimmed = text.trim();
        let mut texts = (!trimmed.is_empty()).then(|| trimmed.split(',')).into_iter().flatten().map(str::trim);
        for (value, kind) in values.iter_mut().zip(kinds).filter(|(_, kind)| *kind != OperandKind::None) {
            let Some(text) = texts.next() else {
                let message = format!("{} needs one more operand", inst.op.info().name);
                return Err(self.error(&trimmed[trimmed.len()..], (message, format!("expected {}", describe(kind)))));
            };
            let reg = Reg::from_number(inst.a);
            *value = parse(kind, text, reg).map_err(|p| self.error(text, p))?;
            if kind == OperandKind::Reg {
                inst.a = *value;
            }
        }
        if let Some(extra) = texts.next() {
            return Err(self.error(extra, (format!("`{extra}` is one operand too many"), String::new())));
        }
        [inst.a, inst.b, inst.c] = values;
        Ok(())
    }

    fn queue_and_tokens(&self, inst: &mut Inst, text: &'a str) -> Result<(), AsmError> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or(text);
        if inst.op.info().is_control() {
            return Err(self.wrong(name, "the instruction runs in the command processor and takes no queue"));
        }
        let Some(queue) = Queue::ALL.into_iter().find(|q| q.name() == name) else {
            let help = hint(name, Queue::ALL.map(Queue::name));
            return Err(self.error(name, (format!("unknown queue `{name}`"), help)));
        };
        inst.queue = queue;
        for word in words {
            let slot = token(&mut inst.tokens, word).ok_or_else(|| {
                let help = hint(word, ["pop_prev", "pop_next", "push_prev", "push_next"]);
                self.error(word, (format!("unknown token `{word}`"), help))
            })?;
            if std::mem::replace(slot, true) {
                return Err(self.wrong(word, "the token is given twice"));
            }
        }
        Ok(())
    }
}

fn token<'t>(tokens: &'t mut Tokens, name: &str) -> Option<&'t mut bool> {
    match name {
        "pop_prev" => Some(&mut tokens.pop_prev),
        "pop_next" => Some(&mut tokens.pop_next),
        "push_prev" => Some(&mut tokens.push_prev),
        "push_next" => Some(&mut tokens.push_next),
        _ => None,
    }
}

fn needs_queue(op: Opcode) -> Problem {
    let queues = Queue::ALL.into_iter().filter(|q| op.info().allows(*q));
    let names: Vec<String> = queues.map(|q| format!("@{}", q.name())).collect();
    (format!("{} needs a queue", op.info().name), format!("write {}", names.join(" or ")))
}

fn describe(kind: OperandKind) -> &'static str {
    match kind {
        OperandKind::None => "nothing",
        OperandKind::Reg => "a register name",
        OperandKind::Value => "a value",
        OperandKind::Dram => "a DRAM address such as in+64",
        OperandKind::Local => "a local address such as A+0 or acc.add+16",
        OperandKind::Number => "a number",
        OperandKind::Event => "an event such as e3",
    }
}
