//! The day as a picture: rate, backlog and lateness over time, one above the other.
//!
//! Owns: the drawing. Must not: compute what it draws.

use std::fmt::Write as _;

use super::hours;
use super::ledger::Look;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 90.0;
const GAP: f64 = 60.0;
/// Lines across each panel.
const GRID: [f64; 3] = [0.0, 0.5, 1.0];

/// The picture as SVG.
pub(super) fn svg(looks: &[Look]) -> String {
    let backlog = |look: &Look| f64::from(u32::try_from(look.backlog).unwrap_or(u32::MAX));
    let panels: [(&str, Vec<f64>); 4] = [
        ("requests a second", looks.iter().map(|look| look.per_second).collect()),
        ("backlog: messages in the queue, and parked ones", looks.iter().map(backlog).collect()),
        ("lateness at 99 % where nothing is the matter, s", looks.iter().map(|look| look.late_healthy_s).collect()),
        (
            "lateness at 99 % of limited and failing destinations, s",
            looks.iter().map(|look| look.late_troubled_s).collect(),
        ),
    ];
    let last = looks.last().map_or(24.0, |look| hours(look.at)).max(1.0);
    let (width, height) = (LEFT + WIDTH + 30.0, 4.0 * (HEIGHT + GAP) + 30.0);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"><rect width="{width}" height="{height}" fill="#fff"/>"##
    );
    let mut top = 40.0;
    for (title, values) in &panels {
        panel(&mut svg, title, looks, values, (top, last));
        top += HEIGHT + GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, title: &str, looks: &[Look], values: &[f64], (top, last): (f64, f64)) {
    let most = values.iter().copied().fold(1.0, f64::max);
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let x = |hour: f64| LEFT + WIDTH * hour / last;
    // Writing to a string does not fail.
    let _ = write!(svg, r#"<text x="{LEFT}" y="{}" font-weight="bold">{title}</text>"#, top - 10.0);
    for share in GRID {
        let (at, value) = (y(share * most), share * most);
        let _ = write!(
            svg,
            r##"<line x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{value:.1}</text>"##,
            LEFT + WIDTH,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for hour in (0..=24_u32).step_by(4).map(f64::from).filter(|hour| *hour <= last) {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{hour} h</text>"#,
            x(hour),
            top + HEIGHT + 18.0
        );
    }
    let points: Vec<_> =
        looks.iter().zip(values).map(|(look, value)| format!("{:.1},{:.1}", x(hours(look.at)), y(*value))).collect();
    let _ =
        write!(svg, r##"<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="{}"/>"##, points.join(" "));
}
