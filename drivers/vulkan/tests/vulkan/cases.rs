//! Every operator case that the device accepts has the reference's answer.

use crate::common::{compile, describe, device, is_close, run};
use ottava_hal::{Device, Tensor};
use ottava_reference::Interpreter;

/// Runs every `step`th case that the device accepts, from number `first` on.
fn check_cases(device: &dyn Device, first: usize, step: usize) -> usize {
    let (mut n_cases, mut wrong) = (0, Vec::new());
    for case in ottava_ops::all().flat_map(|op| op.cases()).skip(first).step_by(step) {
        let program = case.program();
        if !device.assess(&program).unwrap().iter().all(|v| v.is_supported()) {
            continue;
        }
        let runtime = case.inputs.iter().flatten().filter(|x| !x.constant);
        let inputs: Vec<Tensor> = runtime.map(|x| x.tensor.clone()).collect();
        let expect = Interpreter::new(&program).unwrap().run(&inputs).unwrap();
        let found = run(device, &compile(device, &program), &inputs);
        let found = found.unwrap_or_else(|e| panic!("{}: {e}", describe(&program)));
        if !found.iter().zip(&expect).all(|(f, e)| is_close(f, e)) {
            wrong.push(format!("{} ({})", program.name, describe(&program)));
        }
        n_cases += 1;
    }
    assert!(wrong.is_empty(), "{} of {n_cases} wrong: {wrong:#?}", wrong.len());
    n_cases
}

#[test]
fn operator_cases_have_the_answers_of_the_reference() {
    let Some(device) = device("operator cases on Vulkan", &[]) else { return };
    let n_cases = check_cases(device.as_ref(), 0, 1);
    println!("{n_cases} operator cases");
    assert!(n_cases >= 3, "{n_cases} cases");
}

/// Each variant compiles every kernel anew: few cases each, unless everything is wanted.
fn few() -> usize {
    if std::env::var("OTTAVA_GPU").is_ok_and(|v| v == "full") { 1 } else { 7 }
}

#[test]
fn every_size_of_a_work_group_has_the_same_answers() {
    let Some(device) = device("sizes of work-groups on Vulkan", &[]) else { return };
    let largest = device.target().max_group.to_string();
    drop(device);
    for (first, size) in ["1", "7", &largest].into_iter().enumerate() {
        let options = [("work_group", size)];
        let Some(device) = crate::common::device("sizes of work-groups on Vulkan", &options) else { return };
        println!("{} operator cases with work-groups of {size}", check_cases(device.as_ref(), first, few()));
    }
}

#[test]
fn the_device_passes_the_test_of_its_arithmetic_with_every_size_of_a_work_group() {
    for size in ["auto", "1", "33"] {
        let Some(device) = device("self-test on Vulkan", &[("work_group", size)]) else { return };
        assert!(device.target().exact);
        // Once more: opening keeps what it has found out.
        let exe = device.load(ottava_gpu::selftest::recipe(device.target()).unwrap()).unwrap();
        let found = run(device.as_ref(), &exe, &[]).unwrap();
        assert_eq!(ottava_gpu::selftest::check(&found[0]), Ok(()));
        assert!(device.serialize(exe.as_ref()).is_err(), "it has no program");
    }
}

#[test]
fn both_dot_products_have_the_same_answers() {
    for dot in ["plain", "packed"] {
        let what = format!("operator cases with {dot} dot products on Vulkan");
        let Some(device) = device(&what, &[("dot", dot)]) else { return };
        println!("{} operator cases with {dot} dot products", check_cases(device.as_ref(), 0, few()));
    }
}
