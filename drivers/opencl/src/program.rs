//! Programs: the text of a kernel with its macros, built once per variant.

use crate::shared::Shared;
use crate::status::failed;
use opencl3::kernel::Kernel;
use opencl3::program::Program;
use ottava_gpu::{ARITHMETIC, Dispatch, PRELUDE_CL};
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options of every build. Nothing that weakens the arithmetic is among them.
const STANDARD: &str = "-cl-std=CL1.2";

/// The built programs of a device, by their options and the kernel's name.
#[derive(Default)]
pub(crate) struct Programs {
    built: Mutex<BTreeMap<(&'static str, String), Arc<Program>>>,
}

impl Programs {
    /// The kernel of a launch, as an object of its own: arguments belong to it.
    pub(crate) fn kernel(&self, shared: &Shared, launch: &Dispatch) -> Result<Kernel> {
        let program = self.program(shared, launch)?;
        let name = launch.kernel.name;
        Kernel::create(&program, name).map_err(|e| failed(&format!("kernel `{name}`"), e))
    }

    fn program(&self, shared: &Shared, launch: &Dispatch) -> Result<Arc<Program>> {
        let options = options(shared, launch);
        let key = (launch.kernel.name, options);
        if let Some(program) = self.built.lock().get(&key) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(build(shared, launch, &key.1)?);
        self.built.lock().insert(key, Arc::clone(&program));
        Ok(program)
    }
}

fn options(shared: &Shared, launch: &Dispatch) -> String {
    let mut options = STANDARD.to_owned();
    if shared.found.traits.rounded_division {
        options += " -cl-fp32-correctly-rounded-divide-sqrt";
    }
    for define in launch.kernel.defines {
        options += &format!(" -D{define}");
    }
    for (name, value) in launch.kernel.spec.iter().zip(&launch.spec) {
        options += &format!(" -D{name}={value}");
    }
    options
}

fn build(shared: &Shared, launch: &Dispatch, options: &str) -> Result<Program> {
    let text = [PRELUDE_CL, ARITHMETIC, launch.kernel.text].concat();
    let full_name = launch.kernel.full_name();
    let program = Program::create_from_source(&shared.context, &text);
    let mut program = program.map_err(|e| failed(&format!("program of kernel `{full_name}`"), e))?;
    let device = shared.found.device.id();
    program.build(&[device], options).map_err(|e| {
        let log = program.get_build_log(device).unwrap_or_default();
        let what = format!("kernel `{full_name}` ({options}) does not build: {e} ({})\n{}", e.0, log.trim());
        Error::failed(Status::Internal, what)
    })?;
    Ok(program)
}
