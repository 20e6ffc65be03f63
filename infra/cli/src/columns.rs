//! Text in columns.
//!
//! Owns: alignment. Must not: know what the cells say.

/// The rows as lines: the first `left` columns flush left, the others flush right.
#[must_use]
pub fn aligned<const N: usize>(rows: &[[String; N]], left: usize) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_as_wide_as_its_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let lines = aligned(&[row(["a", "b", ""]), row(["long", "1000", "x"])], 1);
        assert_eq!(lines, ["a        b", "long  1000  x"]);
    }
}
