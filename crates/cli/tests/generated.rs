//! Generated Rust code of a flow compiles and builds the same flow.

use euphrates_flow::code::{Language, code};
use euphrates_flow::document::{Port, Variable};
use euphrates_flow::{Document, QueueKind};
use serde_json::json;

#[allow(dead_code, clippy::print_stdout)]
#[rustfmt::skip]
#[path = "generated/program.rs"]
mod program;

/// A document with every kind of entry, and with names that look like code.
fn sample() -> Document {
    let mut flow = Document::new("\"); std::process::exit(1) //\u{202e}");
    let rows = Variable { default: Some(json!(5_000_000_000_i64)), doc: Some("how many".into()) };
    flow.variables.insert("rows".into(), rows);
    flow.variables.insert("a \"name\"".into(), Variable::default());
    let numbers = json!([-1, 1.5e300, u64::MAX, i64::MIN, null, true, [], {}]);
    let config = json!({"what": "integers", "rows": {"$var": "rows"}, "numbers": numbers});
    let source = flow.place("generate", config, Some(2));
    let strange = flow.place_as("fn", "tee", json!({"#\"#": "r#\"\n\\"}), None);
    let (one, two) = (flow.place("collect", json!({}), None), flow.place("count", json!({}), None));
    flow.attach(&source, &strange).queue = Some(QueueKind::Pairwise);
    let queue = flow.attach(&strange, &one);
    queue.output = Some(Port::Name("0".into()));
    queue.input = Some(Port::Position(0));
    queue.bytes_max = Some(1 << 33);
    flow.attach(&strange, &two);
    flow.attach(&two, "nobody");
    flow.place("alone", json!({}), None);
    flow.layout = Some(json!({"zoom": 0.5}));
    flow
}

#[test]
fn generated_program_builds_its_flow() {
    let written = code(&sample(), &Default::default(), Language::Rust).unwrap();
    let expected = include_str!("generated/program.rs");
    if std::env::var_os("EUPHRATES_REWRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated/program.rs");
        std::fs::write(path, &written).unwrap();
    }
    assert_eq!(written, expected, "to keep it, run this test with EUPHRATES_REWRITE=1");
    assert_eq!(program::flow(), sample());
}
