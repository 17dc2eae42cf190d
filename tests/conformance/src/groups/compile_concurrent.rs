//! E.7: compiling in several threads.

use super::Group;
use crate::kit::{Net, Work, basis};
use crate::{Case, Check, Stop, Subject};

pub(super) const GROUP: Group = Group {
    id: "E.7",
    name: "compile.concurrent",
    about: "eight threads compile and run programs of their own",
    cases: |_| vec![Case::new("E.7", "compile.concurrent.threads", threads)],
};

fn threads(subject: &Subject) -> Check {
    let device = subject.open()?;
    let one = &|t: usize| -> Check {
        for i in 0..6 {
            let ty = basis(&*device, 8 + t)?;
            Work::new(&*device, Net::chain(&ty, 1 + (t + i) % 5), subject.seed + i as u64)?.run(&*device)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|t| scope.spawn(move || one(t))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}
