//! What a step reads and writes: the footprint that hazards, bounds and byte counters are computed from.

use super::{DramTile, Im2col, Step, Tile, Work};

/// A rectangle in one of the memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On chip.
    Local(Tile),
    /// In DRAM.
    Dram(DramTile),
}

/// One access of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it is, for messages.
    pub what: &'static str,
    /// Where.
    pub place: Place,
    /// Whether it writes; an accumulating write is a read and a write.
    pub write: bool,
}

fn read(what: &'static str, tile: Tile) -> Access {
    Access { what, place: Place::Local(tile), write: false }
}

fn write(what: &'static str, tile: Tile) -> Access {
    Access { what, place: Place::Local(tile), write: true }
}

impl Step {
    /// Every access, reads before writes.
    pub fn accesses(&self) -> Vec<Access> {
        let outer = |what, tile: DramTile, write| {
            let place = tile.local().map_or(Place::Dram(tile), Place::Local);
            Access { what, place, write }
        };
        let mut list = match &self.work {
            Work::Nop | Work::Irq | Work::Wait(_) | Work::Signal(_) | Work::Preload => vec![],
            Work::Load { from, to, .. } => vec![outer("the load", *from, false), write("the load", *to)],
            Work::Im2col(w) => vec![outer("the image", w.footprint(), false), write("the rows of taps", w.to)],
            Work::Store { from, to, .. } => vec![read("the store", *from), outer("the store", *to, true)],
            Work::Gemm(g) => {
                vec![read("the rows", g.a), read("the preloaded operand", g.w.tile), write("the accumulators", g.acc)]
            }
            Work::Dwconv(d) => {
                vec![read("the image", d.image), read("the weights", d.weights), write("the accumulators", d.acc)]
            }
            Work::Residual { from, other, to, .. } => {
                vec![read("the accumulators", *from), read("the second operand", other.0), write("the output", *to)]
            }
            Work::Requant { from, to, .. } => vec![read("the accumulators", *from), write("the output", *to)],
            Work::Binary(b) => {
                vec![read("the first operand", b.a.0), read("the second operand", b.b.0), write("the output", b.out)]
            }
            Work::Unary { from, to, .. } | Work::Xpose { from, to, .. } => {
                vec![read("the operand", *from), write("the output", *to)]
            }
            Work::Shift { from, to, .. } => vec![read("the accumulators", *from), write("the accumulators", *to)],
            Work::Redsum { from, to, .. } => vec![read("the operand", *from), write("the accumulators", *to)],
            Work::Redmax { from, to, .. } => vec![read("the operand", *from), write("the output", *to)],
            Work::Pool(p) => vec![read("the image", p.image), write("the output", p.to)],
        };
        if let Some((what, table)) = self.table() {
            list.insert(0, read(what, table));
        }
        if let Some(acc) = self.accumulates_on() {
            list.insert(0, read("the accumulators", acc));
        }
        list
    }

    /// The table a step reads, and its name.
    pub fn table(&self) -> Option<(&'static str, Tile)> {
        use super::Unary;
        match &self.work {
            Work::Store { requant: Some(r), .. }
            | Work::Requant { requant: r, .. }
            | Work::Residual { requant: r, .. } => Some(("the requantizer's table", r.table)),
            Work::Unary { op: Unary::Lut8 { table } | Unary::Lut16 { table }, .. } => {
                Some(("the lookup table", *table))
            }
            Work::Unary { op: Unary::Softmax { table, .. }, .. } => Some(("the exponential table", *table)),
            _ => None,
        }
    }

    /// The accumulators that a step adds to.
    pub fn accumulates_on(&self) -> Option<Tile> {
        match &self.work {
            Work::Load { to, accumulate: true, .. } | Work::Redsum { to, accumulate: true, .. } => Some(*to),
            Work::Gemm(g) if g.accumulate => Some(g.acc),
            Work::Dwconv(d) if d.accumulate => Some(d.acc),
            _ => None,
        }
    }
}

impl Im2col {
    /// The image rows under the windows of all output pixels: whole rows of pixels, or whole images if there are several.
    pub(crate) fn footprint(&self) -> DramTile {
        let w = &self.window;
        let (pixels, image) = (w.pixels_out(), u64::from(w.ih) * u64::from(w.iw));
        let (first, last) = (u64::from(self.first), u64::from(self.first) + u64::from(self.to.rows) - 1);
        let (n, last_n) = (first / pixels, last / pixels);
        let (skip, count) = if n == last_n {
            let row = |m: u64| ((m % pixels) / u64::from(w.ow)) as i64 * i64::from(w.sh) - i64::from(w.pt);
            let bottom = i64::from(w.ih) - 1;
            let reach = i64::from(w.kh - 1) * i64::from(w.dh);
            let (top, end) = (row(first).clamp(0, bottom), (row(last) + reach).clamp(0, bottom));
            (n * image + top as u64 * u64::from(w.iw), (end - top + 1) as u64 * u64::from(w.iw))
        } else {
            (n * image, (last_n - n + 1) * image)
        };
        // A part of `image`, whose pixel count fits u32.
        DramTile { offset: self.image.start(skip), rows: count as u32, ..self.image }
    }
}
