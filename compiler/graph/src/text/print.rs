//! Graph -> text.

use super::{HEADER, MAX_LISTED};
use crate::{Activation, Graph, from_program};
use ottava_hal::{Attr, DataType, Node, QuantParams, Scheme, Tensor, TensorType, ValueId};
use std::fmt::{Display, Write};

/// Prints a graph. Values that nothing uses are left out.
pub fn print(graph: &Graph) -> String {
    let mut compact = graph.clone();
    compact.compact();
    let g = &compact;
    let mut out = format!("{HEADER}\ngraph {} {}\n", quoted(&g.name), g.phase);
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    g.opsets.iter().for_each(|(domain, version)| line(format!("opset {} {version}", quoted(domain))));
    g.inputs.iter().for_each(|id| line(format!("input {} : {}", reference(g, *id), type_text(g.ty(*id)))));
    for (i, value) in g.values.iter().enumerate() {
        if let Some(data) = &value.constant {
            line(format!("const {} : {} = {}", reference(g, ValueId(i)), type_text(&value.ty), data_text(data)));
        }
    }
    g.nodes.iter().for_each(|node| line(node_text(g, node)));
    g.outputs.iter().for_each(|id| line(format!("output {}", reference(g, *id))));
    for s in &g.states {
        line(format!("state {} {} {} = {}", quoted(&s.name), s.input, s.output, data_text(&s.initial)));
    }
    out
}

fn node_text(g: &Graph, node: &Node) -> String {
    let typed = |id: &ValueId| format!("{} : {}", reference(g, *id), type_text(g.ty(*id)));
    let input = |id: &Option<ValueId>| id.map_or("_".into(), |v| reference(g, v));
    let domain = if node.domain.is_empty() { String::new() } else { format!("{}::", word(&node.domain)) };
    let mut text = format!(
        "{} = {} {domain}{}.{}({})",
        join(node.outputs.iter().map(typed)),
        quoted(&node.name),
        word(&node.op),
        node.version,
        join(node.inputs.iter().map(input))
    );
    if !node.attrs.0.is_empty() {
        let attrs = node.attrs.0.iter().map(|(name, attr)| format!("{} = {}", word(name), attr_text(attr)));
        let _ = write!(text, " {{{}}}", join(attrs));
    }
    if let Some(mode) = node.requant {
        let _ = write!(text, " requant {}", mode.name());
    }
    if node.fused.zp_before_round {
        text.push_str(" zp_before_round");
    }
    if node.fused.residual {
        text.push_str(" residual");
    }
    match node.fused.act {
        Some(Activation::Relu) => text.push_str(" relu"),
        Some(Activation::Clip { lo, hi }) => drop(write!(text, " clip({lo:?}, {hi:?})")),
        None => {}
    }
    if let Some((lo, hi)) = node.fused.clamp {
        let _ = write!(text, " clamp({lo}, {hi})");
    }
    text
}

fn attr_text(attr: &Attr) -> String {
    match attr {
        Attr::Int(v) => v.to_string(),
        Attr::Float(v) => format!("{v:?}"),
        Attr::Str(v) => quoted(v),
        Attr::Ints(v) => format!("ints [{}]", join(v.iter())),
        Attr::Floats(v) => format!("floats [{}]", join(v.iter().map(|f| format!("{f:?}")))),
        Attr::Strs(v) => format!("strings [{}]", join(v.iter().map(|s| quoted(s)))),
        Attr::Program(p) => format!("program {}", quoted(&print(&from_program(p)))),
        Attr::Tensor(t) => format!("tensor {} = {}", type_text(&t.ty()), data_text(t)),
    }
}

fn type_text(ty: &TensorType) -> String {
    let dims = ty.shape.0.iter().map(|d| match d {
        ottava_hal::Dim::Known(n) => n.to_string(),
        ottava_hal::Dim::Sym(s) => word(s),
    });
    let shape = format!("{}[{}]", ty.dtype, dims.collect::<Vec<_>>().join(","));
    let layout = if ty.layout == ottava_hal::Layout::Nhwc { " nhwc" } else { "" };
    let quant = ty.quant.as_deref().map_or(String::new(), |q| format!(" {}", quant_text(q)));
    format!("{shape}{layout}{quant}")
}

fn quant_text(q: &QuantParams) -> String {
    let scales = join(q.scales.iter().map(|s| format!("{s:?}")));
    let zero_points = join(q.zero_points.iter());
    match q.scheme {
        Scheme::PerTensor => format!("per_tensor({scales}, {zero_points})"),
        Scheme::PerAxis { axis } => format!("per_axis({axis}, [{scales}], [{zero_points}])"),
        Scheme::Blocked { axis, block } => format!("blocked({axis}, {block}, [{scales}], [{zero_points}])"),
    }
}

/// Elements as numbers where they are few and come back exactly, bytes otherwise.
fn data_text(data: &Tensor) -> String {
    let listed = data.elements() <= MAX_LISTED;
    if listed && data.dtype() == DataType::F32 && data.to_f32s().is_ok_and(|v| v.iter().all(|x| !x.is_nan())) {
        return format!("[{}]", join(data.to_f32s().unwrap_or_default().iter().map(|v| format!("{v:?}"))));
    }
    if listed && !data.dtype().is_float() && data.dtype() != DataType::U64 {
        return format!("[{}]", join(data.to_ints().unwrap_or_default().iter()));
    }
    let hex = data.bytes().iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    });
    format!("hex \"{hex}\"")
}

fn reference(g: &Graph, id: ValueId) -> String {
    format!("%{}", word(g.name_of(id)))
}

/// A plain word as it is, anything else quoted.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:-".contains(c);
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || "_/".contains(c));
    if starts && text.chars().all(plain) && !text.contains("::") && !ends_in_version(text) && text != "_" {
        text.to_string()
    } else {
        quoted(text)
    }
}

/// `name.12` would be read as a name with a version.
fn ends_in_version(text: &str) -> bool {
    text.rsplit_once('.').is_some_and(|(_, v)| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn join<T: Display>(items: impl Iterator<Item = T>) -> String {
    items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}
