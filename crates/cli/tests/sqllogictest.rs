//! Runs the queries and expected results of `slt/**/*.slt`, one test for each file, in the format
//! that SQL engines share (sqllogictest).

#[path = "sqllogictest/database.rs"]
mod database;
#[path = "sqllogictest/definitions.rs"]
mod definitions;
#[path = "sqllogictest/values.rs"]
mod values;

use std::path::Path;

use sqllogictest::harness::{Arguments, Failed, Trial, glob, run};
use sqllogictest::{Condition, Record, Runner, StatementExpect, parse_file};

use database::Database;
use values::ColumnType;

/// The most failures of a file that are printed.
const FAILURES_MAX: usize = 40;

fn main() {
    euphrates_cli::allow_subflows();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let pattern = folder.join("**/*.slt");
    let paths = glob(&pattern.to_string_lossy()).unwrap().map(|path| path.unwrap());
    let trials = paths.map(|path| {
        let name = path.strip_prefix(&folder).unwrap().with_extension("");
        Trial::test(name.to_string_lossy(), move || failures_of(&path))
    });
    let trials: Vec<Trial> = trials.collect();
    assert!(!trials.is_empty(), "no files match {}", pattern.display());
    run(&Arguments::from_args(), trials).exit();
}

/// Runs all records of a file, also those after a query that fails: a statement that fails ends it,
/// because later ones need its table.
fn failures_of(path: &Path) -> Result<(), Failed> {
    let records = parse_file::<ColumnType>(path)?;
    let mut runner = Runner::new(|| async { Database::open() });
    runner.with_validator(|_, actual, expected| {
        actual.iter().map(|row| row.join(" ")).eq(expected.iter().map(String::as_str))
    });
    runner.with_column_validator(|actual, expected| {
        let mut pairs = actual.iter().zip(expected);
        actual.len() == expected.len() && pairs.all(|(actual, expected)| actual.is(expected))
    });
    let mut failures = vec![];
    for mut record in records {
        let fails_today = take_skip(&mut record);
        let is_needed = matches!(&record, Record::Statement { expected: StatementExpect::Ok, .. });
        let text = record.to_string();
        match runner.run(record) {
            Ok(_) if fails_today => failures.push(format!("needs no skipif any more:\n{text}\n")),
            Ok(_) => {}
            Err(_) if fails_today => {}
            Err(failure) => {
                failures.push(failure.to_string());
                if is_needed {
                    break;
                }
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    let count = failures.len();
    failures.truncate(FAILURES_MAX);
    Err(format!("{count} failures\n\n{}", failures.join("\n")).into())
}

/// Whether a record has the condition `skipif euphrates`, which is removed: it is run, and has to
/// fail for as long as it has the condition.
fn take_skip(record: &mut Record<ColumnType>) -> bool {
    let (Record::Statement { conditions, .. } | Record::Query { conditions, .. }) = record else {
        return false;
    };
    let count = conditions.len();
    let is_ours =
        |one: &Condition| matches!(one, Condition::SkipIf { label } if label == database::ENGINE);
    conditions.retain(|condition| !is_ours(condition));
    conditions.len() < count
}
