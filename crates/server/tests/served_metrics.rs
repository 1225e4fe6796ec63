//! A flow whose metrics are scraped over TCP: at the end they are those of its report.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use euphrates_engine::{Options, go};
use euphrates_flow::Document;
use euphrates_server::metrics::collector::ServedMetrics;
use euphrates_server::metrics::table::METRICS;

const FLOW: &str = r#"{"euphrates": 1, "name": "daily \"x\"", "modules": [
    {"id": "made", "module": "generate", "config": {"what": "integers", "rows": 300000}},
    {"id": "kept", "module": "filter", "config": {"where": "n % 3 = 0"}},
    {"id": "sorted", "module": "sort", "config": {"by": [{"column": "n", "descending": true}]}},
    {"id": "seen", "module": "collect"}],
  "queues": [{"from": "made", "to": "kept"}, {"from": "kept", "to": "sorted"},
    {"from": "sorted", "to": "seen"}]}"#;

fn scrape(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_string()
}

/// The value of a metric of a module.
fn value(text: &str, name: &str, module: &str) -> f64 {
    let end = format!("module=\"{module}\"}} ");
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let found = lines.find_map(|line| Some(line.split_once(&end)?.1));
    found.unwrap_or_else(|| panic!("no {name} of {module} in {text}")).parse().unwrap()
}

#[test]
fn metrics_at_the_end_are_those_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let served = ServedMetrics::start("127.0.0.1:0").unwrap();
    let at = served.server.address;
    assert_eq!(scrape(at), "", "no flow has started");
    let options = Options {
        cores: Some(2),
        home: Some(folder.path().into()),
        observers: vec![served.clone()],
        ..Options::default()
    };
    let document = Document::from_json(FLOW).unwrap();
    let report = go(&document, &euphrates_modules::registry(), &options).unwrap();
    let text = scrape(at);
    assert!(text.contains(r#"euphrates_flow_state{flow="daily \"x\"",run="#));
    for module in &report.modules {
        let of = |name: &str| value(&text, &format!("euphrates_module_{name}"), &module.id);
        let counters = &module.counters;
        assert_eq!(of("instances"), module.count as f64);
        assert_eq!(of("instances_ended"), module.count as f64);
        for (name, counter) in [
            ("rows_in_total", counters.rows_in),
            ("rows_out_total", counters.rows_out),
            ("bytes_in_total", counters.bytes_in),
            ("bytes_out_total", counters.bytes_out),
            ("batches_in_total", counters.batches_in),
            ("batches_out_total", counters.batches_out),
            ("spilled_bytes_total", counters.spilled_bytes),
        ] {
            assert_eq!(of(name), counter as f64, "{name} of {}", module.id);
        }
        assert!((of("busy_seconds_total") - counters.busy_seconds()).abs() < 0.01);
        assert_eq!(of("starved_seconds_total"), counters.starved_seconds);
        assert_eq!(of("blocked_seconds_total"), counters.blocked_seconds);
    }
    assert!(report.modules.iter().any(|module| module.counters.batches_out > 1));
    let told: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut known = METRICS.iter().map(|metric| metric.name);
    assert!(told.iter().all(|name| known.any(|known| known == *name)), "in the table's order");
}

#[test]
fn metrics_of_a_flow_that_failed_say_so() {
    let served = ServedMetrics::start("0").unwrap();
    let flow = FLOW.replace("n % 3 = 0", "n / (n - n) = 1");
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        cores: Some(1),
        home: Some(folder.path().into()),
        observers: vec![served.clone()],
        ..Options::default()
    };
    let document = Document::from_json(&flow).unwrap();
    assert!(go(&document, &euphrates_modules::registry(), &options).is_err());
    let text = scrape(served.server.address);
    let failed = text.lines().find(|line| line.contains("state=\"failed\"")).unwrap();
    assert!(failed.ends_with("} 1"), "{failed}");
}
