//! A.6: one library, many users, one end.

use super::Group;
use super::load_symbol::{library, load};
use crate::kit::{Holdings, Work};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::Options;

pub(super) const GROUP: Group = Group {
    id: "A.6",
    name: "load.twice",
    about: "loading again, from many threads; shutdown leaves no threads, and the process ends cleanly",
    cases: |_| {
        vec![
            Case::new("A.6", "load.twice.again", again),
            Case::new("A.6", "load.twice.at_once", at_once),
            Case::new("A.6", "load.twice.shutdown", shutdown),
        ]
    },
};

fn again(subject: &Subject) -> Check {
    let path = library(subject)?;
    let first = load(path).map_err(Stop::failed)?;
    let second = load(path).map_err(|why| Stop::failed(format!("the library does not load a second time: {why}")))?;
    ensure!(first.info() == second.info(), "the second loading is {:?}", second.info());
    ensure!(first.devices()? == second.devices()?, "the second loading has other devices");
    Ok(())
}

fn at_once(subject: &Subject) -> Check {
    let path = library(subject)?;
    let one = || -> Check {
        for _ in 0..5 {
            let driver = load(path).map_err(Stop::failed)?;
            let devices = driver.devices()?;
            let Some(info) = devices.first() else { continue };
            drop(driver.open(&info.id, &Options::new()));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}

/// Ends the driver for this process, which must run the case alone.
fn shutdown(subject: &Subject) -> Check {
    let path = library(subject)?;
    let before = Holdings::now()?;
    let driver = load(path).map_err(Stop::failed)?;
    let device = subject.open()?;
    match Work::small(&*device, subject.seed).and_then(|work| work.run(&*device)) {
        Ok(()) | Err(Stop::Unsupported(_)) => {}
        Err(other) => return Err(other),
    }
    drop(device);
    let busy = ottava_loader::shutdown();
    ensure!(busy.is_empty(), "drivers that cannot be shut down although nothing is open: {busy:?}");
    before.returned("shutdown")?;
    let after = driver.devices();
    ensure!(after.is_err(), "a driver that was shut down still lists devices");
    Ok(())
}
