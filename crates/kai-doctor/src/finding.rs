//! What a check says.

use serde::{Serialize, Serializer};

use crate::check::Check;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something works differently from what one may expect.
    Warning,
}

/// Something that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The check that found it.
    #[serde(serialize_with = "name")]
    pub check: Check,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: `Node n1`, `Pod team-a/trainer-0`, or a file.
    pub object: String,
    /// What is wrong, in one sentence without the object.
    pub message: String,
    /// A command that puts it right, or the first of several steps to it.
    pub fix: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn name<S: Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.name())
}

/// Everything that was found; errors first.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Findings {
    /// The findings, errors before warnings.
    pub findings: Vec<Finding>,
}

impl Findings {
    /// These, in order: errors first, then by check and object.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| {
            let rank = |finding: &Finding| (finding.severity, finding.check.name());
            rank(a).cmp(&rank(b)).then_with(|| a.object.cmp(&b.object))
        });
        findings.dedup();
        Self { findings }
    }

    /// Something does not work.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}
