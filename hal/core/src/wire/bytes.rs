//! Little-endian numbers, texts and lists, written and read with every length checked.

use super::corrupt;
use crate::{Error, Result, Tensor};

/// Programs inside programs.
const MAX_DEPTH: usize = 32;

/// Bytes that grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// A truth value, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// 32 bits.
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// 32 bits with a sign.
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// 64 bits with a sign.
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_le_bytes());
    }

    /// The bits of a float.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// A count or extent, as 64 bits.
    pub fn size(&mut self, value: usize) {
        self.u64(value as u64);
    }

    /// Bytes without their number.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes behind their number.
    pub fn block(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.raw(bytes);
    }

    /// A text behind its length.
    pub fn str(&mut self, text: &str) {
        self.block(text.as_bytes());
    }

    /// Zeros up to a multiple of `to` from the beginning.
    pub fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to.max(1)), 0);
    }

    /// A list behind its length.
    pub fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.size(items.len());
        items.iter().for_each(|item| one(self, item));
    }
}

/// Bytes that are read from front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// Reads what lies inside of something of its own kind; how deep this goes is bounded.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(corrupt(format!("programs lie more than {MAX_DEPTH} deep in each other at byte {}", self.at)));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error unless everything has been read.
    pub fn end(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(corrupt(format!("{n} bytes too many at byte {}", self.at))),
        }
    }

    /// The next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len()).ok_or_else(|| self.short(n))?;
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn short(&self, n: usize) -> Error {
        corrupt(format!("{n} bytes are missing at byte {}: there are {} left", self.at, self.remaining()))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(|[b]| b)
    }

    /// A truth value.
    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(corrupt(format!("a truth value is {other} at byte {}", self.at))),
        }
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// 32 bits with a sign.
    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// 64 bits with a sign.
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// The bits of a float.
    pub fn f32(&mut self) -> Result<f32> {
        self.u32().map(f32::from_bits)
    }

    /// A count or extent that this machine can address.
    pub fn size(&mut self) -> Result<usize> {
        let value = self.u64()?;
        usize::try_from(value).map_err(|_| corrupt(format!("{value} at byte {} exceeds this machine", self.at)))
    }

    /// The length of a list whose items take at least `least` bytes each, so that it can exist.
    pub fn count(&mut self, least: usize) -> Result<usize> {
        let n = self.size()?;
        match n.checked_mul(least.max(1)) {
            Some(bytes) if bytes <= self.remaining() => Ok(n),
            _ => Err(corrupt(format!("a list of {n} items at byte {} is longer than the data", self.at))),
        }
    }

    /// Bytes behind their number.
    pub fn block(&mut self) -> Result<&'a [u8]> {
        let n = self.count(1)?;
        self.raw(n)
    }

    /// A text behind its length.
    pub fn str(&mut self) -> Result<&'a str> {
        let at = self.at;
        std::str::from_utf8(self.block()?).map_err(|_| corrupt(format!("the text at byte {at} is not UTF-8")))
    }

    /// Skips the zeros of [`Writer::align`].
    pub fn align(&mut self, to: usize) -> Result<()> {
        let gap = self.at.next_multiple_of(to.max(1)) - self.at;
        match self.raw(gap)?.iter().any(|b| *b != 0) {
            false => Ok(()),
            true => Err(corrupt(format!("the gap before byte {} is not zero", self.at))),
        }
    }

    /// A list behind its length; each item takes at least `least` bytes.
    pub fn list<T>(&mut self, least: usize, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.count(least)?;
        let mut items = Tensor::buffer(n)?;
        for _ in 0..n {
            items.push(one(self)?);
        }
        Ok(items)
    }
}
