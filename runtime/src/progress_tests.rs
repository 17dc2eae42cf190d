//! The state machine under random schedules: threads of the scheduler play the devices.

use super::*;
use ottava_hal::host::HostFence;
use shuttle::sync::Mutex as TestMutex;
use shuttle::{check_random, thread};

const ROUNDS: usize = 400;

/// A queue of an imaginary device: takes its turns in order, waits for the gate, tells the progress.
struct Engine {
    gate: Arc<HostFence>,
    steps: Vec<usize>,
}

/// Told when a gate opens; the scheduler cannot see a fence's own waiting.
struct Opened(Mutex<Option<Result<()>>>, Condvar);

impl Notify for Opened {
    fn notified(&self, _: u64, result: Result<()>) {
        *self.0.lock() = Some(result);
        self.1.notify_all();
    }
}

impl Engine {
    fn run(&self, progress: &Arc<Progress>, flow: &Flow, base: u64, log: &TestMutex<Vec<usize>>, fails: Option<usize>) {
        for (turn, step) in self.steps.iter().enumerate() {
            if flow.is_gated(*step) {
                let opened = Arc::new(Opened(Mutex::new(None), Condvar::new()));
                self.gate.notify(base + turn as u64 + 1, opened.clone(), 0);
                let mut result = opened.0.lock();
                while result.is_none() {
                    result = opened.1.wait(result, None).0;
                }
                if let Some(Err(error)) = result.take() {
                    progress.notified(*step as u64, Err(error));
                    return;
                }
            }
            thread::yield_now();
            if fails == Some(*step) {
                progress.notified(*step as u64, Err(Error::failed(Status::Internal, format!("step {step}"))));
                return;
            }
            log.lock().unwrap().push(*step);
            progress.notified(*step as u64, Ok(()));
        }
    }
}

/// Kinds by letters: `h` the host, `0` and `1` devices.
fn flow(kinds: &str, waits: &[&[usize]]) -> Arc<Flow> {
    let mut turns = [0; 2];
    let kind = |c: char| match c.to_digit(10) {
        None => Kind::Host,
        Some(device) => {
            turns[device as usize] += 1;
            Kind::Queued { device: device as usize, turn: turns[device as usize] - 1 }
        }
    };
    let waits: Vec<Vec<usize>> = waits.iter().map(|w| w.to_vec()).collect();
    Arc::new(Flow::new(kinds.chars().map(kind).collect(), &waits, 2))
}

/// Two devices and the host, with edges of all kinds: host to device, device to host, device to device.
fn zigzag() -> (Arc<Flow>, &'static [&'static [usize]]) {
    const WAITS: &[&[usize]] = &[&[], &[0], &[1], &[2], &[1, 2], &[3], &[4, 5], &[], &[6, 7]];
    (flow("h0h10h1h0", WAITS), WAITS)
}

/// Gates that two sides open at the same time, and a step that opens two gates.
fn crossing() -> (Arc<Flow>, &'static [&'static [usize]]) {
    const WAITS: &[&[usize]] = &[&[], &[], &[0], &[1], &[0, 1], &[4]];
    (flow("h10010", WAITS), WAITS)
}

/// Runs an inference `runs` times; per run the order in which steps were done, and how it ended.
fn infer(flow: Arc<Flow>, runs: u64, fails: Option<usize>) -> Vec<(Vec<usize>, Next)> {
    let gates: Vec<Arc<HostFence>> = (0..2).map(|_| Arc::new(HostFence::new(0))).collect();
    let dynamic = gates.iter().map(|g| Some(g.clone() as Arc<dyn Fence>)).collect();
    let progress = Arc::new(Progress::new(flow.clone(), dynamic));
    let mut ends = Vec::new();
    for run in 0..runs {
        progress.begin(run, false);
        let log = Arc::new(TestMutex::new(Vec::new()));
        let engines: Vec<_> = (0..2)
            .map(|d| {
                let engine = Engine { gate: gates[d].clone(), steps: flow.turns[d].clone() };
                let (progress, flow, log) = (progress.clone(), flow.clone(), log.clone());
                let base = run * flow.turns[d].len() as u64;
                thread::spawn(move || engine.run(&progress, &flow, base, &log, fails))
            })
            .collect();
        let end = loop {
            match progress.next(None) {
                Next::Run(step) if fails == Some(step) => {
                    progress.fail(Failure { step, device: None, error: Error::invalid("told to fail") });
                }
                Next::Run(step) => {
                    log.lock().unwrap().push(step);
                    progress.done(step);
                }
                end => break end,
            }
        };
        engines.into_iter().for_each(|e| e.join().unwrap());
        let order = log.lock().unwrap().clone();
        ends.push((order, end));
    }
    ends
}

#[test]
fn every_step_is_done_once_and_after_what_it_waits_for() {
    for network in [zigzag, crossing] {
        let check = move || {
            let (flow, waits) = network();
            for (order, end) in infer(flow, 2, None) {
                assert_eq!(end, Next::Finished);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..waits.len()).collect::<Vec<_>>());
                let at = |step: usize| order.iter().position(|s| *s == step).unwrap();
                for (step, waits) in waits.iter().enumerate() {
                    assert!(waits.iter().all(|w| at(*w) < at(step)), "{order:?}");
                }
            }
        };
        check_random(check, ROUNDS);
    }
}

#[test]
fn a_failure_ends_the_inference_and_whatever_depends_on_it() {
    for fails in [0, 1, 3, 5, 8] {
        let check = move || {
            let (flow, waits) = zigzag();
            let (order, end) = infer(flow, 1, Some(fails)).remove(0);
            let Next::Failed(failure) = end else { panic!("{end:?}") };
            assert_eq!(failure.step, fails);
            let mut dead = vec![fails];
            for (step, waits) in waits.iter().enumerate() {
                if waits.iter().any(|w| dead.contains(w)) {
                    dead.push(step);
                }
            }
            assert!(order.iter().all(|step| !dead.contains(step)), "{order:?}");
        };
        check_random(check, ROUNDS / 4);
    }
}

#[test]
fn edges_of_one_queue_are_left_to_the_queue() {
    let (flow, _) = zigzag();
    // Step 4 waits for 1 in its own queue and for 2 on the host: only the latter is counted.
    assert_eq!((flow.blockers[4], &flow.dependents[1]), (1, &vec![2]));
    assert_eq!(flow.turns, [vec![1, 4, 8], vec![3, 6]]);
}
