//! A checked reader of FlatBuffers (the wire format of TFLite files; https://flatbuffers.dev/internals).
//!
//! Nothing is trusted: every offset is added with overflow checks and every read is bounds-checked; alignment is not
//! needed. Offsets only point forwards and the tables of the schema are read to a fixed depth, so no file can make the
//! reader recurse or loop. Several tables may share one vector, therefore vectors are charged against a [`Budget`] that
//! is a fixed multiple of the file's size.

use std::cell::Cell;

/// How often the bytes of a file may be decoded, all tables together.
const REREADS: usize = 16;
/// Bytes that may be decoded whatever the size of the file.
const LEAST_BUDGET: usize = 1 << 16;

/// What is wrong with the bytes, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Byte of the file.
    pub offset: usize,
    /// The field that was read.
    pub place: &'static str,
    /// What is wrong there.
    pub what: String,
}

/// Result of reading.
pub(crate) type Read<T> = Result<T, Damage>;

/// Bytes that may still be decoded.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// The budget of a file of `len` bytes.
    pub fn of_file(len: usize) -> Self {
        Self(Cell::new(len.saturating_mul(REREADS).saturating_add(LEAST_BUDGET)))
    }

    /// Takes `bytes` out of the budget; whether it had as many.
    pub fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// A field of a table: its index in the schema and its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field(pub u16, pub &'static str);

/// The bytes of a file and what may still be decoded of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    budget: &'a Budget,
}

impl<'a> Source<'a> {
    /// A file.
    pub fn new(bytes: &'a [u8], budget: &'a Budget) -> Self {
        Self { bytes, budget }
    }

    /// The table that the file begins with.
    pub fn root(self) -> Read<Table<'a>> {
        self.table_at(0, "the root")
    }

    /// Bytes outside of the FlatBuffer, addressed from the begin of the file.
    pub fn range(self, offset: u64, len: u64, place: &'static str) -> Read<&'a [u8]> {
        let bounds = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let found = bounds.and_then(|(start, n)| self.bytes.get(start..start.checked_add(n)?));
        let what = || format!("{len} bytes from byte {offset} on leave the file");
        found.ok_or_else(|| Damage { offset: 0, place, what: what() })
    }

    fn array<const N: usize>(self, at: usize, place: &'static str) -> Read<[u8; N]> {
        let found = at.checked_add(N).and_then(|end| self.bytes.get(at..end)).and_then(|b| b.try_into().ok());
        found.ok_or_else(|| Damage { offset: at, place, what: format!("{N} bytes from here on leave the file") })
    }

    /// The position that the offset at `at` points to.
    fn follow(self, at: usize, place: &'static str) -> Read<usize> {
        let by = u32::from_le_bytes(self.array(at, place)?) as usize;
        let to = at.checked_add(by).filter(|to| by > 0 && *to < self.bytes.len());
        to.ok_or_else(|| Damage { offset: at, place, what: format!("an offset of {by} bytes leads nowhere") })
    }

    fn table_at(self, at: usize, place: &'static str) -> Read<Table<'a>> {
        let start = self.follow(at, place)?;
        let back = i64::from(i32::from_le_bytes(self.array(start, place)?));
        let vtable = usize::try_from(start as i64 - back).unwrap_or(usize::MAX);
        let len = u16::from_le_bytes(self.array(vtable, place)?);
        Ok(Table { source: self, start, vtable, len })
    }
}

/// A table; absent fields have their defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    source: Source<'a>,
    start: usize,
    vtable: usize,
    /// Bytes of the vtable.
    len: u16,
}

macro_rules! scalars {
    ($($name:ident: $ty:ty),*) => {
        $(#[doc = concat!("A field of type `", stringify!($ty), "`.")]
        pub fn $name(&self, field: Field, default: $ty) -> Read<$ty> {
            match self.slot(field)? {
                Some(at) => self.source.array(at, field.1).map(<$ty>::from_le_bytes),
                None => Ok(default),
            }
        })*
    };
}

impl<'a> Table<'a> {
    /// Where a field lies, if the table has it.
    fn slot(&self, field: Field) -> Read<Option<usize>> {
        let entry = 4 + 2 * field.0;
        if entry + 2 > self.len {
            return Ok(None);
        }
        let at = self.vtable.saturating_add(entry.into());
        let offset = u16::from_le_bytes(self.source.array(at, field.1)?);
        Ok((offset != 0).then(|| self.start.saturating_add(offset.into())))
    }

    scalars!(i8: i8, u8: u8, i32: i32, u32: u32, u64: u64, f32: f32);

    /// A truth value.
    pub fn bool(&self, field: Field) -> Read<bool> {
        self.u8(field, 0).map(|v| v != 0)
    }

    /// A table behind an offset.
    pub fn table(&self, field: Field) -> Read<Option<Table<'a>>> {
        self.slot(field)?.map(|at| self.source.table_at(at, field.1)).transpose()
    }

    /// The elements of a vector as bytes, their number times `size`; empty if the field is absent.
    fn elements(&self, field: Field, size: usize) -> Read<(usize, &'a [u8])> {
        let Some(at) = self.slot(field)? else { return Ok((0, &[])) };
        let start = self.source.follow(at, field.1)?;
        let n = u32::from_le_bytes(self.source.array(start, field.1)?) as usize;
        let first = start + 4;
        let bytes = n.checked_mul(size).and_then(|len| self.source.bytes.get(first..first.checked_add(len)?));
        let damage = |what| Damage { offset: start, place: field.1, what };
        let bytes = bytes.ok_or_else(|| damage(format!("a vector of {n} elements leaves the file")))?;
        if !self.source.budget.take(bytes.len()) {
            return Err(damage(
                "the tables of the file share so many vectors that they take many times its size".into(),
            ));
        }
        Ok((first, bytes))
    }

    /// A vector of bytes.
    pub fn bytes(&self, field: Field) -> Read<&'a [u8]> {
        Ok(self.elements(field, 1)?.1)
    }

    /// A text; what is not UTF-8 is replaced.
    pub fn text(&self, field: Field) -> Read<String> {
        Ok(String::from_utf8_lossy(self.bytes(field)?).into_owned())
    }

    /// A vector of 32-bit integers.
    pub fn i32s(&self, field: Field) -> Read<Vec<i32>> {
        Ok(words(self.elements(field, 4)?.1).map(i32::from_le_bytes).collect())
    }

    /// A vector of floats.
    pub fn f32s(&self, field: Field) -> Read<Vec<f32>> {
        Ok(words(self.elements(field, 4)?.1).map(f32::from_le_bytes).collect())
    }

    /// A vector of 64-bit integers.
    pub fn i64s(&self, field: Field) -> Read<Vec<i64>> {
        Ok(words(self.elements(field, 8)?.1).map(i64::from_le_bytes).collect())
    }

    /// A vector of tables.
    pub fn tables(&self, field: Field) -> Read<Vec<Table<'a>>> {
        let (first, bytes) = self.elements(field, 4)?;
        (0..bytes.len() / 4).map(|i| self.source.table_at(first + 4 * i, field.1)).collect()
    }

    /// The file that the table lies in.
    pub fn source(&self) -> Source<'a> {
        self.source
    }
}

/// Whole words of `N` bytes.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).filter_map(|c| c.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root table whose field 0 is a vector of `n` tables, all of them one table with a vector of `n` bytes.
    fn shared(n: u32) -> Vec<u8> {
        let mut bytes = vec![12, 0, 0, 0, 6, 0, 8, 0, 4, 0, 0, 0];
        // The root: its vtable lies 8 bytes before it; the vector begins behind the offset.
        bytes.extend([8, 0, 0, 0, 4, 0, 0, 0]);
        bytes.extend(n.to_le_bytes());
        let table = bytes.len() + 4 * n as usize + 8;
        for i in 0..n as usize {
            bytes.extend(((table - (24 + 4 * i)) as u32).to_le_bytes());
        }
        bytes.extend([6, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0]);
        bytes.extend(n.to_le_bytes());
        bytes.resize(bytes.len() + n as usize, 7);
        bytes
    }

    const LIST: Field = Field(0, "list");

    #[test]
    fn tables_and_vectors_are_read() {
        let (bytes, budget) = (shared(3), Budget::of_file(100));
        let tables = Source::new(&bytes, &budget).root().and_then(|t| t.tables(LIST)).expect("tables");
        let lens: Vec<usize> = tables.iter().flat_map(|t| t.bytes(LIST)).map(<[u8]>::len).collect();
        assert_eq!(lens, [3; 3]);
        assert_eq!(tables[0].i32(Field(1, "none"), 5), Ok(5), "an absent field has its default");
    }

    #[test]
    fn shared_vectors_run_out_of_budget() {
        let bytes = shared(4000);
        let budget = Budget::of_file(bytes.len());
        let tables = Source::new(&bytes, &budget).root().and_then(|t| t.tables(LIST)).expect("tables");
        let first = tables.iter().find_map(|t| t.bytes(LIST).err()).expect("too many");
        assert!(first.what.contains("share so many vectors"), "{first:?}");
    }

    #[test]
    fn offsets_that_lead_nowhere_are_damage() {
        let good = shared(2);
        for (at, byte) in [(0, 0), (0, 255), (12, 127), (15, 128), (16, 255), (20, 255)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let budget = Budget::of_file(bytes.len());
            let read = Source::new(&bytes, &budget).root().and_then(|t| t.tables(LIST));
            assert!(read.is_err() || at == 12, "byte {at}: {read:?}");
        }
        assert!(Source::new(&[], &Budget::of_file(0)).root().is_err());
    }
}
