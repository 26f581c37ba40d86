//! The picture: one bar per variant up to its median, and a whisker to its 95th percentile.

use std::fmt::Write as _;
use std::time::Duration;

use super::Results;
use super::table::milliseconds;

const WIDTH: f64 = 820.0;
/// Where bars begin, and how far they may reach.
const LEFT: f64 = 130.0;
const RIGHT: f64 = WIDTH - 150.0;
const TOP: f64 = 64.0;
const ROW: f64 = 34.0;
const BAR: f64 = 18.0;
const GRID_LINES: u32 = 5;

/// Variants that are not Hotcell's are drawn in grey.
const OTHERS: &[&str] = &[crate::bench::variants::PLAIN, crate::bench::variants::FLOOR, crate::bench::variants::BWRAP];

pub(super) fn text(results: &Results) -> String {
    let height = TOP + ROW * results.latency.len() as f64 + 40.0;
    let longest = results.latency.iter().filter_map(|row| row.samples.as_ref().ok());
    let longest = longest.map(|samples| samples.percentile(95.0)).max().unwrap_or(Duration::from_millis(1));
    let step = grid_step(longest.as_secs_f64() * 1e3);
    let scale = (RIGHT - LEFT) / (longest.as_secs_f64() * 1e3).max(f64::MIN_POSITIVE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\" aria-label=\"Time to run one command\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#1c1c1c\">Time to run `true`: median, and \
         whisker to p95</text>\n\
         <text x=\"16\" y=\"46\" fill=\"#666666\">{} runs each, interleaved; Linux {}, {} CPUs, {}; shorter is better</text>\n",
        results.rounds,
        escape(&results.machine.kernel),
        results.machine.cpus,
        escape(&results.machine.cpu),
    );
    grid(&mut svg, step, scale, height);
    for (index, row) in results.latency.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let middle = y + BAR / 2.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#1c1c1c\">{}</text>",
            LEFT - 10.0,
            middle + 4.5,
            escape(row.name)
        );
        match &row.samples {
            Ok(samples) => {
                let colour = if OTHERS.contains(&row.name) { "#9aa5b1" } else { "#d9622b" };
                let at = |time: Duration| LEFT + time.as_secs_f64() * 1e3 * scale;
                let (median, high) = (at(samples.median()), at(samples.percentile(95.0)));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{LEFT:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>\n\
                     <path d=\"M{median:.1} {middle:.1}H{high:.1}M{high:.1} {:.1}V{:.1}\" stroke=\"#3b3b3b\" fill=\"none\"/>\n\
                     <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#1c1c1c\">{}</text>",
                    median - LEFT,
                    middle - 4.0,
                    middle + 4.0,
                    high + 8.0,
                    middle + 4.5,
                    milliseconds(samples.median())
                );
            }
            Err(_) => {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#666666\">not measured</text>",
                    LEFT + 4.0,
                    middle + 4.5
                );
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Vertical lines at round numbers of milliseconds, with their labels below.
fn grid(svg: &mut String, step: f64, scale: f64, height: f64) {
    let bottom = height - 34.0;
    let lines = ((RIGHT - LEFT) / scale / step) as u32;
    for line in 0..=lines {
        let value = f64::from(line) * step;
        let x = LEFT + value * scale;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"#e3e6ea\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666666\">{value} ms</text>",
            TOP - 8.0,
            bottom + 18.0
        );
    }
}

/// A round distance between lines: 1, 2 or 5 times a power of ten.
fn grid_step(longest: f64) -> f64 {
    let rough = longest.max(1e-6) / f64::from(GRID_LINES);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0) * power;
    // Without the digits that multiplying has added.
    (step * 1e6).round() / 1e6
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn every_variant_is_drawn() {
        let mut results = example();
        results.machine.cpu = "a <fast> & small CPU".into();
        let svg = text(&results);
        for row in &results.latency {
            assert!(svg.contains(&format!(">{}</text>", row.name)), "{}", row.name);
        }
        assert!(svg.contains("a &lt;fast&gt; &amp; small CPU") && svg.contains("not measured"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn lines_are_at_round_numbers() {
        for (longest, step) in [(10.0, 2.0), (6.5, 2.0), (4.9, 1.0), (0.9, 0.2), (20.0, 5.0)] {
            assert!((grid_step(longest) - step).abs() < 1e-9, "{longest}: {}", grid_step(longest));
        }
    }
}
