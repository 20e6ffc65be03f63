//! The table per destination.
//!
//! Owns: columns and alignment. Must not: compute anything but percentiles.

use anyhow::Result;

use super::evidence::{Evidence, Part};
use crate::commands;

const HEAD: [&str; 11] = [
    "destination",
    "events",
    "delivered",
    "refused",
    "requests",
    "429s",
    "deferred",
    "republished",
    "parked",
    "late p50/p95",
    "dead",
];

/// Prints it.
pub fn print(evidence: &Evidence) -> Result<()> {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(evidence.parts.iter().map(|part| row(part, evidence)));
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    commands::print("")?;
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(
                |(i, (cell, width))| {
                    if i == 0 || i == HEAD.len() - 1 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        commands::print(cells.join("  ").trim_end())?;
    }
    commands::print("")
}

fn row(part: &Part, evidence: &Evidence) -> [String; HEAD.len()] {
    let count = |name: &str| part.counts.get(name).copied().unwrap_or(0).to_string();
    let refused = if part.name == super::cast::CATALOG { evidence.refused.len() } else { 0 };
    let dead: Vec<_> = part.dead.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let late = format!("{}/{} ms", percentile(&part.lateness_ms, 50), percentile(&part.lateness_ms, 95));
    [
        part.name.to_owned(),
        part.events.to_string(),
        part.delivered.to_string(),
        refused.to_string(),
        part.checks.requests.to_string(),
        part.throttled.to_string(),
        count("deferred"),
        count("republished"),
        count("parked"),
        late,
        dead.join(", "),
    ]
}

/// The nearest-rank percentile of sorted values.
fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile(&[1, 2, 3, 4], 50), 2);
        assert_eq!(percentile(&[1, 2, 3, 4], 95), 4);
        assert_eq!(percentile(&[7], 50), 7);
        assert_eq!(percentile(&[], 95), 0);
    }
}
