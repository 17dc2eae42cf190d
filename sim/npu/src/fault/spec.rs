//! The entries of a configuration's `fault` list, read.

use crate::config::{FaultSpec, NpuConfig};
use crate::isa::{Queue, Region, Space};
use crate::suggest::{excerpt, hint};

/// Which memory a bit flips in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// On chip.
    Local(Space),
    /// In DRAM.
    Dram(Region),
    /// The command words.
    Command,
}

/// What happens to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dma {
    /// It moves nothing.
    Drop,
    /// It is late; the seed says by how much.
    Delay,
    /// It moves only its first rows or bytes.
    Truncate,
}

/// A counter of tokens, by the queue that gives and the neighbour that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who gives.
    pub from: Queue,
    /// Who takes.
    pub to: Queue,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One bit changes.
    BitFlip(Site),
    /// A transfer of a queue.
    Dma(Dma, Queue),
    /// A token does not arrive.
    TokenLost(Link),
    /// A counter always has a token.
    TokenStuck(Link),
    /// A signal does not arrive.
    EventLost,
    /// A table of the requantizer changes.
    TableCorrupt,
    /// The device is gone.
    DeviceLost,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// What goes wrong.
    pub kind: Kind,
    /// From which cycle on.
    pub when: u64,
    /// Chooses what is left open.
    pub seed: u64,
}

/// The names of the kinds.
const KINDS: [&str; 9] = [
    "bit_flip",
    "dma_drop",
    "dma_delay",
    "dma_truncate",
    "token_lost",
    "token_stuck",
    "event_lost",
    "table_corrupt",
    "device_lost",
];

impl Injection {
    /// Reads an entry; the error says what is wrong and what is allowed.
    pub fn read(spec: &FaultSpec) -> Result<Self, (String, String)> {
        let FaultSpec(kind, place, when, seed) = spec;
        let kind = match kind.as_str() {
            "bit_flip" => Kind::BitFlip(site(place)?),
            "dma_drop" => Kind::Dma(Dma::Drop, transfers(place)?),
            "dma_delay" => Kind::Dma(Dma::Delay, transfers(place)?),
            "dma_truncate" => Kind::Dma(Dma::Truncate, transfers(place)?),
            "token_lost" => Kind::TokenLost(link(place)?),
            "token_stuck" => Kind::TokenStuck(link(place)?),
            "event_lost" => anywhere(place, Kind::EventLost)?,
            "table_corrupt" => anywhere(place, Kind::TableCorrupt)?,
            "device_lost" => anywhere(place, Kind::DeviceLost)?,
            other => return Err((format!("unknown fault \"{}\"", excerpt(other)), hint(other, KINDS))),
        };
        Ok(Self { kind, when: *when, seed: *seed })
    }

    /// The entries of a checked configuration.
    pub fn all(config: &NpuConfig) -> Vec<Self> {
        config.fault.iter().filter_map(|spec| Self::read(spec).ok()).collect()
    }
}

fn wrong<T>(place: &str, expected: &str) -> Result<T, (String, String)> {
    Err((format!("unknown place \"{}\" of a fault", excerpt(place)), format!("use {expected}")))
}

fn site(place: &str) -> Result<Site, (String, String)> {
    Ok(match place {
        "a" => Site::Local(Space::A),
        "w" => Site::Local(Space::W),
        "acc" => Site::Local(Space::Acc),
        "in" => Site::Dram(Region::Input),
        "out" => Site::Dram(Region::Output),
        "scratch" => Site::Dram(Region::Scratch),
        "const" => Site::Dram(Region::Const),
        "command" => Site::Command,
        _ => return wrong(place, "a, w, acc, in, out, scratch, const or command"),
    })
}

fn transfers(place: &str) -> Result<Queue, (String, String)> {
    match place {
        "ld" => Ok(Queue::Ld),
        "st" => Ok(Queue::St),
        _ => wrong(place, "ld or st"),
    }
}

fn link(place: &str) -> Result<Link, (String, String)> {
    let queue = |name: &str| Queue::ALL.into_iter().find(|q| q.name() == name);
    let ends = place.split_once("->").and_then(|(from, to)| Some((queue(from)?, queue(to)?)));
    match ends {
        Some((from, to)) if from.index().abs_diff(to.index()) == 1 => Ok(Link { from, to }),
        _ => wrong(place, "two neighbours, such as ld->ex or st->vec"),
    }
}

fn anywhere(place: &str, kind: Kind) -> Result<Kind, (String, String)> {
    if matches!(place, "any" | "") { Ok(kind) } else { wrong(place, "any") }
}
