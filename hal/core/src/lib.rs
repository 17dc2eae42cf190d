//! `ottava-hal`: the driver contract, and the one arithmetic that every driver answers to.
//!
//! This crate is the vocabulary of the whole project and depends on nothing of ours. A newcomer reads it in this order:
//!
//! 1. words: [`DataType`], [`Shape`], [`QuantParams`], [`TensorType`], [`Tensor`];
//! 2. [`program`]: what a device is asked to run: a flat list of typed operators;
//! 3. [`refmath`]: what each number means (rounding, saturation, requantization, non-linearities), defined once;
//! 4. [`device`]: the object-safe traits a driver implements: [`Driver`], [`Device`], [`Executable`], [`Buffer`],
//!    [`Queue`], [`Fence`]; and [`capability`]: how a device says what it can do;
//! 5. [`wire`]: programs as bytes;
//! 6. [`host`]: ready-made buffers, fences and a queue for devices whose memory is the host's memory.
//!
//! Contract in one paragraph: the caller validates programs and shapes before they reach a driver; a driver reports
//! what the caller could not know (no memory, device lost, a limit) as [`Error`]. Fences are timelines: a fence at value
//! `n` means "everything up to `n` has happened"; failure travels along the timeline. Quantization is part of a
//! tensor's type, so a driver never searches for quantize/dequantize pairs.
//!
//! Invariant: no `unsafe`, no dynamic loading, no file access in this crate.

pub mod attrs;
pub mod capability;
pub mod device;
mod dtype;
pub mod element;
mod error;
pub mod fault;
pub mod fence;
pub mod host;
mod layout;
pub mod program;
mod quant;
pub mod refmath;
mod shape;
mod tensor;
pub mod wire;

pub use attrs::{Attr, Attrs};
pub use capability::{Capability, Confidence, Cost, OpRow, Reason, Verdict};
pub use device::{
    Binding, BlobKey, BlobVerdict, Buffer, BufferDesc, Command, CompileOptions, Device, DeviceInfo, DeviceKind, Driver,
    DriverInfo, Executable, OptionSpec, Options, Queue, Submission,
};
pub use dtype::DataType;
pub use element::Element;
pub use error::{Error, Result, Status};
pub use fence::{Fence, Notify};
pub use layout::Layout;
pub use program::{Fused, Node, Program, Value, ValueId};
pub use quant::{QuantParams, Scheme};
pub use refmath::requant::RequantMode;
pub use shape::{Dim, Shape};
pub use tensor::{SharedBytes, Tensor, TensorType};
