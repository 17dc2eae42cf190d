//! The operators' own cases, run on this device wherever it accepts them.

use crate::device::CpuDevice;
use crate::testing::check_with;
use ottava_hal::{Device, Tensor};
use ottava_kernels::Isa;

#[test]
fn accepted_cases_equal_the_reference() {
    let device = CpuDevice::new(Isa::detect(), 1).unwrap();
    let mut n_accepted = 0;
    for case in ottava_ops::all().flat_map(|op| op.cases()) {
        let program = case.program();
        if device.assess(&program).unwrap().iter().all(|v| v.is_supported()) {
            let runtime = case.inputs.iter().flatten().filter(|x| !x.constant);
            let inputs: Vec<Tensor> = runtime.map(|x| x.tensor.clone()).collect();
            check_with(&program, &inputs);
            n_accepted += 1;
        }
    }
    assert!(n_accepted >= 40, "{n_accepted} cases");
}
