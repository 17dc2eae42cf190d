//! The verbs: one file each, one line of registration.

use crate::args::Global;
use crate::failure::Result;
use crate::files::{MAX_SETTINGS, check_regular};
use crate::ui::{Answer, Ui};
use ottava::{Config, Model, Registry, RequantMode};
use ottava_driver_opencl::OpenCLDriver;
use ottava_driver_vulkan::VulkanDriver;
use std::path::Path;
use std::sync::Arc;

mod bench;
mod calibrate;
mod compile;
mod completions;
mod conformance;
mod demo;
mod devices;
mod eval;
mod explain;
mod inspect;
mod man;
mod new_driver;
mod quantize;
mod run;
mod simulate;
mod tune;
mod validate;
mod vectors;
mod worker;

/// The table of verbs: the command line and the dispatch follow from it.
macro_rules! verbs {
    ($($variant:ident => $module:ident),* $(,)?) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub enum Verb { $(#[allow(missing_docs)] $variant($module::Args)),* }

        impl Verb {
            /// Does it.
            pub fn run(&self, cx: &Context) -> Result<Answer> {
                match self { $(Self::$variant(args) => $module::run(args, cx)),* }
            }
        }
    };
}

verbs! {
    Devices => devices,
    Inspect => inspect,
    Calibrate => calibrate,
    Quantize => quantize,
    Compile => compile,
    Explain => explain,
    Run => run,
    Eval => eval,
    Bench => bench,
    Validate => validate,
    Vectors => vectors,
    Simulate => simulate,
    Conformance => conformance,
    NewDriver => new_driver,
    Demo => demo,
    Completions => completions,
    Man => man,
}

impl Verb {
    /// Whether the libraries of the configuration are loaded into this process.
    pub fn loads_libraries(&self) -> bool {
        match self {
            Self::Conformance(args) => args.loads_libraries(),
            _ => true,
        }
    }

    /// Whether the process has a log of its own. A case of the conformance suite has not: some listen to the driver's.
    pub fn has_log(&self) -> bool {
        !matches!(self, Self::Conformance(args) if args.is_case())
    }
}

/// What every verb gets: drivers with the configuration, and the terminal.
pub struct Context {
    /// Drivers and configuration.
    pub registry: Registry,
    /// The mode of a TFLite model's integers, if one was asked for.
    pub requant: Option<RequantMode>,
    /// The terminal.
    pub ui: Ui,
}

/// The configuration that is read when none is named.
const DEFAULT_CONFIG: &str = "ottava.ron";

/// Reads a configuration; a pipe or a device, which may never end, is none.
fn settings(path: &Path) -> Result<Config> {
    check_regular(path, MAX_SETTINGS, ottava::codes::CONFIG)?;
    Ok(Config::load(path)?)
}

impl Context {
    /// Reads the configuration and links the built-in drivers; loads the libraries if `with_libraries`.
    pub fn new(global: &Global, with_libraries: bool) -> Result<Self> {
        let config = match &global.config {
            Some(path) => settings(path)?,
            None if Path::new(DEFAULT_CONFIG).is_file() => settings(Path::new(DEFAULT_CONFIG))?,
            None => Config::default(),
        };
        let requant = global.requant.or(config.force_requantize);
        // What the command line says replaces what the file says; other models of the verb keep their modes.
        let forced = config.force_requantize.filter(|_| global.requant.is_none());
        let config = Config { force_requantize: forced, ..config };
        let (cpu, npu) = (Arc::new(ottava_driver_cpu::CpuDriver), Arc::new(ottava_driver_npu::NpuDriver::new()));
        let (vulkan, opencl) = (VulkanDriver::new(), OpenCLDriver::new());
        let built_in = Registry::new().with(cpu).with(npu).with(Arc::new(vulkan)).with(Arc::new(opencl));
        let registry = built_in.configured(config);
        let registry = if with_libraries { registry.load_libraries() } else { registry };
        let ui = Ui { json: global.json, quiet: global.quiet, verbose: global.verbose > 0 };
        Ok(Self { registry, requant, ui })
    }

    /// Reads a model, in the mode that was asked for.
    pub fn load(&self, path: &Path) -> Result<Model> {
        Ok(Model::load_as(path, self.requant)?)
    }
}
