//! Program views from strangers: whatever the arrays say, the answer is a program or an error in words.
#![allow(unsafe_code)] // The tables are called as a host calls them.

mod arrays;
mod common;

use arrays::Arrays;
use common::{check, host};
use ottava_abi::*;
use ottava_hal::program::{Activation, Fused};
use ottava_hal::{
    Attr, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Driver, DriverInfo, Error,
    Executable, Fence, Node, OptionSpec, Options, Program, QuantParams, Queue, RequantMode, Result, Status, Tensor,
    TensorType, Value, ValueId,
};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

/// The last program that arrived.
type Seen = Arc<Mutex<Option<Program>>>;

/// A device that keeps what it is asked to estimate.
struct Keeper(DeviceInfo, Capability, Seen);

impl Driver for Keeper {
    fn info(&self) -> DriverInfo {
        DriverInfo { name: "keeper".into(), vendor: "tests".into(), version: "1".into() }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![self.0.clone()])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        vec![]
    }

    fn open(&self, _: &str, _: &Options) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(keeper(&self.2)))
    }
}

impl Device for Keeper {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn capability(&self) -> &Capability {
        &self.1
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        *self.2.lock().unwrap() = Some(program.clone());
        Ok(Cost { time_ns: 7, ..Cost::default() })
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        Err(Error::failed(Status::Internal, "not here"))
    }

    fn alloc(&self, _: &BufferDesc) -> Result<Arc<dyn ottava_hal::Buffer>> {
        Err(Error::failed(Status::Internal, "not here"))
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Err(Error::failed(Status::Internal, "not here"))
    }

    fn create_fence(&self, _: u64) -> Result<Arc<dyn Fence>> {
        Err(Error::failed(Status::Internal, "not here"))
    }
}

fn keeper(seen: &Seen) -> Keeper {
    Keeper(DeviceInfo::new("keeper", "k", DeviceKind::Cpu), Capability::default(), Arc::clone(seen))
}

/// A convolution with everything that a view can say.
fn rich() -> Program {
    let ty = |dtype, dims: &[usize]| TensorType::fixed(dtype, dims);
    let s8 = ottava_hal::DataType::S8;
    let x = ty(s8, &[1, 2, 4, 4]).quantized(QuantParams::per_tensor(0.25, -7));
    let w = ty(s8, &[2, 2, 1, 1]).quantized(QuantParams::per_axis_symmetric(0, vec![0.5, 0.125]));
    let mut node = Node::new("conv", "Conv", 11);
    node.domain = "some.domain".into();
    (node.inputs, node.outputs) = (vec![Some(ValueId(0)), Some(ValueId(1)), None], vec![ValueId(2)]);
    node.attrs.set("auto_pad", Attr::Str("VALID".into()));
    node.attrs.set("strides", Attr::Ints(vec![1, 1]));
    node.attrs.set("group", Attr::Int(1));
    node.attrs.set("alpha", Attr::Float(0.5));
    node.attrs.set("floats", Attr::Floats(vec![1.5, -2.0]));
    node.attrs.set("texts", Attr::Strs(vec!["a".into(), "bc".into()]));
    node.requant = Some(RequantMode::Q31Double);
    node.fused = Fused { clamp: Some((-7, 100)), act: Some(Activation::Clip { lo: 0.0, hi: 6.0 }), ..Fused::default() };
    let weights = Tensor::from_slice(&[2, 2, 1, 1], &[1i8, -2, 3, -4]).unwrap();
    let value = |name: &str, ty, constant| Value { name: name.into(), ty, constant };
    Program {
        name: "rich".into(),
        values: vec![value("x", x.clone(), None), value("w", w, Some(weights)), value("y", x, None)],
        nodes: vec![node],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(2)],
    }
}

/// Asks a device for the cost of a view.
struct Asker(&'static DeviceVtblV1, *mut ottava_abi::Device, Seen);

impl Asker {
    fn new() -> Self {
        let (host, mut out, mut err) = (Box::leak(Box::new(host())), null(), ErrorV1::blank());
        let (mut device, seen) = (null_mut(), Seen::default());
        // SAFETY: a host that keeps to the contract.
        unsafe {
            check(ottava_plugin::private::entry(|| keeper(&seen), host, &mut out, &mut err), &err).unwrap();
            let d = &*out;
            let code = (d.open)(d.ctx, &keeper(&seen).0.uuid, Slice::borrowed(&[]), &mut device, &mut err);
            check(code, &err).unwrap();
            Self(&*d.device, device, seen)
        }
    }

    fn ask(&self, view: &ProgramV1) -> std::result::Result<u64, (i32, String)> {
        let (mut cost, mut err) = (CostV1::blank(), ErrorV1::blank());
        // SAFETY: every array of the view is memory of this test; what they say is the point of it.
        check(unsafe { (self.0.estimate)(self.1, view, &mut cost, &mut err) }, &err).map(|()| cost.time_ns)
    }
}

#[test]
fn a_view_arrives_as_the_program_that_it_was_made_of() {
    let (program, asker) = (rich(), Asker::new());
    assert_eq!(asker.ask(&Arrays::of(&program).view()), Ok(7));
    let seen = asker.2.lock().unwrap().take().unwrap();
    assert_eq!(seen.nodes, program.nodes);
    assert_eq!(seen.values, program.values);
    assert_eq!((seen.name, seen.inputs, seen.outputs), ("rich".into(), program.inputs, program.outputs));
}

/// Every `u32` of an array of plain structs.
fn words<T: Copy>(array: &mut [T]) -> &mut [u32] {
    let n = size_of_val(array) / 4;
    // SAFETY: the tables are plain numbers of 4 or 8 bytes without padding, aligned to 4 at least; constants, which hold a
    // pointer, are not passed here.
    unsafe { std::slice::from_raw_parts_mut(array.as_mut_ptr().cast(), n) }
}

#[test]
fn every_number_of_a_view_may_be_wrong() {
    let (program, asker) = (rich(), Asker::new());
    let (mut refused, mut accepted) = (0, 0);
    for array in 0..9 {
        for position in 0.. {
            let mut more = false;
            for wrong in [0, 1, 3, 200, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX] {
                let mut a = Arrays::of(&program);
                let words = match array {
                    0 => words(&mut a.nodes),
                    1 => words(&mut a.values),
                    2 => words(&mut a.quants),
                    3 => words(&mut a.attrs),
                    4 => words(&mut a.edges),
                    5 => words(&mut a.dims),
                    6 => words(&mut a.zps),
                    7 => words(&mut a.inputs),
                    _ => words(&mut a.outputs),
                };
                let Some(word) = words.get_mut(position) else { break };
                more = true;
                *word = wrong;
                match asker.ask(&a.view()) {
                    Ok(_) => accepted += 1,
                    Err((code, _)) => {
                        assert!(code == status::INVALID_ARGUMENT || code == status::UNSUPPORTED, "code {code}");
                        refused += 1;
                    }
                }
            }
            if !more {
                break;
            }
        }
    }
    assert!(refused > 300 && accepted > 20, "{refused} refused, {accepted} accepted");
}

#[test]
fn slices_that_are_no_arrays_are_refused() {
    let (program, asker) = (rich(), Asker::new());
    let arrays = Arrays::of(&program);
    let refused = |change: &dyn Fn(&mut ProgramV1), words: &str| {
        let mut view = arrays.view();
        change(&mut view);
        let (code, text) = asker.ask(&view).unwrap_err();
        assert!(text.contains(words), "{code}: {text}");
    };
    refused(&|v| v.nodes.ptr = null(), "nodes: pointer");
    refused(&|v| v.values.stride = 4, "values: pointer");
    refused(&|v| v.dims.len = u64::MAX / 8, "dims: pointer");
    refused(&|v| v.strings.len -= 1, "does not end with a zero byte");
    refused(&|v| v.strings.len = u64::MAX, "strings has");
    refused(&|v| v.strings.ptr = null(), "strings is NULL");
    refused(&|v| v.ir_version = 2, "reads version 1");
    refused(&|v| v.size = 8, "ottava_program_v1 has size");
}

#[test]
fn names_that_are_used_again_and_again_cannot_eat_the_memory() {
    let (program, asker) = (rich(), Asker::new());
    let mut arrays = Arrays::of(&program);
    let long = arrays.strings.len() as u32;
    arrays.strings.extend(std::iter::repeat_n(b'a', 1 << 20).chain([0]));
    let value = ValueV1 { name: long, ..arrays.values[0] };
    arrays.values.extend(std::iter::repeat_n(value, 1000));
    let (code, text) = asker.ask(&arrays.view()).unwrap_err();
    assert_eq!(code, status::INVALID_ARGUMENT);
    assert!(text.contains("are more than"), "{text}");
}
