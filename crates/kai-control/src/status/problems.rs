//! Problems of objects: fields that cannot be decoded or contradict others, as events of the objects. An object without a
//! problem costs nothing.

use kai_api::names::status::INVALID_OBJECT;
use kai_client::kinds::Kind;
use kai_core::input::{ObjectName, Text};
use kai_translate::Problem;

use super::Statuses;
use super::events::{Event, Severity, Subject};

/// Problems that one event names.
const MOST_PROBLEMS: usize = 2;

/// The problem of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectProblem {
    uid: Text,
    message: String,
}

impl Statuses {
    /// Sets the problem of an object; none: it has none. An event of the object reports a new problem.
    pub fn set_problem(
        &mut self,
        kind: Kind,
        name: &ObjectName,
        uid: &str,
        message: Option<String>,
    ) {
        let key = (kind, name.clone());
        let Some(message) = message else {
            self.problems.remove(&key);
            return;
        };
        let problem = ObjectProblem { uid: uid.into(), message };
        if self.problems.get(&key) == Some(&problem) {
            return;
        }
        if self.settings.duties.verdicts {
            self.notices.push(event(kind, name, &problem));
        }
        self.problems.insert(key, problem);
    }

    /// Reports every known problem: this process reports from now on.
    pub(super) fn report_problems(&mut self) {
        let events =
            self.problems.iter().map(|((kind, name), problem)| event(*kind, name, problem));
        self.notices.extend(events);
    }
}

fn event(kind: Kind, name: &ObjectName, problem: &ObjectProblem) -> Event {
    let subject = Subject::Object(kind, name.clone(), problem.uid.clone());
    Event::new(subject, Severity::Warning, INVALID_OBJECT, problem.message.as_str())
}

/// The first problems of an object in one text; none where there are none.
pub fn summary(problems: &[Problem]) -> Option<String> {
    let shown = problems.iter().take(MOST_PROBLEMS);
    let shown: Vec<String> = shown.map(|one| format!("{}: {}", one.field, one.message)).collect();
    let more = problems.len() - shown.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join("; ")))
}
