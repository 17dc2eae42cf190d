//! Bit equality on real networks: every output of every sample of the quantized set is the same on the reference and on
//! the CPU device, for every instruction set that this machine has, one and two threads, batch 1 and 7. Float outputs do
//! not depend on threads or batch either.
//!
//! By default the pairs are one thread with batch 1 and two threads with batch 7; `OTTAVA_EXHAUSTIVE=1` (`tests/full.sh`)
//! runs all four on every instruction set.

use ottava::{Affine, Data, EvaluateOptions, Model, Tensor, evaluate};
use ottava_e2e::assets::{FILES, Network, PROTOCOL, exhaustive, isas, models_or_skip, registry};
use std::collections::BTreeMap;
use std::path::Path;

/// One way to run a network.
#[derive(Clone, Default)]
struct Way {
    device: &'static str,
    isa: Option<String>,
    threads: usize,
    batch: usize,
}

impl Way {
    fn label(&self) -> String {
        let isa = self.isa.as_deref().unwrap_or("-");
        format!("{} isa {isa}, {} threads, batch {}", self.device, self.threads, self.batch)
    }

    fn run(&self, model: &Model, data: &Data, affine: Affine) -> BTreeMap<String, Tensor> {
        let mut options = EvaluateOptions { affine: Some(affine), keep_outputs: true, ..Default::default() };
        options.session.device = Some(self.device.into());
        options.session.batch = self.batch;
        if self.device == "cpu" {
            options.session.devices.isa.clone_from(&self.isa);
            options.session.devices.threads = Some(self.threads);
        }
        evaluate(model, data, &registry(), &options, None, &mut |_, _| {}).expect("runs").outputs
    }
}

/// Every way that the model allows, the reference (or, for float networks, the plainest CPU path) first.
fn ways(model: &Model) -> Vec<Way> {
    let pairs: &[(usize, usize)] = match (model.fixed_batch().is_some(), exhaustive()) {
        (true, _) => &[(1, 1), (2, 1)],
        (false, false) => &[(1, 1), (2, 7)],
        (false, true) => &[(1, 1), (1, 7), (2, 1), (2, 7)],
    };
    let mut ways = vec![Way { device: "reference", threads: 1, batch: 1, ..Way::default() }];
    for isa in isas() {
        ways.extend(pairs.iter().map(|&(threads, batch)| Way {
            device: "cpu",
            isa: Some(isa.clone()),
            threads,
            batch,
        }));
    }
    ways
}

fn assert_equal_everywhere(name: &str, model: &Model, data: &Data, affine: Affine) {
    let ways = ways(model);
    let expected = ways[0].run(model, data, affine);
    assert!(!expected.is_empty(), "{name} has outputs");
    for way in &ways[1..] {
        let found = way.run(model, data, affine);
        for (output, tensor) in &expected {
            assert!(found[output].bytes() == tensor.bytes(), "{name}: `{output}` differs on {}", way.label());
        }
    }
    let values: usize = expected.values().map(Tensor::elements).sum();
    println!("{name}: {values} values equal on {} ways, instruction sets {}", ways.len(), isas().join(" "));
}

fn check_file(models: &Path, file: &str, data: &str, affine: &str) {
    let model = Model::load(models.join(file)).expect(file);
    let data = Data::load(models.join("data").join(data), None).expect(data);
    assert_equal_everywhere(file, &model, &data, affine.parse().expect(affine));
}

#[test]
fn quantized_files_of_others_are_bit_equal_everywhere() {
    let Some(models) = models_or_skip("quantized_files_of_others_are_bit_equal_everywhere") else { return };
    for (file, data, affine) in FILES {
        check_file(&models, file, data, affine);
    }
}

#[test]
fn our_quantized_networks_are_bit_equal_everywhere() {
    let Some(models) = models_or_skip("our_quantized_networks_are_bit_equal_everywhere") else { return };
    for network in PROTOCOL {
        let loaded = network.load(&models);
        let quantized = loaded.quantized(&registry());
        assert_equal_everywhere(network.name, &quantized.model, &loaded.evaluation, loaded.affine);
    }
}

#[test]
fn float_outputs_do_not_depend_on_threads_batch_or_instruction_set() {
    let Some(models) = models_or_skip("float_outputs_do_not_depend_on_threads_batch_or_instruction_set") else {
        return;
    };
    for name in ["kws", "ad01", "resnet8"] {
        let loaded = Network::named(name).load(&models);
        assert_equal_everywhere(&format!("{name} float"), &loaded.model, &loaded.evaluation, loaded.affine);
    }
}
