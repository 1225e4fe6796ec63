//! Queries become the modules that one would write by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use euphrates_flow::{Document, Result};
use serde_json::{Value, json};

use super::{TableFacts, flow};

const TABLES: [(&str, &[&str], u64); 3] = [
    ("sales", &["id", "city", "price"], 1 << 30),
    ("cities", &["city", "region"], 1 << 20),
    ("regions", &["region", "name"], 1 << 10),
];

/// The modules of a query, each with its configuration.
fn modules(query: &str) -> Vec<(String, Value)> {
    let nodes = flowed(query).unwrap().modules.into_iter();
    nodes.map(|node| (node.module, Value::Object(node.config))).collect()
}

/// How many modules of a name a query has.
fn count(query: &str, module: &str) -> usize {
    modules(query).iter().filter(|(name, _)| name == module).count()
}

fn flowed(query: &str) -> Result<Document> {
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
    flow(query, &tables, &facts)
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

#[test]
fn a_part_that_occurs_twice_is_lowered_once() {
    let totals = "with r as (select city, sum(price) as s from sales group by city)";
    let query = format!("{totals} select city from r where s = (select max(s) from r)");
    assert_eq!(["read", "spool"].map(|module| count(&query, module)), [1, 1]);
    let query = format!("{totals} select a.city from r a join r b on a.s < b.s");
    assert_eq!(["read", "aggregate", "spool"].map(|module| count(&query, module)), [1, 1, 1]);
    // Plain rows are read twice, and random ones are different ones.
    let query = "with r as (select * from sales where id > 1) select * from r a, r b";
    assert_eq!(["read", "spool"].map(|module| count(query, module)), [2, 0]);
    let random = "(select max(random()) as m from sales)";
    assert_eq!(count(&format!("select * from {random} a, {random} b"), "spool"), 0);
}

#[test]
fn each_test_by_a_subquery_adds_as_many_modules() {
    for test in [
        "price > all (select x.price from sales x where x.id < t.id)",
        "price < any (select x.price from sales x where x.price > 3)",
        "city in (select c.city from cities c)",
        "exists (select 1 from cities c where c.city = t.city)",
    ] {
        let query = |tests: usize| {
            let tests: Vec<String> =
                (0..tests).map(|number| format!("{test} as t{number}")).collect();
            modules(&format!("select id, {} from sales t", tests.join(", "))).len()
        };
        let sizes = [1, 2, 5].map(query);
        assert!(sizes[2] <= sizes[0] + 4 * (sizes[1] - sizes[0]) + 8, "{test}: {sizes:?}");
    }
}

#[test]
fn key_that_all_alternatives_share_is_that_of_the_join() {
    let shared =
        "(sales.city = cities.city and price = 1) or (sales.city = cities.city and id = 2)";
    for query in [
        format!("select id, region from sales, cities where {shared}"),
        format!("select id, region from sales join cities on {shared}"),
    ] {
        let modules = modules(&query);
        let (_, join) = modules.iter().find(|(name, _)| name == "join").unwrap();
        assert_eq!(join["on"], json!(["city"]), "{query}");
    }
}

#[test]
fn marks_of_keys_are_joins_with_distinct_keys() {
    let query = "select id from sales where city in (select city from cities) or id = 3";
    assert_eq!(["read", "join", "union"].map(|module| count(query, module)), [2, 1, 0]);
    let found = modules(query);
    let (_, join) = found.iter().find(|(name, _)| name == "join").unwrap();
    assert_eq!(join["how"], json!("left"));
}

#[test]
fn numbers_of_other_forms_are_numbers() {
    let columns = json!({"columns": ["31 as a", "1000 as b", "1000000 as c"]});
    let query = "select 0x1F as a, 1_000 as b, 1_000_000 as c from sales";
    assert_eq!(modules(query)[1..], [("project".into(), columns)]);
}

#[test]
fn comprehensions_are_calls() {
    let found = modules("select [x + 1 for x in [id, 2] if x > 1] as l from sales");
    let text = found[1].1["columns"][0].as_str().unwrap();
    assert!(text.starts_with("list_transform(list_filter("), "{text}");
}

#[test]
fn distinct_sums_are_of_groups_by_key_and_value() {
    let query = "select city, sum(distinct price) as s, count(distinct price) as n from sales \
                 group by city";
    assert_eq!(count(query, "aggregate"), 2);
    let query = "select city, sum(distinct price) as s, count(*) as n from sales group by city";
    assert_eq!(count(query, "aggregate"), 1, "a count needs all rows");
}

#[test]
fn aggregates_of_the_query_around_a_subquery_are_refused() {
    for query in [
        "select (select sum(t.price)) from sales t",
        "select id, (select max(t.price + 1) from cities) from sales t",
    ] {
        let error = flowed(query).unwrap_err();
        assert!(error.message().contains("of the query around it"), "{error}");
    }
    assert!(flowed("select (select sum(t.price + c.price) from sales c) from sales t").is_ok());
}
