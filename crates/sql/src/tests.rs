//! Queries become the modules that one would write by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use euphrates_flow::Document;
use serde_json::{Value, json};

use super::{TableFacts, flow};

const TABLES: [(&str, &[&str], u64); 3] = [
    ("sales", &["id", "city", "price"], 1 << 30),
    ("cities", &["city", "region"], 1 << 20),
    ("regions", &["region", "name"], 1 << 10),
];

/// The modules of a query, each with its configuration.
fn modules(query: &str) -> Vec<(String, Value)> {
    let table = |(name, _, _): &(&str, &[&str], u64)| {
        let mut rows = Document::new("table");
        rows.place("read", json!({"collection": name}), None);
        ((*name).to_string(), rows)
    };
    let tables: BTreeMap<String, Document> = TABLES.iter().map(table).collect();
    let facts = |rows: &Document| {
        let name = rows.modules[0].config["collection"].as_str().unwrap();
        let (_, columns, bytes) = TABLES.iter().find(|(known, _, _)| *known == name).unwrap();
        let field = |name: &&str| match *name {
            "id" | "price" => Field::new(*name, DataType::Int64, true),
            _ => Field::new(*name, DataType::Utf8, true),
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Ok(TableFacts { schema, bytes: Some(*bytes) })
    };
    let flow = flow(query, &tables, &facts).unwrap();
    let nodes = flow.modules.into_iter();
    nodes.map(|node| (node.module, Value::Object(node.config))).collect()
}

#[test]
fn renamed_and_reordered_columns_need_one_projection() {
    let query = "select y as z, x from (select city as x, price as y from sales) t";
    let columns = json!({"columns": ["price as z", "city as x"]});
    assert_eq!(modules(query)[1..], [("project".into(), columns)]);
    assert_eq!(modules("select * from (select * from sales) t").len(), 1, "no projection");
}

#[test]
fn aggregates_have_the_names_of_the_selection() {
    let query = "select city, sum(price) as paid from sales group by city order by paid desc";
    let config = json!({"by": ["city"], "values": {"paid": "sum(price)"}});
    let sort = json!({"by": ["paid desc"]});
    assert_eq!(modules(query)[1..], [("aggregate".into(), config), ("sort".into(), sort)]);
}

#[test]
fn small_tables_are_joined_first() {
    let query = "select price from sales, cities, regions where sales.city = cities.city \
                 and cities.region = regions.region and name = 'Sumer'";
    let found = modules(query);
    let sources: Vec<&Value> = found
        .iter()
        .filter(|(module, _)| module == "read")
        .map(|(_, config)| &config["collection"])
        .collect();
    assert_eq!(sources, ["sales", "cities", "regions"]);
    let joins: Vec<&Value> =
        found.iter().filter(|(module, _)| module == "join").map(|(_, config)| config).collect();
    assert_eq!(joins[0]["on"], json!(["region"]), "cities and regions come first");
    assert_eq!(joins[1]["build"], json!("right"));
}

#[test]
fn keys_that_are_columns_are_not_copied() {
    let query = "select s.price, c.region from sales s join cities c on s.city = c.city";
    let config = json!({"on": ["city"]});
    let columns = json!({"columns": ["price", "region"]});
    assert_eq!(modules(query)[2..], [("join".into(), config), ("project".into(), columns)]);
}

#[test]
fn copy_to_a_folder_has_the_options_of_duckdb() {
    let query = "copy (select * from sales) to 'out' (format Parquet, partition_by (city, \"id\"), \
                 overwrite, file_size_bytes '2MiB', filename_pattern 'data_{i}');";
    let config = json!({
        "path": "out", "format": "parquet", "partition_by": ["city", "id"], "mode": "overwrite",
        "file_bytes": 2 << 20, "file_name": "data_{i}",
    });
    assert_eq!(modules(query)[1..], [("save_dataset".into(), config)]);
    let query = "copy (select * from sales) to 'out/' with (append true)";
    let config = json!({"path": "out/", "mode": "append"});
    assert_eq!(modules(query)[1..], [("save_dataset".into(), config)]);
    let query = "copy (select * from sales) to 'a.csv' (delimiter ';', header false, null 'NA')";
    let config = json!({"path": "a.csv", "delimiter": ";", "header": false, "null_value": "NA"});
    assert_eq!(modules(query)[1..], [("save".into(), config)]);
    let config = json!({"path": "a.csv"});
    assert_eq!(modules("copy (select * from sales) to 'a.csv'")[1..], [("save".into(), config)]);
}

#[test]
fn wrong_options_of_copy_are_named() {
    for (options, expected) in [
        ("partition (city)", "`partition`"),
        ("overwrite maybe", "`maybe`"),
        ("overwrite, append", "not both"),
        ("file_size_bytes '2 parsecs'", "parsecs"),
        ("partition_by (city), header", "header"),
        ("format csv, format csv", "twice"),
        ("'x'", "no name"),
    ] {
        let query = format!("copy (select * from sales) to 'out' ({options})");
        let tokens = crate::statement::tokens(&query).unwrap();
        let error = crate::statement::Statement::parse(&query, tokens).err().expect(options);
        assert!(error.message().contains(expected), "{options}: {error}");
    }
}
