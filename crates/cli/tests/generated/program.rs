//! A flow, as a program.

use euphrates_engine::{Options, go};
use euphrates_flow::document::{Port, Variable};
use euphrates_flow::{Document, QueueKind, Result};
use serde_json::json;

fn main() -> Result<()> {
    let report = go(&flow(), &euphrates_modules::registry(), &Options::default())?;
    println!("{report}");
    Ok(())
}

/// The flow.
pub fn flow() -> Document {
    let mut flow = Document::new("\"); std::process::exit(1) //\u{202e}");
    flow.variables.insert("a \"name\"".into(), Variable { default: None, doc: None });
    flow.variables.insert(
        "rows".into(),
        Variable { default: Some(json!(5000000000_i64)), doc: Some("how many".into()) },
    );
    let generate_1 = flow.place(
        "generate",
        json!({
            "what": "integers",
            "rows": {"$var": "rows"},
            "numbers": [
                -1,
                1.5e+300,
                18446744073709551615_u64,
                -9223372036854775808_i64,
                null,
                true,
                [],
                {},
            ],
        }),
        Some(2),
    );
    let module_1 = flow.place_as("fn", "tee", json!({"#\"#": "r#\"\n\\"}), None);
    let collect_1 = flow.place("collect", json!({}), None);
    let count_1 = flow.place("count", json!({}), None);
    flow.place("alone", json!({}), None);
    flow.attach(&generate_1, &module_1).queue = Some(QueueKind::Pairwise);
    let queue = flow.attach(&module_1, &collect_1);
    queue.output = Some(Port::Name("0".into()));
    queue.input = Some(Port::Position(0));
    queue.bytes_max = Some(8589934592);
    flow.attach(&module_1, &count_1);
    flow.attach(&count_1, "nobody");
    flow.layout = Some(json!({"zoom": 0.5}));
    flow
}
