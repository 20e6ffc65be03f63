//! What `lapse check` found: how bad it is, what breaks by it, and how it is mended.
//!
//! Owns: [`Finding`] and its two forms for a reader. Must not: judge.

use serde::Serialize;

/// How bad it is; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A promise does not hold.
    Error,
    /// It works, and somebody should look.
    Warning,
    /// It could not be read, so nobody knows.
    NotChecked,
}

impl Severity {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::NotChecked];

    /// The heading in the report.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Error => "errors",
            Self::Warning => "warnings",
            Self::NotChecked => "not checked",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, and what it should be.
    pub what: String,
    /// What breaks by it.
    pub breaks: String,
    /// How it is mended.
    pub mend: String,
}

/// The report, worst first; the last line counts.
#[must_use]
pub fn report(findings: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    for severity in Severity::ALL {
        let group: Vec<_> = findings.iter().filter(|finding| finding.severity == severity).collect();
        if !group.is_empty() {
            lines.push(severity.heading().to_owned());
        }
        for finding in group {
            lines.push(format!("  {}", finding.what));
            lines.push(format!("    breaks: {}", finding.breaks));
            lines.push(format!("    mend:   {}", finding.mend));
        }
    }
    let counts = Severity::ALL.map(|severity| format!("{} {}", severity.heading(), count(findings, severity)));
    lines.push(counts.join(", "));
    lines
}

/// How many are that bad.
#[must_use]
pub fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}
