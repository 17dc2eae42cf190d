//! Bridges: sign bridges around twins, and the conversions that a model has already.

use crate::device::{Fake, no};
use crate::network::{assert_equal, chain, order, planned, seat, with_reference};
use ottava_compiler::{Fallback, Placement};
use ottava_graph::{Graph, Phase};
use ottava_hal::device::LinkMode;
use ottava_hal::{DataType, Node, QuantParams, Tensor, TensorType};

#[test]
fn a_signed_device_runs_an_unsigned_network_between_two_bridges() {
    let graph = chain(5);
    let npu = Fake::new("npu", 1_000).signed();
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 50_000))]);
    let (plan, notes) = planned(&graph, &devices, &Placement::default());
    // The bridges run on the cpu: the npu refuses them, for one side is u8.
    assert_eq!(order(&plan), ["cpu", "npu", "cpu"]);
    let bridges: Vec<_> = plan.placed.iter().filter(|p| p.bridge).collect();
    let names: Vec<&str> = bridges.iter().map(|p| p.node.as_str()).collect();
    assert_eq!(names, ["x_to_s8", "v4_to_u8"]);
    assert_eq!(plan.partitions.iter().map(|p| p.bridges).collect::<Vec<_>>(), [1, 0, 1]);
    assert!(bridges[0].reason.contains("turns `x` from u8 to s8") && bridges[0].op == "ottava::Requantize");
    let inner = &plan.partitions[1].program;
    assert!(inner.values.iter().all(|v| v.ty.dtype == DataType::S8));
    let zero = inner.values[0].ty.quant.as_ref().map(|q| q.zero_points.clone());
    assert_eq!(zero, Some(vec![120 - 128]));
    let reason = seat(&plan, "net/relu1").1;
    assert!(reason.ends_with("; as its s8 twin (DTYPE: is u8, supported: s8)"), "{reason}");
    let twins = notes.iter().find(|n| n.code == "P0104").expect("twins leave a note");
    assert!(twins.message.starts_with("npu runs nodes as their s8 twins"), "{twins}");
    assert_eq!(plan.slots[plan.outputs[0]].ty.dtype, DataType::U8);
    assert_equal(&graph, &plan, &devices, 2);
}

#[test]
fn a_device_that_takes_the_bridge_keeps_it() {
    let graph = chain(4);
    let npu = Fake::new("npu", 1_000).rule(|p, n| match (n.op.as_str(), p.ty(n.outputs[0]).dtype) {
        ("Requantize", _) | (_, DataType::S8) => crate::device::YES,
        _ => ottava_hal::Verdict::rejected(ottava_hal::Reason::Dtype, "is u8"),
    });
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 50_000))]);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!(order(&plan), ["npu"]);
    assert_eq!(plan.partitions[0].bridges, 2);
    assert_equal(&graph, &plan, &devices, 3);
}

#[test]
fn a_twin_without_a_bridge_is_not_taken() {
    let graph = chain(4);
    let npu = Fake::new("npu", 1_000).signed();
    let cpu = Fake::new("cpu", 50_000).only(&["Relu", "MaxPool"]);
    let devices = with_reference(vec![("npu", npu), ("cpu", cpu)]);
    let strict = Placement { fallback: Fallback::Error, ..Placement::default() };
    assert_eq!(order(&planned(&graph, &devices, &strict).0), ["cpu"]);
    // With the fallback the reference turns the sign.
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!(order(&plan), ["reference", "npu", "reference"]);
    assert_equal(&graph, &plan, &devices, 4);
}

/// `Quantize`, `middle` nodes on u8, `Dequantize`.
fn island(middle: &[Node]) -> Graph {
    let mut graph = Graph { phase: Phase::Quantized, ..Graph::new("island") };
    let real = TensorType::fixed(DataType::F32, &[1, 2, 4, 4]);
    let byte = |scale| TensorType::fixed(DataType::U8, &[1, 2, 4, 4]).quantized(QuantParams::per_tensor(scale, 100));
    let mut x = graph.add_input("x", real.clone());
    let ottava = |name: &str| Node { domain: "ottava".into(), ..Node::new(name.to_lowercase(), name, 1) };
    let ends = (ottava("Quantize"), ottava("Dequantize"));
    let all = [ends.0].into_iter().chain(middle.iter().cloned()).chain([ends.1]);
    for (i, mut node) in all.enumerate() {
        let ty = if node.op == "Dequantize" { real.clone() } else { byte(0.02 + 0.01 * i as f32) };
        let y = graph.add_value(format!("v{i}"), ty);
        node.inputs.insert(0, Some(x));
        node.outputs = vec![y];
        graph.nodes.push(node);
        x = y;
    }
    graph.outputs = vec![x];
    graph
}

#[test]
fn converters_take_the_sign_into_themselves() {
    let graph = island(&[Node::new("sum", "Relu", 14), Node::new("mid", "Relu", 14)]);
    let npu = Fake::new("npu", 1_000).signed().rule(|p, n| {
        let float = |id: &ottava_hal::ValueId| p.ty(*id).dtype != DataType::S8;
        let bad = n.inputs.iter().flatten().chain(&n.outputs).any(float);
        if bad { ottava_hal::Verdict::rejected(ottava_hal::Reason::Dtype, "is not s8") } else { crate::device::YES }
    });
    let devices = with_reference(vec![("npu", npu), ("cpu", Fake::new("cpu", 50_000))]);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    // Quantize on the cpu writes s8 at once, Dequantize reads s8: no bridge.
    assert_eq!(order(&plan), ["cpu", "npu", "cpu"]);
    assert!(plan.placed.iter().all(|p| !p.bridge));
    // The converters themselves were not refused: their reason is that of the node beside them.
    let twins: Vec<_> = plan.placed.iter().filter(|p| p.device == "cpu" && p.reason.contains("twin")).collect();
    assert!(!twins.is_empty());
    for placed in twins {
        let why = "beside it, whose own form was refused: DTYPE: is not s8)";
        assert!(placed.reason.contains("as its s8 twin (for `") && placed.reason.ends_with(why), "{}", placed.reason);
        let said = placed.opinions.iter().find(|o| o.device == "cpu").expect("the cpu has an opinion");
        assert!(said.text.starts_with("chosen, as its s8 twin (for `") && said.text.ends_with(why), "{}", said.text);
    }
    assert_equal(&graph, &plan, &devices, 5);
}

#[test]
fn conversions_of_the_model_go_to_the_cheaper_side() {
    let requantize = Node { domain: "ottava".into(), ..Node::new("middle", "Requantize", 1) };
    let graph = island(&[Node::new("left", "Relu", 14), requantize, Node::new("right", "Relu", 14)]);
    for (on_npu, device) in [(300, "npu"), (90_000, "cpu")] {
        let npu = Fake::new("npu", 0)
            .rule(|_, n| if ["left", "middle"].contains(&n.name.as_str()) { crate::device::YES } else { no("no") })
            .price(move |_, n| if n.name == "middle" { on_npu } else { 1_000 });
        let devices = with_reference(vec![("npu", npu.link(LinkMode::Copy, 100)), ("cpu", Fake::new("cpu", 30_000))]);
        let (plan, _) = planned(&graph, &devices, &Placement::default());
        assert_eq!(seat(&plan, "left").0, "npu");
        assert_eq!(seat(&plan, "middle").0, device);
        assert_equal(&graph, &plan, &devices, 6);
    }
}

#[test]
fn tables_and_clamps_move_with_the_sign() {
    let table: Vec<i64> = (0..256).map(|i| (i * 7 + 13) % 256).collect();
    let lut = Node { domain: "ottava".into(), ..Node::new("lut", "Lut", 1) };
    let mut clamped = Node { domain: "ottava".into(), ..Node::new("clamped", "Requantize", 1) };
    clamped.fused.clamp = Some((90, 200));
    let mut graph = island(&[clamped, lut]);
    let table = graph.add_const("table", Tensor::from_ints(DataType::U8, &[256], &table).unwrap());
    graph.nodes[2].inputs.push(Some(table));
    let devices = with_reference(vec![("npu", Fake::new("npu", 10).signed()), ("cpu", Fake::new("cpu", 90_000))]);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!(order(&plan), ["npu"], "every node has an s8 twin, so no u8 is left");
    let program = &plan.partitions[0].program;
    assert_eq!(program.nodes[1].fused.clamp, Some((-38, 72)));
    for seed in 0..20 {
        assert_equal(&graph, &plan, &devices, seed);
    }
}

#[test]
fn a_float_device_runs_a_quantized_sum_between_conversions() {
    let mut sum = Node::new("sum", "Add", 14);
    sum.fused.clamp = Some((100, 255));
    let mut graph = island(&[Node::new("left", "Relu", 14), sum, Node::new("right", "Relu", 14)]);
    let left = graph.nodes[2].inputs[0];
    graph.nodes[2].inputs.push(left);
    let float = Fake::new("float", 1).rule(|p, n| {
        let quantized = n.inputs.iter().flatten().chain(&n.outputs).any(|id| p.ty(*id).quant.is_some());
        let refusal = ottava_hal::Verdict::rejected(ottava_hal::Reason::Dtype, "is quantized, supported: f32");
        if quantized { refusal } else { crate::device::YES }
    });
    let cpu = Fake::new("cpu", 0).price(|_, n| if n.op == "Add" { 90_000 } else { 500 });
    let devices = with_reference(vec![("float", float), ("cpu", cpu)]);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!(order(&plan), ["cpu", "float", "cpu"]);
    let bridges: Vec<&str> = plan.placed.iter().filter(|p| p.bridge).map(|p| p.op.as_str()).collect();
    assert_eq!(bridges, ["ottava::Dequantize", "ottava::Quantize"]);
    assert!(seat(&plan, "sum").1.ends_with("; as its f32 twin (DTYPE: is quantized, supported: f32)"));
    let quantize = plan.partitions[2].program.nodes.iter().find(|n| n.op == "Quantize").expect("a bridge");
    assert_eq!(quantize.fused.clamp, Some((100, 255)), "the bridge that rounds also clamps");
    for seed in 0..20 {
        assert_equal(&graph, &plan, &devices, seed);
    }
}

#[test]
fn bytes_without_a_meaning_have_no_twin() {
    // A mover from quantized to plain bytes hands the integers on as they are.
    let mut graph = chain(2);
    let plain = TensorType::fixed(DataType::U8, &[1, 2, 4, 4]);
    let y = graph.add_value("plain", plain);
    let mut node = Node::new("raw", "Identity", 21);
    (node.inputs, node.outputs) = (vec![Some(graph.outputs[0])], vec![y]);
    graph.nodes.push(node);
    graph.outputs = vec![y];
    let cpu = Fake::new("cpu", 0).price(|_, n| if n.op == "Requantize" { 100 } else { 90_000 });
    let devices = with_reference(vec![("npu", Fake::new("npu", 10).signed()), ("cpu", cpu)]);
    let (plan, _) = planned(&graph, &devices, &Placement::default());
    assert_eq!((seat(&plan, "net/relu1").0, seat(&plan, "raw").0), ("npu", "cpu"));
    assert_equal(&graph, &plan, &devices, 9);
}
