//! A scan of protobuf bytes before anything is decoded or allocated.
//!
//! It finds what the decoder would trip over and says where (byte offset and field path), bounds the depth
//! of nesting, and bounds the memory that decoding will take: two bytes of file can stand for a message of
//! several hundred bytes in memory, so a small file could otherwise ask for gigabytes.
use super::schema::{Content, Field, Message};

/// Nested messages allowed; a graph inside a node's attribute takes three levels.
const MAX_DEPTH: usize = 60;

/// Memory that a decoded file may always take.
const BASE_BUDGET: usize = 24 << 20;

/// Memory that a decoded file may take per byte of file, on top of [`BASE_BUDGET`].
const BUDGET_PER_BYTE: usize = 32;

/// Memory of an empty string or byte list.
const HEADER: usize = size_of::<Vec<u8>>();

/// What the scan tripped over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WireError {
    /// Offset of the damaged field in the scanned bytes.
    pub offset: usize,
    /// Path of the message that holds it; empty at the top level.
    pub place: String,
    pub what: String,
}

/// Checks `bytes` against the shape `message`.
pub(super) fn scan(bytes: &[u8], message: &'static Message) -> Result<(), WireError> {
    let budget = bytes.len().saturating_mul(BUDGET_PER_BYTE).saturating_add(BASE_BUDGET);
    let mut scan = Scan { bytes, budget };
    scan.charge(0, message.size)?;
    scan.message(0, bytes.len(), message, 0)
}

struct Scan<'a> {
    bytes: &'a [u8],
    budget: usize,
}

/// One field: where it starts, its number, and its payload as a range of the file.
struct Record {
    start: usize,
    number: u32,
    wire: u8,
    payload: (usize, usize),
}

impl Scan<'_> {
    fn message(&mut self, mut at: usize, end: usize, message: &Message, depth: usize) -> Result<(), WireError> {
        if depth > MAX_DEPTH {
            return Err(error(at, format!("messages are nested more than {MAX_DEPTH} deep")));
        }
        // Occurrences of each known field so far, for the path in an error.
        let mut seen = [0usize; 32];
        while at < end {
            let record = self.record(at, end)?;
            at = record.payload.1;
            let Some(idx) = message.fields.iter().position(|f| f.number == record.number) else { continue };
            let field = &message.fields[idx];
            self.field(&record, field, depth).map_err(|e| e.inside(field.name, seen[idx]))?;
            seen[idx] += 1;
        }
        Ok(())
    }

    /// Charges and checks one known field.
    fn field(&mut self, record: &Record, field: &Field, depth: usize) -> Result<(), WireError> {
        let (from, to) = record.payload;
        let len = to - from;
        let cost = match field.content {
            Content::Message(m) => m.size,
            Content::Text | Content::Bytes => HEADER.saturating_add(len),
            Content::Borrowed => 0,
            Content::Varints => len.saturating_mul(8),
            Content::Fixed32s | Content::Fixed64s => len,
        };
        self.charge(record.start, cost)?;
        let wire = record.wire;
        let expected = match field.content {
            Content::Varints => wire == 0 || wire == 2,
            Content::Fixed32s => wire == 5 || (wire == 2 && len.is_multiple_of(4)),
            Content::Fixed64s => wire == 1 || (wire == 2 && len.is_multiple_of(8)),
            _ => wire == 2,
        };
        if !expected {
            return Err(error(record.start, format!("wire type {wire} and {len} bytes do not fit this field")));
        }
        match field.content {
            Content::Message(m) => self.message(from, to, m, depth + 1),
            Content::Text if std::str::from_utf8(&self.bytes[from..to]).is_err() => {
                Err(error(from, "the text is not UTF-8".to_owned()))
            }
            Content::Varints if wire == 2 => self.varints(from, to),
            _ => Ok(()),
        }
    }

    /// Reads a field's key and finds its payload.
    fn record(&self, start: usize, end: usize) -> Result<Record, WireError> {
        let (key, at) = self.varint(start, end)?;
        let (number, wire) = (key >> 3, (key & 7) as u8);
        let number = u32::try_from(number).ok().filter(|&n| n > 0 && n < 1 << 29);
        let number = number.ok_or_else(|| error(start, format!("{} is not a field number", key >> 3)))?;
        let (from, len) = match wire {
            0 => (at, self.varint(at, end)?.1 - at),
            1 => (at, 8),
            5 => (at, 4),
            2 => {
                let (len, from) = self.varint(at, end)?;
                (from, usize::try_from(len).unwrap_or(usize::MAX))
            }
            _ => return Err(error(start, format!("field {number} has wire type {wire}, which ONNX does not use"))),
        };
        match from.checked_add(len) {
            Some(to) if to <= end => Ok(Record { start, number, wire, payload: (from, to) }),
            _ => Err(error(start, format!("field {number} needs {len} bytes, {} are left", end - from))),
        }
    }

    /// Reads one varint and returns it with the offset behind it.
    fn varint(&self, start: usize, end: usize) -> Result<(u64, usize), WireError> {
        let mut value = 0u64;
        for (idx, &byte) in self.bytes[start..end].iter().take(10).enumerate() {
            // The tenth byte has room for one bit.
            if idx == 9 && byte > 1 {
                return Err(error(start, "a number has more than 64 bits".to_owned()));
            }
            value |= u64::from(byte & 0x7f) << (7 * idx);
            if byte & 0x80 == 0 {
                return Ok((value, start + idx + 1));
            }
        }
        Err(error(start, "a number is cut off".to_owned()))
    }

    fn varints(&self, mut at: usize, end: usize) -> Result<(), WireError> {
        while at < end {
            at = self.varint(at, end)?.1;
        }
        Ok(())
    }

    /// Takes `cost` from the budget, twice: a growing list keeps its old half beside the new one.
    fn charge(&mut self, at: usize, cost: usize) -> Result<(), WireError> {
        let left = self.budget.checked_sub(cost.saturating_mul(2));
        self.budget = left.ok_or_else(|| {
            error(at, "the file holds more and smaller pieces than any model needs; decoding it is refused".to_owned())
        })?;
        Ok(())
    }
}

impl WireError {
    /// The same error, seen from the message that holds the field.
    fn inside(mut self, field: &str, idx: usize) -> Self {
        let rest = if self.place.is_empty() { String::new() } else { format!(".{}", self.place) };
        self.place = format!("{field}[{idx}]{rest}");
        self
    }
}

fn error(offset: usize, what: String) -> WireError {
    WireError { offset, place: String::new(), what }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{MODEL, TENSOR, TYPE};
    use super::*;

    fn check(bytes: &[u8], message: &'static Message, offset: usize, place: &str, what: &str) {
        let e = scan(bytes, message).expect_err("the bytes are damaged");
        assert_eq!((e.offset, e.place.as_str()), (offset, place), "{e:?}");
        assert!(e.what.contains(what), "{e:?}");
    }

    #[test]
    fn an_error_names_the_byte_and_the_field() {
        // graph { node { op_type: <5 bytes, 2 left> } }
        check(&[0x3a, 6, 0x0a, 4, 0x22, 5, b'a', b'b'], &MODEL, 4, "graph[0].node[0]", "needs 5 bytes, 2 are left");
        // graph { node {} node { attribute { name: not UTF-8 } } }
        let bytes = [0x3a, 9, 0x0a, 0, 0x0a, 5, 0x2a, 3, 0x0a, 1, 0xff];
        check(&bytes, &MODEL, 10, "graph[0].node[1].attribute[0].name[0]", "UTF-8");
        check(&[0x3b], &MODEL, 0, "", "wire type 3");
        check(&[0x38, 1], &MODEL, 0, "graph[0]", "wire type 0");
        check(&[0x00], &MODEL, 0, "", "not a field number");
        check(&[0x80], &MODEL, 0, "", "cut off");
        check(&[0x22, 3, 0, 0, 0], &TENSOR, 0, "float_data[0]", "3 bytes");
        check(&[0x0a, 1, 0x80], &TENSOR, 2, "dims[0]", "cut off");
        check(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2], &TENSOR, 1, "", "64 bits");
    }

    #[test]
    fn unknown_fields_are_skipped() {
        assert_eq!(scan(&[0xd0, 0x02, 5, 0x3a, 0], &MODEL), Ok(()));
        assert_eq!(scan(&[], &MODEL), Ok(()));
    }

    #[test]
    fn nesting_is_bounded() {
        // A type of sequences of sequences of ...: two messages per level.
        let mut bytes = Vec::new();
        for _ in 0..40 {
            bytes = nested(0x0a, &bytes);
            bytes = nested(0x22, &bytes);
        }
        assert!(scan(&bytes, &TYPE).expect_err("80 levels").what.contains("nested more than"));
        assert_eq!(scan(&nested(0x22, &nested(0x0a, &[])), &TYPE), Ok(()));
    }

    /// A field of key `key` around `payload`.
    fn nested(key: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![key, (payload.len() & 127) as u8 | 128, (payload.len() >> 7) as u8];
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn empty_messages_cannot_multiply_memory() {
        // A megabyte of empty nodes would decode into more than 100 MiB.
        let mut bytes = vec![0x3a, 0x80, 0x80, 0x40];
        bytes.extend([0x0a, 0].repeat(1 << 19));
        assert!(scan(&bytes, &MODEL).expect_err("too many pieces").what.contains("smaller pieces"));
    }
}
