//! F.4: submissions that are wrong.

use super::Group;
use crate::kit::{Bound, Work, buffer_of};
use crate::{Case, Check, Subject, ensure, refused};
use ottava_hal::{Device, Status};

pub(super) const GROUP: Group = Group {
    id: "F.4",
    name: "exec.validate",
    about: "wrong numbers, sizes and ranges of bindings: the code, outputs and fences untouched",
    cases: |_| {
        vec![
            Case::new("F.4", "exec.validate.count", count),
            Case::new("F.4", "exec.validate.size", size),
            Case::new("F.4", "exec.validate.range", range),
            Case::new("F.4", "exec.validate.aliased", aliased),
            Case::new("F.4", "exec.validate.untouched", untouched),
        ]
    },
};

/// A change that makes a submission wrong.
type Change = fn(&mut Bound);

/// A change with a name.
type Named<'a> = (&'static str, &'a dyn Fn(&mut Bound));

/// Submits with a change: it is refused, and nothing has happened.
fn refuses(device: &dyn Device, work: &Work, what: &str, change: Change) -> Check {
    let mut bound = work.bind(device)?;
    let fence = bound.signal(device)?;
    change(&mut bound);
    refused(what, device.create_queue()?.submit(&bound.submission), Status::InvalidArgument)?;
    let now = fence.query();
    ensure!(now == Ok(0), "{what}: the fence of a submission that was refused says {now:?}");
    Ok(())
}

fn each(subject: &Subject, changes: &[(&str, Change)]) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    changes.iter().try_for_each(|(what, change)| refuses(&*device, &work, what, *change))?;
    // The device is as good as before.
    work.run(&*device)
}

fn on(bound: &mut Bound, change: impl FnOnce(&mut Vec<ottava_hal::Binding>, &mut Vec<ottava_hal::Binding>)) {
    if let Some((inputs, outputs)) = bound.bindings_mut() {
        change(inputs, outputs);
    }
}

fn count(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("no input", |b| on(b, |i, _| i.clear())),
            ("an input too few", |b| on(b, |i, _| drop(i.pop()))),
            ("an input too many", |b| on(b, |i, _| i.push(i[0].clone()))),
            ("no output", |b| on(b, |_, o| o.clear())),
            ("an output too many", |b| on(b, |i, o| o.push(i[0].clone()))),
        ],
    )
}

fn size(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("an input that is a byte short", |b| on(b, |i, _| i[0].len -= 1)),
            ("an input that is a byte long", |b| on(b, |i, _| i[1].len += 1)),
            ("an output that is a byte short", |b| on(b, |_, o| o[0].len -= 1)),
            ("an output that is a byte long", |b| on(b, |_, o| o[0].len += 1)),
            ("an empty output", |b| on(b, |_, o| o[0].len = 0)),
        ],
    )
}

fn range(subject: &Subject) -> Check {
    each(
        subject,
        &[
            ("an input behind the end of its buffer", |b| {
                on(b, |i, _| i[0].offset = i[0].buffer.len().next_multiple_of(64))
            }),
            ("an input whose end overflows", |b| on(b, |i, _| i[0].offset = usize::MAX & !7)),
            ("an output behind the end of its buffer", |b| {
                on(b, |_, o| o[0].offset = o[0].buffer.len().next_multiple_of(64))
            }),
            ("an output whose end overflows", |b| on(b, |_, o| o[0].offset = usize::MAX & !7)),
        ],
    )
}

fn aliased(subject: &Subject) -> Check {
    each(subject, &[("an output that is also an input", |b| on(b, |i, o| o[0] = i[0].clone()))])
}

/// An output of the wrong size in the right buffer: no byte of it changes.
fn untouched(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let short = buffer_of(&*device, &[1; 8])?;
    let changes: [Named<'_>; 2] = [
        ("a second input that is too short", &|b| {
            on(b, |i, _| (i[1].buffer, i[1].offset, i[1].len) = (short.clone(), 0, 8))
        }),
        ("an input too few", &|b| on(b, |i, _| drop(i.pop()))),
    ];
    for (what, change) in changes {
        let mut bound = work.bind(&*device)?;
        change(&mut bound);
        let result = device.create_queue()?.submit(&bound.submission);
        ensure!(result.is_err(), "{what} was accepted");
        bound.untouched(&format!("by a submission that was refused: {what}"))?;
    }
    Ok(())
}
