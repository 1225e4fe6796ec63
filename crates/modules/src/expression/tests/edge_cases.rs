//! Values at the limits of their types: zeros and NaN of either sign, the largest decimals, dates
//! far away, and text that exceeds the memory.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float16Type, Int32Type, TimeUnit};
use arrow::util::display::array_value_to_string;
use euphrates_flow::Kind;

use super::super::*;

const NAN_NEGATIVE: f64 = f64::from_bits(0xFFF8_0000_0000_0000);

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The values of an expression, or its error, as text.
fn of(batch: &RecordBatch, text: &str) -> String {
    let values = Expression::parse(text, batch.schema_ref());
    match values.and_then(|expression| expression.evaluate(batch)) {
        Ok(array) => {
            let nulls = array.logical_nulls();
            let value = |row| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                true => "-".to_string(),
                false => array_value_to_string(&array, row).unwrap(),
            };
            (0..array.len()).map(value).collect::<Vec<_>>().join("|")
        }
        Err(error) => format!("{error}"),
    }
}

fn all_are(batch: &RecordBatch, cases: &[(&str, &str)]) {
    let wrong = cases.iter().filter_map(|(text, expected)| {
        let found = of(batch, text);
        (found != *expected).then(|| format!("{text}: {found}, not {expected}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn items_of_a_list_that_are_not_constant_are_compared_row_by_row() {
    let dictionary: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
    let batch = batch(vec![
        ("i", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("s", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
        ("v", Arc::new(StringViewArray::from(vec!["x", "z", "z"]))),
        ("c", Arc::new(dictionary)),
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(9)]))),
    ]);
    all_are(
        &batch,
        &[
            ("i in (case i when 1 then 1 else 2 end)", "true|true|false"),
            ("i not in (case i when 1 then 1 else 2 end)", "false|false|true"),
            ("i in (case when i = 1 then 1 else 2 end, 3)", "true|true|true"),
            ("s in (case i when 1 then 'x' else 'y' end)", "true|true|false"),
            ("s in (case i when 1 then s else 'y' end)", "true|true|false"),
            ("v in (case s when 'x' then 'x' else s end)", "true|false|true"),
            ("c in (case i when 3 then 'x' else s end)", "true|true|true"),
            ("i in (coalesce(n, 2))", "true|true|false"),
            ("i in (n, 3)", "true|-|true"),
            ("i not in (n, 3)", "false|-|false"),
            ("i in (nullif(i, 2))", "true|-|true"),
            ("2 in (i, n)", "false|true|false"),
            ("null in (i, 1)", "-|-|-"),
            ("i in (1, 2.5, null)", "true|-|-"),
            ("case i when case i when 1 then 1 else 3 end then 'a' else 'b' end", "a|b|a"),
            ("case when i in (case i when 1 then 1 else 2 end) then i end", "1|2|-"),
            ("i between case i when 1 then 1 else 3 end and 3", "true|false|true"),
        ],
    );
}

#[test]
fn floats_and_decimals_compare_as_doubles() {
    let decimal = Decimal128Array::from(vec![0, 150, -25]).with_precision_and_scale(15, 2).unwrap();
    let batch = batch(vec![
        ("f", Arc::new(Float64Array::from(vec![1e-17, f64::INFINITY, 1e20]))),
        ("g", Arc::new(Float32Array::from(vec![0.0, 1.5, f32::NAN]))),
        ("d", Arc::new(decimal)),
        ("none", Arc::new(Float64Array::from(vec![None, None, None]))),
    ]);
    all_are(
        &batch,
        &[
            ("f > d", "true|true|true"),
            ("f > 0.00", "true|true|true"),
            ("d < f", "true|true|true"),
            ("g = d", "true|true|false"),
            ("f + d", "1e-17|inf|1e20"),
            ("coalesce(none, d)", "0.0|1.5|-0.25"),
            ("coalesce(f, d)", "1e-17|inf|1e20"),
            ("case when d = 0 then d else f end", "0.0|inf|1e20"),
            ("greatest(d, f)", "1e-17|inf|1e20"),
            ("least(d, f)", "0.0|1.5|-0.25"),
            ("f in (d, 1e20)", "false|false|true"),
            ("f between d and 1e20", "true|false|true"),
            ("nullif(g, d)", "-|-|NaN"),
            // Literals next to decimals are decimals, as written.
            ("coalesce(none, cast(1 as double))", "1.0|1.0|1.0"),
            ("coalesce(d, cast(1 as double))", "0.0|1.5|-0.25"),
            ("coalesce(d, 0.5)", "0.00|1.50|-0.25"),
            ("greatest(d, 0.125)", "0.125|1.500|0.125"),
            ("d = '1.499'", "false|false|false"),
        ],
    );
}

#[test]
fn long_literals_keep_their_digits() {
    let large = Decimal128Array::from(vec![10i128.pow(38) - 1]);
    let small = Decimal128Array::from(vec![1_234_567_890_123_456_789_012]);
    let batch = batch(vec![
        ("large", Arc::new(large.with_precision_and_scale(38, 0).unwrap())),
        ("small", Arc::new(small.with_precision_and_scale(38, 21).unwrap())),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX]))),
    ]);
    all_are(
        &batch,
        &[
            ("large = 99999999999999999999999999999999999999", "true"),
            ("large = 99999999999999999999999999999999999998", "false"),
            ("small = 1.234567890123456789012", "true"),
            ("small = 1.234567890123456789013", "false"),
            ("u = 18446744073709551615", "true"),
            ("u - 18446744073709551614", "1"),
            ("u + -1", "18446744073709551614"),
        ],
    );
}

#[test]
fn decimals_that_overflow_are_errors() {
    let most = 10i128.pow(38) - 1;
    let of_scale = |values: Vec<i128>, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap())
    };
    let batch = batch(vec![
        ("d", of_scale(vec![1, most], 0)),
        ("e", of_scale(vec![1, -most], 0)),
        ("h", of_scale(vec![1, most], 19)),
        ("i", Arc::new(Int64Array::from(vec![1, i64::MIN]))),
        ("j", Arc::new(Int8Array::from(vec![1, i8::MAX]))),
    ]);
    for text in [
        "d + 1",
        "d - -1",
        "e - 1",
        "d * 10",
        "d * d",
        "d + d",
        "h * 10",
        "h * h",
        "-i",
        "i - 1",
        "i * 2",
        "abs(i)",
        "j + j",
        "cast(d as bigint)",
        "cast(h as decimal(20, 0)) + 0",
        "cast(d as decimal(10, 0))",
        "cast(i as int)",
        "cast(d as decimal(38, 2))",
    ] {
        let found = of(&batch, text);
        assert!(found.contains("row 1 of a batch") || text.contains("+ 0"), "{text}: {found}");
    }
    all_are(&batch, &[("d - 1", "0|99999999999999999999999999999999999998"), ("i % -1", "0|0")]);
}

#[test]
fn every_nan_is_equal_and_above_all_numbers() {
    let values = vec![NAN_NEGATIVE, f64::NAN, f64::INFINITY, -1.0];
    let half: ArrayRef = Arc::new(Float64Array::from(values.clone()));
    let half = cast(&half, &DataType::Float16).unwrap();
    assert!(half.as_primitive::<Float16Type>().value(0).is_nan());
    let batch = batch(vec![
        ("f", Arc::new(Float64Array::from(values.clone()))),
        ("g", Arc::new(Float32Array::from_iter_values(values.iter().map(|x| *x as f32)))),
        ("h", half),
        ("n", Arc::new(Float64Array::from(vec![f64::NAN; 4]))),
        ("one", Arc::new(Float64Array::from(vec![1.0; 4]))),
    ]);
    for column in ["f", "g", "h"] {
        let on = |text: &str| of(&batch, &text.replace('?', column));
        for (text, expected) in [
            ("? > 1", "true|true|true|false"),
            ("? >= one", "true|true|true|false"),
            ("? < one", "false|false|false|true"),
            ("? = n", "true|true|false|false"),
            ("? <> n", "false|false|true|true"),
            ("? is distinct from n", "false|false|true|true"),
            ("? in (n, 5)", "true|true|false|false"),
            ("? in (1, cast('nan' as double))", "true|true|false|false"),
            ("? not in (cast('nan' as double))", "false|false|true|true"),
            ("? between 0 and n", "true|true|true|false"),
            ("case ? when n then 1 else 0 end", "1|1|0|0"),
            ("case ? when cast('nan' as double) then 1 else 0 end", "1|1|0|0"),
            ("nullif(?, n) is null", "true|true|false|false"),
            ("greatest(?, one) = n", "true|true|false|false"),
            ("least(?, one)", "1.0|1.0|1.0|-1.0"),
        ] {
            assert_eq!(on(text), expected, "{text} of {column}");
        }
    }
}

#[test]
fn zeros_of_either_sign_are_equal() {
    let batch = batch(vec![
        ("f", Arc::new(Float64Array::from(vec![-0.0, 0.0]))),
        ("g", Arc::new(Float64Array::from(vec![0.0, -0.0]))),
    ]);
    all_are(
        &batch,
        &[
            ("nullif(-0.0, 0e0)", "-|-"),
            ("nullif(f, g)", "-|-"),
            ("nullif(f, 0)", "-|-"),
            ("nullif(0.0, f)", "-|-"),
            ("f = g", "true|true"),
            ("f < g", "false|false"),
            ("f is distinct from g", "false|false"),
            ("f is distinct from 0.0", "false|false"),
            ("f in (g, 7)", "true|true"),
            ("f in (0.0, 7)", "true|true"),
            ("case f when g then 1 else 0 end", "1|1"),
            ("case f when 0.0 then 1 else 0 end", "1|1"),
            ("f between g and g", "true|true"),
            ("greatest(f, g)", "0.0|0.0"),
        ],
    );
}

#[test]
fn dates_of_all_years_compare_with_timestamps() {
    let days = vec![0, 200_000, 90_000_000, -90_000_000, i32::MAX, i32::MIN];
    let far: ArrayRef = Arc::new(Int64Array::from(vec![
        0,
        200_000 * 86_400,
        90_000_000 * 86_400,
        -90_000_000 * 86_400,
        i64::MAX,
        i64::MIN,
    ]));
    let at = |unit| cast(&far, &DataType::Timestamp(unit, None)).unwrap();
    let batch = batch(vec![
        ("day", Arc::new(Date32Array::from(days))),
        ("s", at(TimeUnit::Second)),
        ("us", at(TimeUnit::Microsecond)),
        ("ns", at(TimeUnit::Nanosecond)),
    ]);
    all_are(
        &batch,
        &[
            ("day = s", "true|true|true|true|false|false"),
            ("day > s", "false|false|false|false|false|true"),
            ("day < us", "false|false|false|true|false|true"),
            ("day is not distinct from ns", "true|false|false|false|false|false"),
            ("s > us", "false|true|true|false|true|false"),
            ("day > TIMESTAMP '2262-05-01 00:00:00'", "false|true|true|false|true|false"),
            ("day > '2262-05-01 12:00:00'", "false|true|true|false|true|false"),
            ("s in (day)", "true|true|true|true|false|false"),
            ("case day when s then 1 else 0 end", "1|1|1|1|0|0"),
            ("day between s and s", "true|true|true|true|false|false"),
            ("extract(year from day)", "1970|2517|248381|-244442|5881580|-5877641"),
            ("extract(month from day)", "1|8|8|5|7|6"),
            ("extract(dow from date_trunc('week', day))", "1|1|1|1|1|1"),
            ("extract(day from date_trunc('month', day))", "1|1|1|1|1|1"),
            ("extract(doy from date_trunc('year', day))", "1|1|1|1|1|1"),
            ("date_trunc('day', day) = day", "true|true|true|true|true|true"),
            ("extract(epoch from day) / 86400", {
                "0.0|200000.0|90000000.0|-90000000.0|2147483647.0|-2147483648.0"
            }),
        ],
    );
    let near = [("cast(s as date) = s", "true|true|true|true"), ("2 + day - day", "2|2|2|2")];
    all_are(&batch.slice(0, 4), &near);
    for text in ["cast(s as date)", "day + 1", "date_bin(interval '1 day', us)"] {
        let found = of(&batch, text);
        assert!(found.contains("row 4 of a batch"), "{text}: {found}");
    }
}

#[test]
fn malformed_regex_fails_before_start() {
    let batch = batch(vec![
        ("s", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("p", Arc::new(StringArray::from(vec!["a", "("]))),
    ]);
    for text in ["s ~ 'a('", "s !~* '['", "regexp_replace(s, '(a', 'b')", "regexp_like(s, '*')"] {
        let error = Expression::parse(text, batch.schema_ref()).unwrap_err();
        let shown = error.to_string();
        assert_eq!(error.kind(), Kind::Usage, "{shown}");
        assert!(shown.contains("is no regular expression") && shown.contains('^'), "{shown}");
    }
    for text in ["s ~ p", "regexp_like(s, p)", "regexp_replace(s, p, 'x')", "regexp_count(s, p)"] {
        let shown = of(&batch, text);
        assert!(shown.contains("row 1 of a batch"), "{text}: {shown}");
        assert!(!shown.contains("DataFusion") && !shown.contains("bug"), "{text}: {shown}");
    }
}

fn numbers(rows: i64) -> RecordBatch {
    batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..rows)))])
}

#[test]
fn growing_results_are_evaluated_in_slices() {
    let batch = numbers(3000);
    let budget = Budget::within(64 << 20);
    for text in [
        "length(repeat(cast(n as varchar), 100000)) > 1",
        "length(repeat(repeat('x', 1000), 1000)) > n",
        "length(lpad('', 1000000, cast(n as varchar))) > n",
        "length(replace(repeat('a', 10000), 'a', repeat('b', 100))) > n",
        "length(concat(repeat('a', 100000), repeat('b', 900000))) > n",
        "length(repeat('a', 500000) || repeat('b', 500000)) > n",
        "length(case when n >= 0 then repeat('a', 1000000) else '' end) > n",
        "length(regexp_replace(repeat('a', 10000), 'a', repeat('b', 100), 'g')) > n",
    ] {
        let condition = Expression::parse_condition(text, batch.schema_ref()).unwrap();
        let matches = condition.matches(&batch, &budget).unwrap();
        assert_eq!(matches.true_count(), 3000, "{text}");
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let batch = numbers(3);
    let budget = Budget::within(64 << 20);
    for text in [
        "repeat('x', 1000000000000) = 'x'",
        "repeat(repeat('xyz', 1000000), 1000000) = 'x'",
        "lpad('x', 2000000000) = 'x'",
        "rpad(cast(n as varchar), 2000000000) = 'x'",
        "repeat('x', n * 1000000000000) = 'x'",
        "replace('aaaa', '', repeat('x', 100000000)) = 'x'",
    ] {
        let condition = Expression::parse_condition(text, batch.schema_ref()).unwrap();
        let error = condition.matches(&batch, &budget).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource, "{text}: {error}");
        assert!(error.to_string().contains("of a batch of its input"), "{text}: {error}");
    }
}
