//! Findings for people.

use std::fmt::Write;

use kai_doctor::finding::{Findings, Severity};

use crate::text_layout::wrapped;

/// Every finding in a few lines: what it is about, what is wrong, and the command, which is not broken so that it can be
/// copied.
pub(super) fn report(findings: &Findings, head: Option<&str>, width: usize) -> String {
    let mut text = String::new();
    if let Some(head) = head {
        text.push_str(&wrapped(head, width, ""));
        text.push('\n');
    }
    for finding in &findings.findings {
        let severity = match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
        };
        let _ = writeln!(text, "{severity:<8}{:<26}{}", finding.check.name(), finding.object);
        text.push_str(&wrapped(&finding.message, width, "        "));
        let _ = writeln!(text, "        $ {}\n", finding.fix);
    }
    let of = |severity: Severity| {
        findings.findings.iter().filter(|finding| finding.severity == severity).count()
    };
    text + &match (of(Severity::Error), of(Severity::Warning)) {
        (0, 0) => "Nothing is wrong.\n".to_owned(),
        (errors, warnings) => format!("{errors} errors, {warnings} warnings.\n"),
    }
}

#[cfg(test)]
mod tests {
    use kai_doctor::check::Check;
    use kai_doctor::finding::Finding;

    use super::*;

    #[test]
    fn messages_are_wrapped_and_commands_are_not() {
        let finding = Finding {
            check: Check::UnknownQueue,
            severity: Severity::Error,
            object: "Pod a/p".to_owned(),
            message: "it names queue q, which does not exist".to_owned(),
            fix: "kubectl create a queue of that name and so on".to_owned(),
        };
        let text = report(&Findings::of(vec![finding]), None, 40);
        assert_eq!(
            text,
            "ERROR   unknown-queue             Pod a/p\n        it names queue q, which does not\n        exist\n        \
             $ kubectl create a queue of that name and so on\n\n1 errors, 0 warnings.\n"
        );
        assert_eq!(report(&Findings::default(), None, 40), "Nothing is wrong.\n");
    }
}
