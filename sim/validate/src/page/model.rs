//! What a report page says, as plain data. A list that is empty has no section on the page.

/// One report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Headline, and the title of the window.
    pub title: String,
    /// What was run: model, devices, data.
    pub subtitle: String,
    /// What was found out, the most important first.
    pub verdicts: Vec<Verdict>,
    /// Numbers to read first.
    pub figures: Vec<Figure>,
    /// Accuracy, one row per network and placement.
    pub accuracy: Vec<Accuracy>,
    /// The network cut into runs of nodes on one device, in execution order.
    pub partitions: Vec<PartitionRow>,
    /// Every node: where it runs and why, in execution order.
    pub placement: Vec<PlacedNode>,
    /// One track per device.
    pub timeline: Vec<Track>,
    /// Error of each value against the float network, in execution order.
    pub layers: Vec<LayerError>,
    /// Cycles of each layer on a simulated device, in execution order.
    pub npu: Vec<NpuLayer>,
    /// What limits a simulated chip.
    pub roofline: Option<Roof>,
    /// Where the cycles of each layer went on it, in execution order.
    pub cycles: Vec<ChipLayer>,
    /// Configurations of a chip that were compared.
    pub sweep: Vec<SweepPoint>,
    /// What a quantizer made of each node, in the graph's order.
    pub precision: Vec<NodePrecision>,
    /// The range of each quantized tensor.
    pub ranges: Vec<TensorRange>,
    /// The recipe of the quantization.
    pub recipe: String,
    /// Tables of the caller's own, in front of all others.
    pub sections: Vec<Section>,
    /// How the figures were made; what to keep in mind.
    pub notes: Vec<String>,
}

/// A part of the page that is a plain table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// Its headline.
    pub title: String,
    /// A sentence in front of the table; may be empty.
    pub lead: String,
    /// Its columns; none if the sentence is all.
    pub columns: Vec<SectionColumn>,
    /// Its rows, as many cells as columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a plain table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SectionColumn {
    /// Its name.
    pub name: String,
    /// Whether it is sorted as numbers.
    pub is_number: bool,
}

/// A cell of a plain table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// How it is meant.
    pub mark: Mark,
    /// A file beside the page.
    pub link: Option<String>,
}

/// How a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// Neither.
    #[default]
    None,
    /// As it should be.
    Good,
    /// To be minded.
    Warning,
    /// Wrong.
    Bad,
    /// Less important.
    Soft,
}

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Holds.
    #[default]
    Good,
    /// Holds, with a reservation.
    Warning,
    /// Does not hold.
    Bad,
    /// Neither.
    Info,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// How it is meant.
    pub status: Status,
    /// One sentence.
    pub text: String,
}

/// A number with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figure {
    /// What it is.
    pub label: String,
    /// The number with its unit, as it is to be read.
    pub value: String,
    /// A remark below it; may be empty.
    pub note: String,
}

/// Accuracy of one network on one placement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accuracy {
    /// The network and where it ran.
    pub name: String,
    /// Name of the metric.
    pub metric: String,
    /// Its value; a fraction is shown as percentage if [`Self::is_share`].
    pub value: f64,
    /// Whether the value is a fraction of 0 to 1.
    pub is_share: bool,
    /// Samples.
    pub samples: usize,
}

/// Nodes that follow each other on one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionRow {
    /// Id of the device.
    pub device: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Conversions on the way in, one text each.
    pub bridges: Vec<String>,
}

/// A node and its device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedNode {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Id of the device that runs it.
    pub device: String,
    /// Why it runs there.
    pub reason: String,
    /// Estimated time; `None` if the device gave none.
    pub cost_ns: Option<u64>,
}

/// What one device did, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Track {
    /// Id of the device.
    pub device: String,
    /// Its work, in any order; spans that overlap are drawn below each other.
    pub spans: Vec<Span>,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// What was done.
    pub name: String,
    /// Start, from any common origin.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What kind of work it was.
    pub kind: SpanKind,
}

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SpanKind {
    /// Nodes of the network.
    #[default]
    Compute,
    /// A conversion between devices.
    Bridge,
    /// A copy between memories.
    Transfer,
    /// Waiting for others.
    Wait,
}

/// The error of one value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayerError {
    /// Name of the value.
    pub name: String,
    /// Id of the device that computed it.
    pub device: String,
    /// Signal-to-noise ratio, decibel; infinite where both networks are equal.
    pub sqnr_db: f64,
    /// Cosine of the angle between both.
    pub cosine: f64,
    /// Largest absolute difference.
    pub max_abs: f64,
}

/// A layer on a simulated device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NpuLayer {
    /// Name of the layer.
    pub layer: String,
    /// Cycles of the array clock.
    pub cycles: u64,
    /// Share of the array's cycles that did work, 0 to 1.
    pub utilization: f64,
}

/// What a chip can do at best.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Roof {
    /// The chip, in a few words.
    pub chip: String,
    /// Multiply-accumulates per cycle of its array.
    pub macs_per_cycle: f64,
    /// Multiply-accumulates per cycle of its vector unit.
    pub vector_macs_per_cycle: f64,
    /// Bytes of memory per cycle.
    pub bytes_per_cycle: f64,
}

/// Where the cycles of a layer went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChipLayer {
    /// Name of the layer.
    pub name: String,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Bytes over the memory bus.
    pub bytes: u64,
    /// Whether the vector unit multiplies, not the array.
    pub on_vector_unit: bool,
    /// Cycles of work.
    pub busy: u64,
    /// The other cycles by reason.
    pub stalls: Vec<(String, u64)>,
}

/// One configuration of a sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SweepPoint {
    /// Its values.
    pub name: String,
    /// Cycles.
    pub cycles: u64,
    /// Bytes of on-chip memory.
    pub sram_bytes: u64,
    /// Bytes over the memory bus.
    pub dram_bytes: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Multiply-accumulates per cycle that array and memory of this configuration allow for this workload.
    pub roof: Option<f64>,
    /// Picojoules, if there is a table of energies.
    pub energy_pj: Option<f64>,
    /// Whether no other point beats it.
    pub on_front: bool,
    /// Why it has no figures; empty if it has.
    pub reason: String,
}

/// The precision of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePrecision {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// `float`, or the type of its integers.
    pub precision: String,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Why it is not quantized; may be empty.
    pub reason: String,
}

/// The range of a quantized tensor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TensorRange {
    /// Name of the tensor.
    pub name: String,
    /// Type of its integers.
    pub dtype: String,
    /// Its scale.
    pub scale: f64,
    /// Its zero point.
    pub zero_point: i64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// How the range was chosen.
    pub observer: String,
}
