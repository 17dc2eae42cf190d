//! `ottava`: the application's side of Ottava. Load a network, quantize it, run it on the devices that are there.
//!
//! ```
//! use ottava::{Data, Model, QuantizeOptions, Registry, Session, SessionOptions, Source};
//! # fn main() -> Result<(), ottava::Error> {
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/assets");
//! // The drivers of this process; the reference interpreter is always there.
//! let registry = Registry::new().with(std::sync::Arc::new(ottava_driver_cpu::CpuDriver));
//!
//! // A float network, and images to calibrate it with.
//! let model = Model::load(format!("{folder}/digits.onnx"))?;
//! let images = Data::load(format!("{folder}/digits_calib.npz"), None)?;
//!
//! // 8-bit integers: an ordinary quantized ONNX file that other runtimes load too.
//! let source = Source::Data { data: &images, affine: None };
//! let quantized = model.quantize(source, &registry, &QuantizeOptions::default(), &mut |_, _| {})?;
//! assert!(quantized.bytes.len() < model.size_bytes as usize / 2);
//!
//! // Run one image.
//! let session = Session::new(&quantized.model, &registry, &SessionOptions::default())?;
//! let image = ottava::Tensor::from_slice(&[1, 1, 8, 8], &[8.0f32; 64])?;
//! let outputs = session.run(&[("image", image)])?;
//! assert_eq!(outputs["probs"].shape(), [1, 10]);
//!
//! // What ran where, and why.
//! for partition in &session.report().partitions {
//!     println!("{}: {} nodes", partition.device, partition.nodes);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Config`] | the application's RON file |
//! | [`Registry`] | drivers that are present, with the configuration |
//! | [`Model`] | a network as read from a file |
//! | [`Data`] | arrays or images that feed it |
//! | [`Session`] | a network compiled for devices; `Send + Sync` |
//! | [`Sessions`] | the same for inputs of any size: a session per size, compiled when first needed |
//! | [`Report`] | what runs where, and why |
//!
//! Tasks over data are functions: [`calibrate`], [`Model::quantize`], [`evaluate`], [`validate`], [`vectors::run_case`];
//! [`tune`] measures a model on this machine.
//! Every error is an [`Error`]: what, where, found, expected, what to do.
//!
//! The facade knows no driver; the application links the drivers that it wants and hands them to the registry.

mod batches;
mod calibrate;
mod capabilities;
mod channels_last;
mod compact;
mod compiled;
mod config;
mod data;
mod error;
mod evaluate;
mod memory;
mod metrics;
mod mixed;
mod model;
mod observed;
mod probe;
mod quantize;
mod registry;
mod report;
mod ron_text;
mod session;
mod session_state;
mod sessions;
mod shards;
mod shared_values;
mod storage;
mod suggest;
mod tuning;
mod validation;
pub mod vectors;

pub use batches::{BatchOutput, Batches, Progress};
pub use calibrate::{CalibrateOptions, Shard, calibrate};
pub use compiled::{Compiled, GraphText, Saved, compile, graph_text};
pub use config::{Config, DeviceEntry, DriverEntry, Fallback, Objective, Placement, Policy, Rule};
pub use data::{Affine, Data, Feed, convert, load_npy, read_folder, save_npy, save_npz};
pub use error::{Detail, Error, Place, Result, codes};
pub use evaluate::{EvaluateOptions, Evaluation, Metric, evaluate};
pub use memory::DeviceMemory;
pub use metrics::{Sums, argmax, in_top_k};
pub use mixed::{Exception, MixedPrecision};
pub use model::{Model, Summary};
pub use ottava_compiler::{PassReport, passes::Effect};
pub use ottava_graph::{Diagnostic, Phase, Severity};
pub use ottava_hal::{
    Attrs, DataType, Device, DeviceInfo, Dim, Driver, DriverInfo, Error as HalError, Node, RequantMode, Shape, Tensor,
    TensorType, ValueId, device::NodeTime,
};
pub use ottava_plan::{Arena, Opinion, Partition, Placed, Plan};
pub use ottava_quantize::apply::ValueParams;
pub use ottava_quantize::observers::{METHODS, Observer, method};
pub use ottava_quantize::recipe::{Granularity, Preprocess, Recipe};
pub use ottava_quantize::search::Precision;
pub use ottava_quantize::{Calibration, Report as QuantizeReport};
pub use ottava_runtime::{
    Event, PartitionTime, Pending, Recovery, RunOptions, RunReport, StepKind, StepTime, busy_ns, chrome_trace,
    overlap_ratio,
};
pub use ottava_validate::{Layer, page};
pub use quantize::{QuantizeOptions, QuantizedModel, Source, load_recipe};
pub use registry::{DeviceOptions, DriverReport, NamedDevice, OpenDevice, REFERENCE, Refused, Registry};
pub use report::{PartitionReport, Report, node_macs};
pub use ron_text::parse as parse_ron;
pub use session::{Session, SessionOptions};
pub use sessions::Sessions;
pub use shards::{load_calibration, merge_calibrations};
pub use suggest::{hint, nearest};
pub use tuning::{
    DeviceKey, Machine, ModelKey, Timing, TuneOptions, TunedDevice, TunedNodes, Tuning, TuningReport, TuningState,
    Variant, tune,
};
pub use validation::{ValidateOptions, Validation, validate};

impl From<ottava_hal::Error> for Error {
    /// An error of a tensor that the application makes.
    fn from(e: ottava_hal::Error) -> Self {
        Self::invalid(codes::DATA_SHAPE, e.to_string())
    }
}
