//! Operators on the GPU devices of this machine against the reference: the cases of every operator, and nodes of random
//! shapes and parameters. Integers are equal, floats within the bounds of numerics.md section 7. What a device refuses, it
//! refuses with a reason; what it accepts, it runs.

use ottava_e2e::gpus::{Gpu, gpus};
use ottava_e2e::one_node::{Outcome, run};
use ottava_e2e::random_node::FAMILIES;
use ottava_e2e::rng::Rng;
use std::collections::BTreeMap;

/// Random nodes of each family; `OTTAVA_GPU=full` runs ten times as many.
const NODES: u64 = 40;

/// Operators that must run somewhere: a refusal of everything is no success.
const CLAIMED: usize = 70;

#[test]
fn cases_of_every_operator_are_right_or_refused() {
    for gpu in gpus("cases_of_every_operator_are_right_or_refused") {
        let device = gpu.open(&[]);
        let (mut counts, mut wrong) = (BTreeMap::<String, (usize, usize)>::new(), Vec::new());
        for case in ottava_ops::all().flat_map(|op| op.cases()) {
            let data: Vec<_> = case.inputs.iter().flatten().map(|x| x.tensor.clone()).collect();
            let count = counts.entry(case.node.full_op()).or_default();
            match run(&*device, &case.program(), &data) {
                Outcome::Equal => count.0 += 1,
                Outcome::Refused(why) if !why.is_empty() => count.1 += 1,
                other => wrong.push(format!("{} {}: {other:?}", case.node.full_op(), case.name)),
            }
        }
        print(&gpu, &counts);
        assert!(wrong.is_empty(), "{}: {wrong:#?}", gpu.driver);
        let claimed = counts.values().filter(|(run, _)| *run > 0).count();
        assert!(claimed >= CLAIMED, "{}: {claimed} operators run", gpu.driver);
    }
}

#[test]
fn random_nodes_are_right_or_refused() {
    let full = std::env::var("OTTAVA_GPU").is_ok_and(|v| v == "full");
    let nodes = if full { 10 * NODES } else { NODES };
    for gpu in gpus("random_nodes_are_right_or_refused") {
        let device = gpu.open(&[]);
        for (family, make) in FAMILIES {
            let (mut run_here, mut refused, mut wrong) = (0, BTreeMap::<String, usize>::new(), Vec::new());
            for seed in 0..nodes {
                let Some(random) = make(&mut Rng::new(seed)) else { continue };
                match run(&*device, &random.program, &random.data) {
                    Outcome::Equal => run_here += 1,
                    Outcome::Refused(why) => *refused.entry(why).or_default() += 1,
                    other => wrong.push(format!("seed {seed}: {other:?}: {:?}", random.program.nodes)),
                }
            }
            println!("{} {family}: {run_here} run, refused {refused:#?}", gpu.driver);
            assert!(wrong.is_empty(), "{} {family}: {} wrong, {:#?}", gpu.driver, wrong.len(), wrong.first());
            assert!(run_here * 2 > nodes as usize, "{} {family}: {run_here} of {nodes} run", gpu.driver);
        }
    }
}

fn print(gpu: &Gpu, counts: &BTreeMap<String, (usize, usize)>) {
    let (run, refused) = counts.values().fold((0, 0), |(a, b), (x, y)| (a + x, b + y));
    println!("{} {}: {run} cases run, {refused} refused", gpu.driver, gpu.id);
    for (op, (run, refused)) in counts.iter().filter(|(_, (run, _))| *run > 0) {
        println!("  {op}: {run} run, {refused} refused");
    }
}
