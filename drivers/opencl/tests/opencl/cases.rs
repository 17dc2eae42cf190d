//! Every operator case that the device accepts has the reference's answer.

use crate::common::{compile, describe, device, is_close, run};
use ottava_hal::{Device, Node, Tensor};
use ottava_reference::Interpreter;

/// A checker of memory may lose track of copies of parts of words, which inputs that do not end at a word need; then
/// `OTTAVA_WHOLE_WORDS` leaves those cases out.
fn is_left_out(inputs: &[Tensor]) -> bool {
    std::env::var_os("OTTAVA_WHOLE_WORDS").is_some() && inputs.iter().any(|x| !x.bytes().len().is_multiple_of(4))
}

/// Runs the wanted cases that the device accepts.
fn check_cases(device: &dyn Device, wanted: impl Fn(usize, &Node) -> bool) -> usize {
    let (mut n_cases, mut wrong) = (0, Vec::new());
    let all = ottava_ops::all().flat_map(|op| op.cases()).enumerate();
    for (_, case) in all.filter(|(i, case)| wanted(*i, &case.node)) {
        let program = case.program();
        if !device.assess(&program).unwrap().iter().all(|v| v.is_supported()) {
            continue;
        }
        let runtime = case.inputs.iter().flatten().filter(|x| !x.constant);
        let inputs: Vec<Tensor> = runtime.map(|x| x.tensor.clone()).collect();
        if is_left_out(&inputs) {
            continue;
        }
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
    let Some(device) = device("operator cases on OpenCL", &[]) else { return };
    let n_cases = check_cases(device.as_ref(), |_, _| true);
    println!("{n_cases} operator cases");
    assert!(n_cases >= 100 || std::env::var_os("OTTAVA_WHOLE_WORDS").is_some(), "{n_cases} cases");
}

#[test]
fn every_size_of_a_work_group_has_the_same_answers() {
    let Some(device) = device("sizes of work-groups on OpenCL", &[]) else { return };
    let largest = device.target().max_group.to_string();
    // The software device compiles each kernel anew for each size: few cases each, unless everything is wanted.
    let step = if std::env::var("OTTAVA_GPU").is_ok_and(|v| v == "full") { 1 } else { 7 };
    for (first, size) in ["1", "7", &largest].into_iter().enumerate() {
        let options = [("work_group", size)];
        let Some(device) = crate::common::device("sizes of work-groups on OpenCL", &options) else { return };
        println!(
            "{} operator cases with work-groups of {size}",
            check_cases(device.as_ref(), |i, _| i % step == first % step)
        );
    }
}

#[test]
fn both_dot_products_have_the_same_answers() {
    for dot in ["plain", "packed"] {
        let Some(device) = device("variants of dot products on OpenCL", &[("dot", dot)]) else { return };
        let products = ["Conv", "ConvTranspose", "Gemm", "MatMul"];
        let n_cases = check_cases(device.as_ref(), |_, node| products.contains(&node.op.as_str()));
        println!("{n_cases} cases of products, dot product {dot}");
        assert!(n_cases > 0);
    }
}

#[test]
fn the_device_passes_the_test_of_its_arithmetic() {
    let Some(device) = device("arithmetic of the OpenCL device", &[]) else { return };
    assert!(device.target().exact, "what was wrong is in the log");
}
