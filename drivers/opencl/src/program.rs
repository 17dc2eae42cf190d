//! Programs: the text of a kernel with its macros, built once per variant, or loaded from the cache.

use crate::cache::{self, Cache};
use crate::options::Settings;
use crate::probe::Found;
use crate::shared::Shared;
use crate::status::failed;
use opencl3::kernel::Kernel;
use opencl3::program::Program;
use ottava_gpu::{ARITHMETIC, Dispatch, PRELUDE_CL};
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Options of every build. Nothing that weakens the arithmetic is among them.
const STANDARD: &str = "-cl-std=CL1.2";

/// The programs of a device, by the kernel's name and the options.
pub(crate) struct Programs {
    ready: Mutex<BTreeMap<(&'static str, String), Arc<Program>>>,
    cache: Option<Cache>,
    /// Device and driver, for keys of the cache.
    made_for: String,
    builds: AtomicU64,
}

impl Programs {
    /// No program yet.
    pub(crate) fn new(found: &Found, settings: &Settings) -> Self {
        let t = &found.traits;
        Self {
            ready: Mutex::default(),
            cache: settings.cache.as_deref().map(Cache::new),
            made_for: [&t.platform, &t.vendor, &t.name, &t.version, &t.driver].map(String::as_str).join("\n"),
            builds: AtomicU64::new(0),
        }
    }

    /// What programs are for: platform, device, driver and their versions.
    pub(crate) fn made_for(&self) -> &str {
        &self.made_for
    }

    /// How many programs were built from their text.
    pub(crate) fn builds(&self) -> u64 {
        self.builds.load(Ordering::Relaxed)
    }

    /// The kernel of a launch, as an object of its own: arguments belong to it.
    pub(crate) fn kernel(&self, shared: &Shared, launch: &Dispatch) -> Result<Kernel> {
        let key = (launch.kernel.name, options(shared, launch));
        let ready = self.ready.lock().get(&key).cloned();
        let program = match ready {
            Some(program) => program,
            None => {
                let program = Arc::new(self.make(shared, launch, &key.1)?);
                self.ready.lock().insert(key, Arc::clone(&program));
                program
            }
        };
        let name = launch.kernel.name;
        Kernel::create(&program, name).map_err(|e| failed(&format!("kernel `{name}`"), e))
    }

    fn make(&self, shared: &Shared, launch: &Dispatch, options: &str) -> Result<Program> {
        let text = [PRELUDE_CL, ARITHMETIC, launch.kernel.text].concat();
        let Some(cache) = &self.cache else { return self.build(shared, launch, options, &text) };
        let key = cache::key(&[&self.made_for, options, &text]);
        if let Some(program) = cache.load(&key).and_then(|binary| load(shared, &binary, options)) {
            return Ok(program);
        }
        let program = self.build(shared, launch, options, &text)?;
        match program.get_binaries() {
            Ok(binaries) => binaries.first().filter(|b| !b.is_empty()).into_iter().for_each(|b| cache.store(&key, b)),
            Err(e) => tracing::warn!(code = e.0, "the binary of an OpenCL program cannot be had"),
        }
        Ok(program)
    }

    fn build(&self, shared: &Shared, launch: &Dispatch, options: &str, text: &str) -> Result<Program> {
        self.builds.fetch_add(1, Ordering::Relaxed);
        let full_name = launch.kernel.full_name();
        let program = Program::create_from_source(&shared.context, text);
        let mut program = program.map_err(|e| failed(&format!("program of kernel `{full_name}`"), e))?;
        let device = shared.found.device.id();
        program.build(&[device], options).map_err(|e| {
            let log = program.get_build_log(device).unwrap_or_default();
            let what = format!("kernel `{full_name}` ({options}) does not build: {e} ({})\n{}", e.0, log.trim());
            Error::failed(Status::Internal, what)
        })?;
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

/// A program of a kept binary; `None` if the implementation does not take it any more.
fn load(shared: &Shared, binary: &[u8], options: &str) -> Option<Program> {
    let device = shared.found.device.id();
    // SAFETY: the device is the context's; the bytes are read during the call. They are those that the implementation
    // gave for this device, version and text, as their hash says.
    let program = unsafe { Program::create_from_binary(&shared.context, &[device], &[binary]) };
    let built = program.and_then(|mut program| {
        program.build(&[device], options)?;
        Ok(program)
    });
    built.map_err(|e| tracing::warn!(code = e.0, "a kept OpenCL program is not taken any more")).ok()
}
