//! The text of a scrape, in the exposition format of Prometheus (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::table::{FlowReading, METRICS, Metric};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of these flows. `more` are labels of all of them, for example the worker's name.
///
/// ```
/// use euphrates_server::metrics::table::FlowReading;
/// use euphrates_server::metrics::text::exposition;
///
/// let mut flow = FlowReading::default();
/// flow.totals.flow = "a \"daily\" flow".into();
/// let text = exposition(&[flow], &[("host", "n1")]);
/// let line = r#"euphrates_workers{flow="a \"daily\" flow",run="",host="n1"} 0"#;
/// assert!(text.lines().any(|one| one == line), "{text}");
/// ```
pub fn exposition(flows: &[FlowReading], more: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for metric in METRICS {
        let lines = lines(metric, flows, more);
        if lines.is_empty() {
            continue;
        }
        let Metric { name, kind, help, .. } = metric;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in lines {
            let _ = writeln!(text, "{name}{{{labels}}} {}", number(value));
        }
    }
    text
}

/// The samples of a metric by their labels. Samples with the same labels, as two disks of one name
/// have them, are one sample: a scrape may not have two.
fn lines(metric: &Metric, flows: &[FlowReading], more: &[(&str, &str)]) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for flow in flows {
        let common = [("flow", flow.totals.flow.as_str()), ("run", flow.totals.run.as_str())];
        for (values, value) in (metric.read)(flow) {
            let own = metric.labels.iter().copied().zip(values.iter().map(String::as_str));
            let pairs = common.into_iter().chain(more.iter().copied()).chain(own);
            let labels: Vec<String> =
                pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            *all.entry(labels.join(",")).or_insert(0.0) += value;
        }
    }
    all
}

/// The value of a label: backslashes, quotes and line feeds are escaped, nothing else.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        value if value == f64::INFINITY => "+Inf".into(),
        value if value == f64::NEG_INFINITY => "-Inf".into(),
        value if value.is_nan() => "NaN".into(),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use euphrates_engine::observe::totals::{DiskTotals, ModuleTotals, SlowNow};

    use super::*;

    #[test]
    fn labels_are_escaped_and_samples_with_equal_labels_are_one() {
        let mut flow = FlowReading::default();
        let id = "back\\slash \"quote\"\nline ü".to_string();
        flow.totals.modules = vec![ModuleTotals { id, count: 3, ..Default::default() }];
        let disk = DiskTotals { name: "d".into(), bytes: 5, ..Default::default() };
        flow.totals.disks = vec![disk.clone(), disk];
        flow.totals.slow = vec![SlowNow { name: "sort_1.0".into(), factor: None }];
        let text = exposition(&[flow], &[]);
        let lines: Vec<&str> = text.lines().collect();
        let has = |line: &str| assert!(lines.contains(&line), "{line} in {text}");
        has(concat!(
            r#"euphrates_module_instances{flow="",run="","#,
            r#"module="back\\slash \"quote\"\nline ü"} 3"#,
        ));
        let disk = r#"flow="",run="",worker="",disk="d",operation="read""#;
        has(&format!("euphrates_disk_bytes_total{{{disk}}} 10"));
        has(r#"euphrates_slow_factor{flow="",run="",component="sort_1.0"} +Inf"#);
        let series: BTreeSet<&str> =
            lines.iter().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
        assert_eq!(series.len(), lines.len(), "no line is there twice");
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = BTreeSet::new();
        for Metric { name, kind, help, labels, .. } in METRICS {
            assert!(names.insert(name), "{name} is there twice");
            let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.starts_with("euphrates_") && name.chars().all(is_letter), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == "counter", "{name}");
            assert!(["counter", "gauge"].contains(kind) && help.ends_with('.'), "{name}");
            assert!(labels.iter().all(|label| label.chars().all(is_letter)), "{name}");
        }
    }
}
