//! What a driver says of itself, as data for reports: who it is, its device, what it claims to run.

use crate::Subject;
use ottava_hal::capability::OpRow;
use ottava_hal::{Device, DeviceKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Who a driver and its device are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The driver's name.
    pub driver: String,
    /// Who makes it.
    pub vendor: String,
    /// Its version.
    pub version: String,
    /// Version of its kit and the door that was taken; empty for a driver that is linked in.
    pub abi: String,
    /// The device's id.
    pub device: String,
    /// Its name for people.
    pub device_name: String,
    /// Its kind: `npu`.
    pub kind: String,
    /// Instruction set or hardware revision.
    pub isa: String,
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Whether it works inside of submissions.
    pub sync_only: bool,
    /// Whether it is a simulator.
    pub simulated: bool,
    /// The options with which it is opened, `key=value`.
    pub options: Vec<String>,
}

impl Facts {
    /// The facts of a driver's device; an error in words if it has none.
    pub(crate) fn of(subject: &Subject) -> Result<Self, String> {
        let driver = subject.driver.info();
        let devices = subject.driver.devices().map_err(|e| format!("the devices cannot be listed: {e}"))?;
        let device = devices.into_iter().find(|d| d.id == subject.device);
        let device =
            device.ok_or_else(|| format!("the driver `{}` has no device `{}`", driver.name, subject.device))?;
        Ok(Self {
            driver: driver.name,
            vendor: driver.vendor,
            version: driver.version,
            abi: subject.abi.clone(),
            device: device.id,
            device_name: device.name,
            kind: DeviceKind::name(device.kind).to_owned(),
            isa: device.isa,
            memory_bytes: device.memory_bytes,
            sync_only: device.sync_only,
            simulated: device.simulated,
            options: subject.options.iter().map(|(k, v)| format!("{k}={v}")).collect(),
        })
    }
}

/// One operator with one element type that a device claims to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Coverage {
    /// Operator, with its domain where that is not ONNX's.
    pub op: String,
    /// Element type of the first input, `any` where the row does not say.
    pub dtype: String,
    /// Requantization modes.
    pub modes: Vec<String>,
    /// Integer results equal the reference bit for bit.
    pub exact: bool,
}

impl Coverage {
    /// What the device claims, sorted.
    pub(crate) fn of(device: &dyn Device) -> Vec<Self> {
        Self::of_rows(&device.capability().rows)
    }

    fn of_rows(rows: &[OpRow]) -> Vec<Self> {
        let mut all: Vec<Self> = rows.iter().flat_map(Self::of_row).collect();
        all.sort();
        let mut joined: Vec<Self> = Vec::new();
        for one in all {
            match joined.last_mut().filter(|last| (&last.op, &last.dtype) == (&one.op, &one.dtype)) {
                Some(last) => last.join(one),
                None => joined.push(one),
            }
        }
        joined
    }

    fn of_row(row: &OpRow) -> Vec<Self> {
        let op = if row.domain.is_empty() { row.op.to_string() } else { format!("{}::{}", row.domain, row.op) };
        let modes: BTreeSet<String> = row.requant.iter().map(|m| m.name().to_owned()).collect();
        let one = |dtype: &str, is_float: bool| Self {
            op: op.clone(),
            dtype: dtype.to_owned(),
            // Floats are not rescaled.
            modes: modes.iter().filter(|_| !is_float).cloned().collect(),
            exact: row.exact,
        };
        let dtypes = row.inputs.first().map_or(&[][..], |operand| &operand.dtypes);
        if dtypes.is_empty() {
            return vec![one("any", false)];
        }
        dtypes.iter().map(|t| one(t.name(), t.is_float())).collect()
    }

    /// Rows are alternatives: what one of them runs, the device runs.
    fn join(&mut self, other: Self) {
        let modes: BTreeSet<String> = self.modes.drain(..).chain(other.modes).collect();
        self.modes = modes.into_iter().collect();
        self.exact &= other.exact;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::RequantMode;

    #[test]
    fn rows_of_one_operator_and_type_are_one_line() {
        let row = |mode| OpRow { requant: vec![mode], ..OpRow::any("Conv") };
        let rows = [row(RequantMode::Q31Single), row(RequantMode::Fp32Rne), OpRow::any("Add")];
        let found = Coverage::of_rows(&rows);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].op.as_str(), found[1].dtype.as_str(), found[1].modes.len()), ("Conv", "any", 2));
    }
}
