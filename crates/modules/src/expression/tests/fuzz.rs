//! Property tests: random text never panics, and conditions agree with a plain loop.

use arrow::array::{ArrayRef, BooleanArray, Int64Array};
use arrow::record_batch::RecordBatch;
use proptest::prelude::*;
use std::sync::Arc;

use super::super::*;
use super::shown;

proptest! {
    #[test]
    fn random_text_never_panics(text in "\\PC{0,60}") {
        let _ = shown(&text);
    }

    #[test]
    fn shuffled_words_never_panic(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..16),
    ) {
        let _ = shown(&words.join(" "));
    }

    #[test]
    fn conditions_agree_with_a_plain_loop(
        rows in proptest::collection::vec(proptest::option::of(-5i64..5), 1..40),
        low in -5i64..5,
        list in proptest::collection::vec(-5i64..5, 1..4),
    ) {
        let column: ArrayRef = Arc::new(Int64Array::from(rows.clone()));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap();
        let words: Vec<_> = list.iter().map(i64::to_string).collect();
        let text = format!("n >= {low} and not n in ({}) or n * 2 = 4", words.join(","));
        let condition = Expression::parse_condition(&text, batch.schema_ref()).unwrap();
        let holds = |n: i64| n >= low && !list.contains(&n) || n == 2;
        let expected = |n: &Option<i64>| n.is_some_and(holds);
        let expected: BooleanArray = rows.iter().map(|n| Some(expected(n))).collect();
        let budget = Budget::within(1 << 30);
        prop_assert_eq!(condition.matches(&batch, &budget).unwrap(), expected, "{}", text);
    }
}

const WORDS: &[&str] = &[
    "a",
    "b",
    "s",
    "price",
    "day",
    "yes",
    "st",
    "mode",
    "key",
    "1",
    "-1",
    "0",
    "0.5",
    "'x'",
    "'1'",
    "null",
    "true",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    ">=",
    "and",
    "or",
    "not",
    "is",
    "in",
    "between",
    "like",
    "ilike",
    "case",
    "when",
    "then",
    "else",
    "end",
    "cast",
    "as",
    "int",
    "date",
    "::",
    "interval",
    "'1'",
    "year",
    "extract",
    "from",
    "lower",
    "coalesce",
    "substring",
    "trim",
    "position",
    "now()",
    ".",
    "[",
    "]",
    "~",
    "distinct",
    "*",
    "$",
    "\"",
    "exists",
    "select",
    "timestamp",
    "at time zone",
    "'UTC'",
    "array",
    "struct",
    "->",
];
