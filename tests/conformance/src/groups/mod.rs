//! The table of groups: one file per group, one line each.

mod alloc;
mod before_signal;
mod blob_check_only;
mod blob_reject;
mod blob_roundtrip;
mod compile_basic;
mod compile_concurrent;
mod compile_invalid;
mod cost;
mod cross_device;
mod enumerate;
mod exec_async;
mod exec_deadline;
mod exec_dynamic;
mod exec_fairness;
mod exec_rebind;
mod exec_sync;
mod exec_validate;
mod failure;
mod fence_threads;
mod honest;
mod import;
mod info;
mod load_layout;
mod load_manifest;
mod load_required;
mod load_symbol;
mod load_twice;
mod load_version;
mod log;
mod lost;
mod map;
mod multi;
mod numerics;
mod oom;
mod op_table;
mod open_close;
mod oracle;
mod panic;
mod process;
mod profile_times;
mod reasons;
mod requirements;
mod stress;
mod timeline;
mod transfer;

use crate::{Case, Subject};

/// A group of cases that check one part of the contract.
pub struct Group {
    /// Its id, `B.3`.
    pub id: &'static str,
    /// The first part of its cases' names, `dev.open_close`.
    pub name: &'static str,
    /// What it checks, in a sentence.
    pub about: &'static str,
    /// Its cases for a driver; most groups have the same for all.
    pub cases: fn(&Subject) -> Vec<Case>,
}

/// Every group, in the order in which they run.
pub static GROUPS: &[Group] = &[
    load_symbol::GROUP,
    load_manifest::GROUP,
    load_version::GROUP,
    load_layout::GROUP,
    load_required::GROUP,
    load_twice::GROUP,
    enumerate::GROUP,
    info::GROUP,
    open_close::GROUP,
    multi::GROUP,
    alloc::GROUP,
    map::GROUP,
    transfer::GROUP,
    import::GROUP,
    requirements::GROUP,
    timeline::GROUP,
    before_signal::GROUP,
    failure::GROUP,
    cross_device::GROUP,
    fence_threads::GROUP,
    op_table::GROUP,
    honest::GROUP,
    reasons::GROUP,
    cost::GROUP,
    compile_basic::GROUP,
    compile_invalid::GROUP,
    compile_concurrent::GROUP,
    blob_roundtrip::GROUP,
    blob_reject::GROUP,
    blob_check_only::GROUP,
    exec_sync::GROUP,
    exec_async::GROUP,
    exec_rebind::GROUP,
    exec_validate::GROUP,
    exec_dynamic::GROUP,
    exec_deadline::GROUP,
    exec_fairness::GROUP,
    numerics::OPS,
    numerics::SATURATION,
    numerics::ROUNDING,
    numerics::PADDING,
    numerics::AXIS,
    numerics::TABLES,
    numerics::FUSION,
    numerics::DETERMINISM,
    numerics::FLOAT,
    numerics::MODELS,
    lost::GROUP,
    oom::GROUP,
    panic::GROUP,
    stress::GROUP,
    process::GROUP,
    log::GROUP,
    profile_times::GROUP,
    oracle::GROUP,
];

/// Every case of every group.
pub fn cases(subject: &Subject) -> Vec<Case> {
    GROUPS.iter().flat_map(|group| (group.cases)(subject)).collect()
}
