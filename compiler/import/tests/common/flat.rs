//! Writes FlatBuffers for the tests, from front to back: what a table refers to follows behind it.

/// A field's value.
#[derive(Clone)]
pub enum Flat {
    I8(i8),
    I32(i32),
    F32(f32),
    Text(String),
    Bytes(Vec<u8>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    F32s(Vec<f32>),
    /// Fields by their number in the schema.
    Table(Vec<(u16, Flat)>),
    Tables(Vec<Flat>),
}

impl Flat {
    /// The bytes inside a table.
    fn inline(&self) -> Vec<u8> {
        match self {
            Self::I8(v) => v.to_le_bytes().to_vec(),
            Self::I32(v) => v.to_le_bytes().to_vec(),
            Self::F32(v) => v.to_le_bytes().to_vec(),
            // The offset of what follows, filled in later.
            _ => vec![0; 4],
        }
    }

    fn is_inline(&self) -> bool {
        matches!(self, Self::I8(_) | Self::I32(_) | Self::F32(_))
    }
}

/// A file with the identifier `TFL3`.
pub fn file(root: &Flat) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes[4..8].copy_from_slice(b"TFL3");
    let at = put(&mut bytes, root);
    bytes[..4].copy_from_slice(&(at as u32).to_le_bytes());
    bytes
}

/// Appends a value; where it begins.
fn put(bytes: &mut Vec<u8>, value: &Flat) -> usize {
    match value {
        Flat::Table(fields) => table(bytes, fields),
        Flat::Tables(list) => {
            let at = vector(bytes, list.len(), &vec![0; 4 * list.len()]);
            for (i, item) in list.iter().enumerate() {
                let slot = at + 4 + 4 * i;
                let target = put(bytes, item);
                link(bytes, slot, target);
            }
            at
        }
        Flat::Text(text) => vector(bytes, text.len(), text.as_bytes()),
        Flat::Bytes(data) => vector(bytes, data.len(), data),
        Flat::I32s(v) => vector(bytes, v.len(), &v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()),
        Flat::I64s(v) => vector(bytes, v.len(), &v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()),
        Flat::F32s(v) => vector(bytes, v.len(), &v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()),
        Flat::I8(_) | Flat::I32(_) | Flat::F32(_) => panic!("a scalar stands inside its table"),
    }
}

fn vector(bytes: &mut Vec<u8>, n: usize, data: &[u8]) -> usize {
    let at = bytes.len();
    bytes.extend((n as u32).to_le_bytes());
    bytes.extend(data);
    at
}

fn table(bytes: &mut Vec<u8>, fields: &[(u16, Flat)]) -> usize {
    let n = fields.iter().map(|(i, _)| i + 1).max().unwrap_or(0);
    let vtable = bytes.len();
    let mut entries = vec![0u16; usize::from(n)];
    let (mut body, mut links) = (vec![0; 4], Vec::new());
    for (i, value) in fields {
        entries[usize::from(*i)] = body.len() as u16;
        if !value.is_inline() {
            links.push((body.len(), value));
        }
        body.extend(value.inline());
    }
    bytes.extend((4 + 2 * n).to_le_bytes());
    bytes.extend((body.len() as u16).to_le_bytes());
    entries.iter().for_each(|e| bytes.extend(e.to_le_bytes()));
    let at = bytes.len();
    body[..4].copy_from_slice(&((at - vtable) as i32).to_le_bytes());
    bytes.extend(body);
    for (slot, value) in links {
        let target = put(bytes, value);
        link(bytes, at + slot, target);
    }
    at
}

fn link(bytes: &mut [u8], slot: usize, target: usize) {
    bytes[slot..slot + 4].copy_from_slice(&((target - slot) as u32).to_le_bytes());
}
