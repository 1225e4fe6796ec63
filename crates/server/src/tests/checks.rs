//! Checks run no user code, and scripts run only after consent. See docs/security.md.

use serde_json::json;

use super::site::Site;
use crate::settings::ServerSettings;

#[test]
fn check_reports_all_problems_and_runs_nothing() {
    let site = Site::with(|settings| ServerSettings {
        registry: settings.registry.clone().with_user_code(settings.registry.find("exec").ok()),
        ..settings
    });
    site.put("people.csv", "name,age\nAda,36\n");
    let path = site.root.path().join("people.csv").display().to_string();
    let touched = site.root.path().join("touched");
    let document = json!({
        "euphrates": 1, "name": "x",
        "modules": [
            {"id": "scan_1", "module": "scan", "config": {"path": path}},
            {"id": "filter_1", "module": "filter", "config": {"where": "agee > 3"}},
            {"id": "scan_2", "module": "scan", "config": {"path": path}},
            {"id": "sort_1", "module": "sort", "config": {"by": ["age"]}},
            {"id": "collect_1", "module": "collect", "config": {}},
            {"id": "scan_3", "module": "scan", "config": {"path": path}},
            {"id": "sort_2", "module": "sort", "config": {"by": ["agee"]}},
            {"id": "far_1", "module": "scan", "config": {"path": "s3://nobody/x.csv"}},
            {"id": "odd_1", "module": "sortt", "config": {}},
            {"id": "run_1", "module": "exec",
             "config": {"command": ["touch", touched.display().to_string()]}},
        ],
        "queues": [
            {"from": "scan_1", "to": "filter_1"},
            {"from": "scan_2", "to": "sort_1"},
            {"from": "sort_1", "to": "collect_1"},
            {"from": "far_1", "to": "nobody_1"},
            {"from": "scan_3", "to": "sort_2"},
        ],
    });
    let body = json!({"document": document, "variables": {}}).to_string();
    let answer = site.ask("POST /api/check", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let response = answer.json();
    let problems = response["problems"].as_array().unwrap();
    let at = |name: &str, value: serde_json::Value| {
        problems.iter().any(|problem| problem["at"][name] == value)
    };
    assert!(at("module", json!("filter_1")) && at("module", json!("odd_1")), "{problems:#?}");
    assert!(at("queue", json!(3)), "{problems:#?}");
    // A problem of an inserted partitioner belongs to the drawn module.
    let is_wrong_key = |problem: &serde_json::Value| {
        problem["message"].as_str().is_some_and(|text| text.contains("no column named `agee`"))
            && problem["at"]["module"] == "sort_2"
    };
    assert!(problems.iter().any(is_wrong_key), "{problems:#?}");
    assert!(!at("module", json!("sort_1")) && !at("module", json!("run_1")), "{problems:#?}");
    let queues = response["queues"].as_array().unwrap();
    let queue = |from: &str, to: &str| {
        queues.iter().find(|queue| queue["from"] == from && queue["to"] == to).unwrap()
    };
    let sorted = queue("scan_2", "sort_1");
    assert_eq!(sorted["schema"][1]["name"], "age");
    assert_eq!(sorted["kind"], "distributed");
    assert!(queue("sort_1", "collect_1")["why"].as_str().unwrap().contains("consumer"));
    assert!(!touched.exists());
    for broken in [json!({}), json!(7), json!({"euphrates": 99}), json!({"euphrates": 1})] {
        let answer = site.ask("POST /api/check", &json!({"document": broken}).to_string());
        assert_eq!(answer.json()["problems"].as_array().unwrap().len(), 1, "{answer:?}");
    }
}

#[test]
fn script_runs_only_after_consent() {
    let site = Site::new();
    site.put("flow.py", "import euphrates\nraise SystemExit(1)\n");
    let response = site.ask("POST /api/script", &json!({"path": "flow.py"}).to_string()).json();
    assert_eq!(response, json!({"needs_trust": true}));
    assert_eq!(site.ask("GET /api/session", "").json()["trusted"], false);
    let consent = json!({"path": "flow.py", "run": true}).to_string();
    assert_eq!(site.ask("POST /api/script", &consent).status, 400);
    assert_eq!(site.ask("GET /api/session", "").json()["trusted"], true);
    let outside = json!({"path": "../flow.py", "run": true}).to_string();
    assert_eq!(site.ask("POST /api/script", &outside).status, 403);
}
