//! Programs as bytes.

use super::{Load, Reader, Store, VERSION, Writer, corrupt};
use crate::program::Activation;
use crate::{Fused, Node, Program, RequantMode, Result, Value, ValueId};

/// Stands for an optional input that is absent.
const ABSENT: u32 = u32::MAX;
/// Fewest bytes of a value: name, type, the flag of its constant.
const LEAST_VALUE: usize = 8 + 11 + 1;
/// Fewest bytes of a node: three texts, version, three lists, requantization, what is fused.
const LEAST_NODE: usize = 3 * 8 + 4 + 3 * 8 + 1 + 4;

/// Appends a program, the data of its constants by `store`.
pub fn encode(program: &Program, store: &mut dyn Store, w: &mut Writer) -> Result<()> {
    w.u32(VERSION);
    w.str(&program.name);
    w.size(program.values.len());
    for value in &program.values {
        w.str(&value.name);
        w.tensor_type(&value.ty);
        w.bool(value.constant.is_some());
        if let Some(data) = &value.constant {
            w.tensor(data, store)?;
        }
    }
    w.size(program.nodes.len());
    for node in &program.nodes {
        encode_node(node, store, w)?;
    }
    w.list(&program.inputs, |w, id| w.u32(index(*id)));
    w.list(&program.outputs, |w, id| w.u32(index(*id)));
    Ok(())
}

/// An index as 32 bits; one that does not fit is out of range in every program that fits into memory.
fn index(id: ValueId) -> u32 {
    u32::try_from(id.0).unwrap_or(ABSENT)
}

fn encode_node(node: &Node, store: &mut dyn Store, w: &mut Writer) -> Result<()> {
    [&node.name, &node.op, &node.domain].into_iter().for_each(|text| w.str(text));
    w.u32(node.version);
    w.list(&node.inputs, |w, id| w.u32(id.map_or(ABSENT, index)));
    w.list(&node.outputs, |w, id| w.u32(index(*id)));
    w.attrs(&node.attrs, store)?;
    w.u8(node.requant.map_or(0, |mode| mode.as_u32() as u8));
    let Fused { zp_before_round, residual, act, clamp } = node.fused;
    w.bool(zp_before_round);
    w.bool(residual);
    match act {
        None => w.u8(0),
        Some(Activation::Relu) => w.u8(1),
        Some(Activation::Clip { lo, hi }) => {
            w.u8(2);
            w.f32(lo);
            w.f32(hi);
        }
    }
    w.bool(clamp.is_some());
    if let Some((lo, hi)) = clamp {
        w.i32(lo);
        w.i32(hi);
    }
    Ok(())
}

/// Reads a program and checks it.
pub fn decode(r: &mut Reader<'_>, load: &mut dyn Load) -> Result<Program> {
    let version = r.u32()?;
    if version != VERSION {
        return Err(corrupt(format!("the program has encoding {version}, this version reads {VERSION}")));
    }
    let name = r.str()?.to_owned();
    let values = r.list(LEAST_VALUE, |r| {
        let (name, ty) = (r.str()?.to_owned(), r.tensor_type()?);
        let constant = if r.bool()? { Some(r.tensor(load)?) } else { None };
        Ok(Value { name, ty, constant })
    })?;
    let nodes = r.list(LEAST_NODE, |r| decode_node(r, load))?;
    let inputs = r.list(4, id)?;
    let program = Program { name, values, nodes, inputs, outputs: r.list(4, id)? };
    program.check()?;
    Ok(program)
}

fn id(r: &mut Reader<'_>) -> Result<ValueId> {
    r.u32().map(|i| ValueId(i as usize))
}

fn decode_node(r: &mut Reader<'_>, load: &mut dyn Load) -> Result<Node> {
    let (name, op, domain) = (r.str()?.to_owned(), r.str()?.to_owned(), r.str()?.to_owned());
    let version = r.u32()?;
    let inputs = r.list(4, |r| Ok(Some(r.u32()?).filter(|i| *i != ABSENT).map(|i| ValueId(i as usize))))?;
    let outputs = r.list(4, id)?;
    let attrs = r.attrs(load)?;
    let requant = match r.u8()? {
        0 => None,
        n => Some(RequantMode::from_u32(n.into()).ok_or_else(|| corrupt(format!("{n} is no requantization")))?),
    };
    let (zp_before_round, residual) = (r.bool()?, r.bool()?);
    let act = match r.u8()? {
        0 => None,
        1 => Some(Activation::Relu),
        2 => Some(Activation::Clip { lo: r.f32()?, hi: r.f32()? }),
        n => return Err(corrupt(format!("{n} is no activation"))),
    };
    let clamp = if r.bool()? { Some((r.i32()?, r.i32()?)) } else { None };
    let fused = Fused { zp_before_round, residual, act, clamp };
    Ok(Node { name, op, domain, version, inputs, outputs, attrs, requant, fused })
}
