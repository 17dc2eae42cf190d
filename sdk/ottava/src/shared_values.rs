//! Values that are the same however many rows a batch has: position embeddings, slices of tables. One inference over a
//! batch makes them once, so statistics that must not depend on the batch count them once for every row.

use crate::{Model, Registry, Result, SessionOptions};
use ottava_compiler::{Cx, canonicalize};
use ottava_graph::{Graph, Phase, ValueId};

/// Which of the values are shared by the rows of a batch: as many elements for two rows as for one. None is where the
/// model fixes its batch or has a state, and none of whose extents only a run decides.
pub(crate) fn shared_values(
    (model, canonical, values): (&Model, &Graph, &[ValueId]),
    registry: &Registry,
    options: &SessionOptions,
) -> Result<Vec<bool>> {
    if model.fixed_batch().is_some() || !canonical.states.is_empty() || !options.state.is_empty() {
        return Ok(vec![false; values.len()]);
    }
    let [one, two] = [1, 2].map(|batch| elements((model, canonical, values), registry, options, batch));
    Ok(one?.into_iter().zip(two?).map(|(one, two)| one.is_some() && one == two).collect())
}

/// The number of elements of each value for a batch.
fn elements(
    (model, canonical, values): (&Model, &Graph, &[ValueId]),
    registry: &Registry,
    options: &SessionOptions,
    batch: usize,
) -> Result<Vec<Option<usize>>> {
    let dims = model.dims(batch, &options.dims)?;
    let mut bound = ottava_graph::bind(canonical, &dims, 1).map_err(|e| model.invalid(e))?;
    // Extents that follow from shapes are known once the canonical phase has folded them.
    bound.phase = Phase::Imported;
    bound.set_caller_outputs(values.iter().copied());
    let reference = registry.reference()?;
    let graph = canonicalize(&bound, &mut Cx::new(reference.as_ref())).map_err(|e| model.invalid(e))?;
    Ok(graph.outputs.iter().map(|id| graph.ty(*id).shape.elements()).collect())
}

#[cfg(test)]
mod tests {
    use crate::{CalibrateOptions, Data, Model, Registry, calibrate};
    use ottava_graph::text;
    use ottava_hal::Tensor;
    use std::collections::BTreeMap;

    /// The first rows of a table, as many as the sentence has, are added to every sentence.
    const NETWORK: &str = r#"ottava-graph 1
graph "positions" imported
input %x : f32[N,S,2]
const %table : f32[1,3,2] = [0.5, -0.25, 0.75, 1.0, -0.5, 0.25]
const %zero : s64[1] = [0]
const %one : s64[1] = [1]
const %two : s64[1] = [2]
%s : s64[3] = "extents" Shape.15(%x)
%n : s64[1] = "length" Slice.13(%s, %one, %two)
%t : f32[1,S,2] = "rows" Slice.13(%table, %zero, %n, %one)
%p : f32[1,S,2] = "softmax" Softmax.13(%t)
%y : f32[N,S,2] = "sum" Add.14(%x, %p)
output %y
"#;

    #[test]
    fn what_rows_share_is_counted_for_each() {
        let graph = text::parse(NETWORK).unwrap();
        let origin = "positions.onnx".into();
        let model = Model { origin, graph, diagnostics: vec![], size_bytes: 0, plan: None, requant: None };
        let x: Vec<f32> = (0..20).map(|i| i as f32 / 7.0).collect();
        let rows = Tensor::from_slice(&[5, 2, 2], &x).unwrap();
        let data = Data::from_arrays("rows", BTreeMap::from([("x".to_owned(), rows)]));
        let [one, two, all] = [1, 2, 5].map(|batch| {
            let mut options = CalibrateOptions::default();
            options.session.batch = batch;
            calibrate(&model, &data, &Registry::new(), &options, &mut |_, _| {}).unwrap()
        });
        assert_eq!(one.get("p").unwrap().histogram.finite(), 5 * 4, "every row has the four values");
        assert!(one.to_bytes() == two.to_bytes() && one.to_bytes() == all.to_bytes());
    }
}
