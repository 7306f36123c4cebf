//! Results of jobs and tasks: status, node, sums, zones, start, fit errors.

use super::{Mismatch, same_amount};
use crate::format::{Expectation, GpuRequest, TaskExpectation};
use crate::outcome::{CycleOutcome, JobOutcome, TaskOutcome};
use crate::state::{ClusterState, Job, Task};

/// The tasks one result is about, with what became of them.
struct Subject<'a> {
    name: String,
    tasks: Vec<(&'a Task, &'a TaskOutcome)>,
    job: JobOutcome,
}

/// Compares the results of all jobs and tasks, and the texts expected in fit errors.
pub(super) fn check(
    expect: &Expectation,
    state: &ClusterState,
    outcome: &CycleOutcome,
    now_s: f64,
) -> Result<(), Mismatch> {
    for (name, expected) in &expect.jobs {
        let job = find_job(state, name)?;
        let subject = subject(format!("job {name}"), job, &job.tasks, outcome)?;
        result(expected, &subject, now_s)?;
    }
    for (name, expected) in &expect.tasks {
        let Some((job, task)) = state.task(name) else {
            return Err(Mismatch::new(format!("task {name}"), "existence", "a task", "none"));
        };
        let subject = subject(format!("task {name}"), job, std::slice::from_ref(task), outcome)?;
        result(expected, &subject, now_s)?;
    }
    for (name, wanted) in &expect.messages {
        find_job(state, name)?;
        let found = outcome.jobs.get(name).cloned().unwrap_or_default();
        let errors: Vec<&String> =
            std::iter::once(&found.fit_errors).chain(&found.task_fit_errors).collect();
        texts(name, "fit error", wanted, &errors)?;
    }
    for (name, wanted) in &expect.explains {
        find_job(state, name)?;
        let found = outcome.jobs.get(name).cloned().unwrap_or_default();
        texts(name, "explanation", wanted, &[&found.explanation])?;
    }
    wake_up(expect, outcome)
}

/// Each wanted text occurs in one of those found.
fn texts(job: &str, what: &str, wanted: &[String], found: &[&String]) -> Result<(), Mismatch> {
    for text in wanted {
        if !found.iter().any(|found| found.contains(text)) {
            let actual: Vec<_> = found.iter().map(|error| error.trim()).collect();
            let actual = actual.join(" | ");
            let expected = format!("one that contains {text:?}");
            return Err(Mismatch::new(format!("job {job}"), what, expected, format!("{actual:?}")));
        }
    }
    Ok(())
}

fn wake_up(expect: &Expectation, outcome: &CycleOutcome) -> Result<(), Mismatch> {
    let Some(expected) = expect.wake_at_s else { return Ok(()) };
    let same = match (expected.time_s(), outcome.wake_at_s) {
        (Some(expected), Some(actual)) => same_amount(expected, actual),
        (expected, actual) => expected == actual,
    };
    let shown = |time: Option<f64>| time.map_or("never".to_owned(), |time| format!("{time} s"));
    if same {
        return Ok(());
    }
    Err(Mismatch::new("cycle", "wake-up", shown(expected.time_s()), shown(outcome.wake_at_s)))
}

fn find_job<'a>(state: &'a ClusterState, name: &str) -> Result<&'a Job, Mismatch> {
    let missing = || Mismatch::new(format!("job {name}"), "existence", "a job", "none");
    state.job(name).ok_or_else(missing)
}

fn subject<'a>(
    name: String,
    job: &'a Job,
    tasks: &'a [Task],
    outcome: &'a CycleOutcome,
) -> Result<Subject<'a>, Mismatch> {
    let with_outcome = |task: &'a Task| {
        let missing =
            || Mismatch::new(format!("task {}", task.name), "outcome", "one", "none reported");
        outcome.tasks.get(&task.name).map(|found| (task, found)).ok_or_else(missing)
    };
    Ok(Subject {
        name,
        tasks: tasks.iter().map(with_outcome).collect::<Result<_, _>>()?,
        job: outcome.jobs.get(&job.name).cloned().unwrap_or_default(),
    })
}

fn result(expected: &TaskExpectation, subject: &Subject<'_>, now_s: f64) -> Result<(), Mismatch> {
    for &(task, actual) in &subject.tasks {
        single_task(expected, &task.name, actual)?;
    }
    sums(expected, subject)?;
    start(expected, subject, now_s)?;
    match &expected.error_message {
        Some(text) if *text != subject.job.fit_errors => Err(Mismatch::new(
            &subject.name,
            "fit errors",
            format!("{text:?}"),
            format!("{:?}", subject.job.fit_errors),
        )),
        _ => Ok(()),
    }
}

fn single_task(
    expected: &TaskExpectation,
    name: &str,
    actual: &TaskOutcome,
) -> Result<(), Mismatch> {
    let subject = || format!("task {name}");
    if actual.status != expected.status {
        let with_node = |status, node: Option<&str>| match node {
            Some(node) => format!("{status} on {node}"),
            None => format!("{status}"),
        };
        return Err(Mismatch::new(
            subject(),
            "status",
            with_node(expected.status, expected.node.as_deref()),
            with_node(actual.status, actual.occupied_node()),
        ));
    }
    if expected.node.is_some() && actual.node != expected.node {
        let shown = |node: &Option<String>| node.clone().unwrap_or_else(|| "none".to_owned());
        return Err(Mismatch::new(subject(), "node", shown(&expected.node), shown(&actual.node)));
    }
    if let Some(zones) = &expected.numa_zones {
        let sorted = |zones: &[usize]| {
            let mut zones = zones.to_vec();
            zones.sort_unstable();
            zones
        };
        let (wanted, found) = (sorted(zones), sorted(&actual.numa_zones));
        if wanted != found {
            return Err(Mismatch::new(
                subject(),
                "NUMA zones",
                format!("{wanted:?}"),
                format!("{found:?}"),
            ));
        }
    }
    Ok(())
}

fn sums(expected: &TaskExpectation, subject: &Subject<'_>) -> Result<(), Mismatch> {
    let sum = |amount: fn(&Task, &TaskOutcome) -> f64| -> f64 {
        subject.tasks.iter().map(|(task, outcome)| amount(task, outcome)).sum()
    };
    let devices_requested = |task: &Task, _: &TaskOutcome| {
        task.request.gpu.as_ref().map_or(0.0, GpuRequest::devices_requested)
    };
    let amounts = [
        ("devices requested", expected.gpus_requested, sum(devices_requested)),
        ("devices accepted", expected.gpus_accepted, sum(|_, outcome| outcome.gpus_accepted)),
        (
            "millicores requested",
            expected.cpu_milli_requested,
            sum(|task, _| task.request.cpu_milli as f64),
        ),
        (
            "bytes requested",
            expected.memory_bytes_requested,
            sum(|task, _| task.request.memory_bytes as f64),
        ),
    ];
    for (property, expected, actual) in amounts {
        if let Some(expected) = expected.filter(|&expected| !same_amount(expected, actual)) {
            return Err(Mismatch::new(&subject.name, property, expected, actual));
        }
    }
    Ok(())
}

fn start(expected: &TaskExpectation, subject: &Subject<'_>, now_s: f64) -> Result<(), Mismatch> {
    let least_s = expected.started_at_least_s_ago;
    if !expected.status.is_allocated() && least_s.is_none() {
        return Ok(());
    }
    let Some(started_at_s) = subject.job.started_at_s else {
        return Err(Mismatch::new(&subject.name, "start time", "one", "none"));
    };
    let ago_s = now_s - started_at_s;
    match least_s {
        Some(least_s) if ago_s < least_s => Err(Mismatch::new(
            &subject.name,
            "start time",
            format!("at least {least_s} s ago"),
            format!("{ago_s} s ago"),
        )),
        _ => Ok(()),
    }
}
