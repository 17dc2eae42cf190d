//! Attributes of the program view.

use super::View;
use ottava_abi::{AttrV1, attr_type};
use ottava_hal::{Attr, Attrs, Error, Program, Reason, Result};

impl View<'_> {
    pub(super) fn attrs(&self, first: u32, count: u32, program: &Program) -> Result<Attrs> {
        let list = self.attrs.range(first, count);
        let list = list.ok_or_else(|| Error::invalid(format!("{count} attributes from {first} are not there")))?;
        self.charge(list.len(), size_of::<Attr>())?;
        let mut attrs = Attrs::default();
        for a in list {
            let name = self.name(a.name)?;
            let value = self.attr(&a, program).map_err(|e| Error::invalid(format!("attribute `{name}`: {e}")))?;
            if attrs.0.insert(name.clone(), value).is_some() {
                return Err(Error::invalid(format!("attribute `{name}` is there twice")));
            }
        }
        Ok(attrs)
    }

    fn attr(&self, a: &AttrV1, program: &Program) -> Result<Attr> {
        let outside = || Error::invalid(format!("{} elements from {} are not there", a.count, a.first));
        if matches!(a.attr_type, attr_type::I64S | attr_type::F32S | attr_type::STRS) {
            self.charge(a.count as usize, 8)?;
        }
        Ok(match a.attr_type {
            attr_type::I64 => Attr::Int(a.value),
            // The low half holds the bits.
            attr_type::F32 => Attr::Float(f32::from_bits(a.value as u32)),
            attr_type::STR => Attr::Str(self.text(a.first, a.count)?),
            attr_type::I64S => Attr::Ints(self.dims.range(a.first, a.count).ok_or_else(outside)?.collect()),
            attr_type::F32S => Attr::Floats(self.scales.range(a.first, a.count).ok_or_else(outside)?.collect()),
            attr_type::STRS => Attr::Strs(self.texts(a.first, a.count)?),
            attr_type::TENSOR => {
                let value = usize::try_from(a.value).ok().and_then(|i| program.values.get(i));
                let tensor = value.and_then(|v| v.constant.clone());
                Attr::Tensor(tensor.ok_or_else(|| Error::invalid(format!("value {} is no constant", a.value)))?)
            }
            other => return Err(Error::unsupported(Reason::AttrValue, format!("attribute type {other}"))),
        })
    }

    fn text(&self, first: u32, count: u32) -> Result<String> {
        let range = (first as usize).checked_add(count as usize).and_then(|end| self.strings.get(first as usize..end));
        let bytes = range.ok_or_else(|| Error::invalid(format!("a text of {count} bytes at {first} is not there")))?;
        self.utf8(bytes)
    }

    fn texts(&self, first: u32, count: u32) -> Result<Vec<String>> {
        let words = count.checked_mul(2).and_then(|n| self.edges.range(first, n));
        let words: Vec<u32> =
            words.ok_or_else(|| Error::invalid(format!("{count} texts from {first} are not there")))?.collect();
        words.chunks_exact(2).map(|pair| self.text(pair[0], pair[1])).collect()
    }
}
