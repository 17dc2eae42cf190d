//! Tables of rows, as embeddings are: a constant that only Gather reads is stored in 8 bits, and the rows that were picked
//! become floats. Nothing else changes, so it suits static and dynamic quantization alike.
//!
//! Each column has a scale, symmetric about 0: outliers of a table sit in a few rows or columns. The integers come out of a
//! DequantizeLinear with scale 1, exactly, so that Gather picks from 8 bits, and a Mul behind it puts the scales on. A
//! table whose outliers leave too little for the rest stays in float.

use ottava_graph::{Graph, Uses};
use ottava_hal::{DataType, Tensor, ValueId};

use super::builder::Builder;
use super::emit::internal;
use super::products::code_tensor;
use super::report::Report;
use crate::channels::ChannelLayout;
use crate::error::Result;
use crate::params::Grid;
use crate::recipe::Recipe;
use crate::weights::{QuantizedWeights, WeightMethod, quantize_weights};

/// Smaller tables are not worth a node.
const MIN_ELEMENTS: usize = 4096;
/// What rounding may do to a row, on average: squared error over squared elements, 30 dB.
const MAX_NOISE: f64 = 1e-3;

/// Quantizes the tables of a graph, and takes their Gather nodes from what the report lists in float.
pub(crate) fn quantize_tables(graph: Graph, recipe: &Recipe, report: &mut Report) -> Result<Graph> {
    let uses = Uses::of(&graph);
    let tables: Vec<ValueId> = (0..graph.values.len()).map(ValueId).filter(|id| is_table(&graph, &uses, *id)).collect();
    let allowed = |id: &ValueId| {
        let mut readers = uses.readers(*id).iter().map(|(idx, _)| &graph.nodes[*idx].name);
        readers.all(|name| recipe.for_node(name).activations.is_some())
    };
    let tables: Vec<ValueId> = tables.into_iter().filter(allowed).collect();
    if tables.is_empty() {
        return Ok(graph);
    }
    let mut builder = Builder::new(graph.clone());
    for id in tables {
        let Some(codes) = codes(&graph, id)? else { continue };
        let shape = graph.constant(id).map(|t| t.shape().to_vec()).unwrap_or_default();
        let data = code_tensor(DataType::S8, &shape, &codes.codes).map_err(internal)?;
        let name = graph.name_of(id).to_owned();
        let stored = builder.dequantized_constant(&name, data, &[1.0], 0, 0).map_err(internal)?;
        let scales = Tensor::from_slice(&[codes.scales.len()], &codes.scales).map_err(internal)?;
        let scales = builder.constant(format!("{name}/scale"), scales);
        for &(idx, _) in uses.readers(id) {
            gather(&mut builder, &graph, idx, [stored, scales]);
            report.float.retain(|node| node.name != graph.nodes[idx].name);
            report.quantized.push(graph.nodes[idx].name.clone());
        }
    }
    builder.finish().map_err(internal)
}

/// Whether a value is a constant of floats, with rows, that only Gather picks from.
fn is_table(graph: &Graph, uses: &Uses, id: ValueId) -> bool {
    let large =
        |data: &Tensor| data.dtype() == DataType::F32 && data.shape().len() >= 2 && data.elements() >= MIN_ELEMENTS;
    let picks = |&(idx, slot): &(usize, usize)| {
        let node = &graph.nodes[idx];
        slot == 0 && node.op == "Gather" && node.domain.is_empty() && node.attrs.int("axis", 0) == Ok(0)
    };
    graph.constant(id).is_some_and(large)
        && !uses.is_output(id)
        && !uses.readers(id).is_empty()
        && uses.readers(id).iter().all(picks)
}

/// The integers of a table, if they are near enough to it.
fn codes(graph: &Graph, id: ValueId) -> Result<Option<QuantizedWeights>> {
    let values = graph.constant(id).map(|data| data.to_f32s()).transpose().map_err(internal)?.unwrap_or_default();
    let columns = graph.constant(id).and_then(|data| data.shape().last().copied()).unwrap_or(1);
    let layout = ChannelLayout { channels: columns, inner: 1 };
    let q = quantize_weights(graph.name_of(id), &values, layout, Grid::S8_WEIGHTS, WeightMethod::MinMax)?;
    // Row by row: the large elements of a few rows would hide what is lost of the others.
    let width = graph.constant(id).and_then(|data| data.shape().first().copied()).map_or(1, |rows| values.len() / rows);
    let noise = |(number, row): (usize, &[f32])| {
        let (mut signal, mut error) = (0.0, 0.0);
        for (idx, &v) in row.iter().enumerate() {
            signal += f64::from(v) * f64::from(v);
            error += (f64::from(v) - q.dequantized(number * width + idx)).powi(2);
        }
        (signal > 0.0).then_some(error / signal)
    };
    let noises: Vec<f64> = values.chunks(width.max(1)).enumerate().filter_map(noise).collect();
    let mean = noises.iter().sum::<f64>() / noises.len().max(1) as f64;
    Ok((mean <= MAX_NOISE).then_some(q))
}

/// Lets a Gather pick integers, which become what it wrote before.
fn gather(builder: &mut Builder, graph: &Graph, idx: usize, [stored, scales]: [ValueId; 2]) {
    let node = &graph.nodes[idx];
    let out = node.outputs[0];
    let steps = builder.value(format!("{}/steps", graph.name_of(out)), graph.ty(out).clone());
    builder.graph.nodes[idx].inputs[0] = Some(stored);
    builder.graph.nodes[idx].outputs[0] = steps;
    builder.node_into("Mul", &node.name, &[steps, scales], out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::report::FloatNode;
    use crate::apply::testing::Net;
    use ottava_hal::{Node, TensorType};

    /// `Gather(table, ids)`, with a second reader of the table where asked for.
    fn network(table: &[f32], second_reader: bool) -> Graph {
        let mut graph = Graph::new("g");
        let ids = graph.add_input("ids", TensorType::fixed(DataType::S64, &[3]));
        let rows = table.len() / 64;
        let table = graph.add_const("table", Tensor::from_slice(&[rows, 64], table).unwrap());
        let out = graph.add_value("out", TensorType::fixed(DataType::F32, &[3, 64]));
        let mut gather = Node::new("gather", "Gather", 13);
        (gather.inputs, gather.outputs) = (vec![Some(table), Some(ids)], vec![out]);
        graph.nodes = vec![gather];
        graph.outputs = vec![out];
        if second_reader {
            let all = graph.add_value("all", TensorType::fixed(DataType::F32, &[rows, 64]));
            let mut copy = Node::new("copy", "Relu", 14);
            (copy.inputs, copy.outputs) = (vec![Some(table)], vec![all]);
            graph.nodes.push(copy);
            graph.outputs.push(all);
        }
        graph
    }

    fn quantized(graph: &Graph, recipe: &Recipe) -> (Graph, Report) {
        let float = FloatNode { name: "gather".into(), op: "Gather".into(), reason: String::new() };
        let mut report = Report { float: vec![float], ..Report::default() };
        let graph = quantize_tables(graph.clone(), recipe, &mut report).unwrap();
        ottava_graph::verify(&graph).unwrap();
        (graph, report)
    }

    #[test]
    fn rows_are_picked_as_integers() {
        let table = Net::new().noise(128 * 64);
        let (graph, report) = quantized(&network(&table, false), &Recipe::default());
        let ops: Vec<&str> = graph.nodes.iter().map(|n| n.op.as_str()).collect();
        assert_eq!(ops, ["DequantizeLinear", "Gather", "Mul"]);
        assert_eq!(graph.name_of(graph.outputs[0]), "out");
        assert_eq!((report.quantized, report.float.len()), (vec!["gather".to_owned()], 0));
        let codes = graph.constant(graph.nodes[0].input(0).unwrap()).unwrap();
        let scales = graph.constant(graph.nodes[2].input(1).unwrap()).unwrap().to_f32s().unwrap();
        for (idx, (code, value)) in codes.to_ints().unwrap().iter().zip(&table).enumerate() {
            let scale = scales[idx % 64];
            assert!((*code as f32 * scale - value).abs() <= 0.500_01 * scale);
        }
    }

    #[test]
    fn what_would_lose_or_is_read_elsewhere_stays() {
        let table = Net::new().noise(128 * 64);
        let mut spiked = table.clone();
        (0..64).for_each(|column| spiked[column] = 1e4);
        let mut kept = Recipe::default();
        kept.keep_float("gather");
        let default = Recipe::default();
        let cases =
            [(network(&spiked, false), &default), (network(&table, true), &default), (network(&table, false), &kept)];
        let small = (network(&table[..1024], false), &default);
        for (graph, recipe) in cases.iter().chain([&small]) {
            let (left, report) = quantized(graph, recipe);
            assert!(left.nodes.iter().all(|node| node.op != "DequantizeLinear"));
            assert_eq!(report.float.len(), 1);
        }
    }
}
