//! The processes of the cases: how they are started, and what they do.

use super::Args;
use crate::failure::{Failure, Result};
use crate::ui::Answer;
use crate::verbs::Context;
use ottava_conformance::{Child, Oracle, Policy, Refusal, Rule, Subject, refusal};
use std::path::PathBuf;
use std::process::Command;

/// Starts this program again.
pub struct Commands {
    program: PathBuf,
    /// What every child is told.
    common: Vec<std::ffi::OsString>,
    seed: u64,
    stress: bool,
}

impl Commands {
    /// Children that test what this process was asked to test.
    pub fn new(args: &Args, cx: &Context) -> Result<Self> {
        let program = std::env::current_exe();
        let program = program.map_err(|e| Failure::Check(format!("this program does not find itself: {e}")))?;
        let mut common = vec!["conformance".into()];
        if let Some(device) = &args.device {
            common.extend(["--device".into(), device.into()]);
        }
        if let Some(oracle) = &args.oracle {
            common.extend(["--oracle".into(), oracle.into()]);
        }
        if let Some(percent) = args.cycle_tolerance {
            common.extend(["--cycle-tolerance".into(), percent.to_string().into()]);
        }
        if let Some(config) = &cx.registry.config.file {
            common.extend(["--config".into(), config.into()]);
        }
        if let Some(library) = &args.library {
            common.extend(["--".into(), library.into()]);
        }
        Ok(Self { program, common, seed: args.seed, stress: args.stress })
    }

    /// The same with what a repro file says.
    pub fn seeded(&self, seed: u64, stress: bool) -> Self {
        Self { program: self.program.clone(), common: self.common.clone(), seed, stress }
    }

    /// Makes the command of a child.
    pub fn starter(&self) -> impl Fn(&Child) -> Command + Sync + '_ {
        |asked| {
            let mut command = Command::new(&self.program);
            let (verb, rest) = self.common.split_at(1);
            command.args(verb).args(["--child", &asked.to_arg(), "--seed", &self.seed.to_string()]);
            command.args(self.stress.then_some("--stress")).args(rest);
            command
        }
    }
}

/// In the child: loads the driver, does what is asked, and answers on standard output.
pub fn serve(args: &Args, cx: &Context, asked: &Child) -> Result<Answer> {
    let subject = match subject(args, cx) {
        Ok(subject) => Subject { oracle: oracle(args)?, seed: args.seed, stress: args.stress, ..subject },
        Err(why) => {
            let failure = super::refused(args, why.clone());
            crate::ui::to_stdout(&format!("{}\n", refusal(why)))?;
            return Err(failure);
        }
    };
    ottava_conformance::serve(&subject, asked, &mut std::io::stdout()).map_err(Failure::Check)?;
    Ok(Answer::default())
}

/// The device of the description that `--oracle` names.
pub fn oracle(args: &Args) -> Result<Option<Oracle>> {
    let Some(text) = &args.oracle else { return Ok(None) };
    let Some(config) = text.strip_prefix("npu:") else {
        return Err(Failure::Usage(format!("`--oracle {text}` is not npu:CHIP.ron")));
    };
    let options = [("config".to_owned(), config.to_owned())].into();
    let opened = ottava_driver_npu::NpuDriver::new().open_npu("npu", &options);
    let bad =
        |e: &dyn std::fmt::Display| ottava::Error::invalid(ottava::codes::DEVICE_OPTION, format!("`--oracle`: {e}"));
    let device = opened.map_err(|e| Failure::Error(bad(&e)))?;
    Ok(Some(Oracle { device, tolerance: args.cycle_tolerance }))
}

fn subject(args: &Args, cx: &Context) -> Result<Subject, Refusal> {
    let config = &cx.registry.config;
    let Some(library) = &args.library else {
        let id = args.device.clone().unwrap_or_default();
        let found = cx.registry.find(&id).map_err(|e| Refusal {
            reason: e.detail().to_string(),
            is_usage: e.detail().code == ottava::codes::NO_DEVICE && e.detail().file.is_none(),
        })?;
        let first = Subject::first_of(found.driver).map_err(|e| e.to_string())?;
        let first = first.ok_or_else(|| "the driver finds no device here".to_owned())?;
        let (options, library, abi) = (found.options, found.library, found.abi.unwrap_or_default());
        return Ok(Subject { device: found.id, options, library, abi, ..first });
    };
    let subject = Subject::load(library, policy(&config.policy))?;
    let name = subject.driver.info().name;
    let is_named = |id: &String| args.device.as_ref().is_none_or(|wanted| wanted == id);
    let entry = config.devices.iter().find(|d| d.driver == name && is_named(&d.id));
    match (entry, &args.device) {
        (Some(entry), _) => {
            let known = subject.driver.devices().unwrap_or_default().into_iter().any(|d| d.id == entry.id);
            let subject = if known { subject.with_device(&entry.id)? } else { subject };
            Ok(Subject { options: entry.options.clone(), ..subject })
        }
        (None, Some(id)) => subject.with_device(id).map_err(|reason| Refusal { reason, is_usage: true }),
        (None, None) => Ok(subject),
    }
}

fn policy(policy: &ottava::Policy) -> Policy {
    let rule = |rule: &ottava::Rule| match rule {
        ottava::Rule::Dir(dir) => Rule::Dir(dir.clone()),
        ottava::Rule::Sha256(hash) => Rule::Sha256(hash.clone()),
    };
    let rules = |list: &[ottava::Rule]| list.iter().map(rule).collect();
    Policy { require_hash: policy.require_hash, allow: rules(&policy.allow), deny: rules(&policy.deny) }
}
