//! Table-driven tests of expressions: the text, and the values or the error.

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Fields, Int32Type, TimeUnit};
use arrow::util::display::array_value_to_string;

use super::*;

mod edge_cases;
mod fuzz;

/// Three rows of columns of many types; the last row is mostly null.
fn sample() -> RecordBatch {
    let decimal = Decimal128Array::from(vec![Some(1050), Some(-25), None]);
    let decimal = decimal.with_precision_and_scale(15, 2).unwrap();
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    let fields = Fields::from(vec![Field::new("inner", DataType::Int64, true)]);
    // There are values beneath these nulls.
    let gaps = |at: [bool; 3]| Some(NullBuffer::from(at.to_vec()));
    let gap = StructArray::new(fields.clone(), vec![inner.clone()], gaps([true, false, true]));
    let far = Fields::from(vec![Field::new("gap", gap.data_type().clone(), true)]);
    let far = StructArray::new(far, vec![Arc::new(gap.clone())], gaps([true, true, false]));
    let dictionary: DictionaryArray<Int32Type> =
        vec![Some("AIR"), Some("SHIP"), None].into_iter().collect();
    let stamps = TimestampMicrosecondArray::from(vec![Some(0), Some(86_400_000_001), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
        ("b", Arc::new(Float64Array::from(vec![Some(0.5), Some(-2.0), None]))),
        ("small", Arc::new(Int8Array::from(vec![Some(100), Some(-128), None]))),
        ("s", Arc::new(StringArray::from(vec![Some("Apple"), Some("böse %"), None]))),
        ("v", Arc::new(StringViewArray::from(vec![Some("x"), Some("y"), None]))),
        ("mode", Arc::new(dictionary)),
        ("price", Arc::new(decimal)),
        ("day", Arc::new(Date32Array::from(vec![Some(8766), Some(10000), None]))),
        ("at", Arc::new(stamps)),
        ("yes", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("Mixed Case", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("st", Arc::new(StructArray::new(fields, vec![inner], None))),
        ("gap", Arc::new(gap)),
        ("far", Arc::new(far)),
        ("key", Arc::new(BinaryArray::from(vec![Some(b"ab" as &[u8]), Some(b"\xff"), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// The projection of a batch that is small enough to stay in one slice.
fn whole(projection: &Projection, batch: &RecordBatch) -> RecordBatch {
    let mut out = vec![];
    let mut give = |slice| {
        out.push(slice);
        Ok(())
    };
    projection.evaluate(batch, &Budget::within(1 << 30), &mut give).unwrap();
    assert_eq!(out.len(), 1);
    out.remove(0)
}

fn shown(text: &str) -> String {
    let batch = sample();
    let expression = match Expression::parse(text, batch.schema_ref()) {
        Ok(expression) => expression,
        Err(error) => return format!("{error}"),
    };
    match expression.evaluate(&batch) {
        Ok(array) => {
            assert_eq!(array.data_type(), expression.data_type(), "{text}");
            assert!(expression.nullable() || array.null_count() == 0, "{text}");
            let nulls = array.logical_nulls();
            let value = |row| match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                true => "-".to_string(),
                false => array_value_to_string(&array, row).unwrap(),
            };
            (0..3).map(value).collect::<Vec<_>>().join("|")
        }
        Err(error) => format!("{error}"),
    }
}

#[test]
fn expressions_follow_sql() {
    let mut wrong = vec![];
    for (text, expected) in [
        // Columns and literals.
        ("a", "1|2|-"),
        ("A", "1|2|-"),
        ("\"Mixed Case\"", "1|2|3"),
        ("\"mixed case\"", "1|2|3"),
        ("1", "1|1|1"),
        ("18446744073709551615", "18446744073709551615|18446744073709551615|18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808|-9223372036854775808|-9223372036854775808"),
        ("'it''s'", "it's|it's|it's"),
        ("X'0aFF' = X'0AFF'", "true|true|true"),
        ("null", "-|-|-"),
        ("DATE '1994-01-01' = day", "true|false|-"),
        ("TIMESTAMP '1970-01-02 00:00:00.000001' = at", "false|true|-"),
        ("st.inner + 1", "8|9|10"),
        ("st['inner']", "7|8|9"),
        // Arithmetic.
        ("a + 1", "2|3|-"),
        ("-a", "-1|-2|-"),
        ("a * b", "0.5|-4.0|-"),
        ("a / 2", "0|1|-"),
        ("7 % 4", "3|3|3"),
        ("a - -1", "2|3|-"),
        ("price * (1 - 0.05)", "9.9750|-0.2375|-"),
        ("price + 1", "11.50|0.75|-"),
        ("a is distinct from 1 and a > 5 or b < 0", "false|true|-"),
        ("not a is not distinct from 1 and yes", "false|false|-"),
        ("0.06 - 0.01", "0.05|0.05|0.05"),
        ("price = 10.4 + 0.1", "true|false|-"),
        ("b = 0.1 * 3 + 0.2", "true|false|-"),
        ("price / 2", "5.250000|-0.125000|-"),
        ("small + 100", "200|-28|-"),
        ("a + a", "2|4|-"),
        ("day + INTERVAL '1' YEAR", "1995-01-01|1998-05-19|-"),
        ("day + INTERVAL '1 month 2 days'", "1994-02-03|1997-06-21|-"),
        ("day - DATE '1994-01-01'", "0|1234|-"),
        // Comparison.
        ("a > 1", "false|true|-"),
        ("a > 1.5", "false|true|-"),
        ("price > 10", "true|false|-"),
        ("price > 10.499", "true|false|-"),
        ("price = 10.5", "true|false|-"),
        ("small < 1000", "true|true|-"),
        ("s = 'Apple'", "true|false|-"),
        ("v <> 'x'", "false|true|-"),
        ("mode = 'AIR'", "true|false|-"),
        ("key = 'ab'", "true|false|-"),
        ("day >= '1994-01-02'", "false|true|-"),
        ("day > '1994-01-01 00:00:01'", "false|true|-"),
        ("at > day", "false|false|-"),
        ("'2' = a", "false|true|-"),
        ("a = null", "-|-|-"),
        ("a is distinct from 1", "false|true|true"),
        ("a is not distinct from null", "false|false|true"),
        // Logic.
        ("a = 1 and yes", "true|false|-"),
        ("a = 1 or yes or a = 2", "true|true|-"),
        ("not yes", "false|true|-"),
        ("a is null", "false|false|true"),
        ("a is not null", "true|true|false"),
        ("yes is true", "true|false|false"),
        ("yes is not true", "false|true|true"),
        ("yes is false", "false|true|false"),
        ("yes is unknown", "false|false|true"),
        ("a in (1, 3)", "true|false|-"),
        ("a not in (1, 3)", "false|true|-"),
        ("a in (3, null)", "-|-|-"),
        ("s in ('Apple', 'x')", "true|false|-"),
        ("mode in ('AIR', 'RAIL')", "true|false|-"),
        ("price in (10.5, 3)", "true|false|-"),
        ("day in ('1994-01-01')", "true|false|-"),
        ("a + 1 in (a, 2)", "true|false|-"),
        ("a between 2 and 3", "false|true|-"),
        ("a not between 2 and 3", "true|false|-"),
        ("price between 0.05 and 10.50", "true|false|-"),
        ("s like 'A%e'", "true|false|-"),
        ("s not like 'A%e'", "false|true|-"),
        ("s like '% \\%'", "false|true|-"),
        ("s ilike 'a%'", "true|false|-"),
        ("v like 'x'", "true|false|-"),
        ("mode like 'A%'", "true|false|-"),
        ("s ~ 'p+'", "true|false|-"),
        // CASE, casts and functions with special syntax.
        ("case when a = 1 then 'one' when a = 2 then s end", "one|böse %|-"),
        ("case a when 1 then 10 else 0.5 end", "10.0|0.5|0.5"),
        ("case when a = 1 then null else 2 end", "-|2|2"),
        ("cast(a as double)", "1.0|2.0|-"),
        ("a::text || s", "1Apple|2böse %|-"),
        ("s || a", "Apple1|böse %2|-"),
        ("cast(price as decimal(10, 1))", "10.5|-0.3|-"),
        ("try_cast(s as int)", "-|-|-"),
        ("cast(day as timestamp) = TIMESTAMP '1994-01-01 00:00:00'", "true|false|-"),
        ("extract(year from day)", "1994|1997|-"),
        ("date_part('month', day)", "1|5|-"),
        ("date_trunc('year', at)", "1970-01-01T00:00:00|1970-01-01T00:00:00|-"),
        ("substring(s from 2 for 3)", "ppl|öse|-"),
        ("substr(s, 2)", "pple|öse %|-"),
        ("trim('  x ')", "x|x|x"),
        ("trim(leading 'A' from s)", "pple|böse %|-"),
        ("position('p' in s)", "2|0|-"),
        ("upper(s)", "APPLE|BÖSE %|-"),
        ("LENGTH(s)", "5|6|-"),
        ("coalesce(a, 0)", "1|2|0"),
        ("nullif(a, 1)", "-|2|-"),
        ("abs(b)", "0.5|2.0|-"),
        ("round(b * 3)", "2.0|-6.0|-"),
        ("ceil(b)", "1.0|-2.0|-"),
        ("floor(b)", "0.0|-2.0|-"),
        ("concat(s, '-', a)", "Apple-1|böse %-2|-"),
        ("regexp_replace(s, 'p+', 'P')", "APle|böse %|-"),
        ("now() > TIMESTAMP '2020-01-01 00:00:00'", "true|true|true"),
        ("current_date > day", "true|true|-"),
        ("greatest(a, 2)", "2|2|2"),
        ("starts_with(s, 'A')", "true|false|-"),
        // Values beneath nulls are ignored.
        ("gap.inner", "7|-|9"),
        ("get_field(gap, 'inner')", "7|-|9"),
        ("far.gap.inner", "7|-|-"),
        ("get_field(far, 'gap', 'inner')", "7|-|-"),
        // A side that fails does not matter where the other one decides.
        ("\"Mixed Case\" <> 2 and 10 / (\"Mixed Case\" - 2) > 2", "false|false|true"),
        ("\"Mixed Case\" = 2 or 10 / (\"Mixed Case\" - 2) > 2", "false|true|true"),
        ("a <> 2 and 10 / (a - 2) > 2", "false|false|-"),
        ("not (a = 2 or 10 / (a - 2) > 2) and (a <> 2 and 1 / (a - 2) < 0)", "true|false|-"),
        // Zeros are equal.
        ("b * 0 in (0.0)", "true|true|-"),
        ("b * 0 not in (1, 0)", "false|false|-"),
        ("b in (0.5, null)", "true|-|-"),
        ("case b * 0 when 0.0 then 'zero' else 'none' end", "zero|zero|none"),
        ("case a - 2 when 0.0 then 'zero' when -1 then 'less' end", "less|zero|-"),
    ] {
        let shown = shown(text);
        if shown != expected {
            wrong.push(format!("{text}: {shown}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn errors_explain_the_mistake() {
    let mut wrong = vec![];
    for (text, parts) in [
        ("quest > 1", &["no column named `quest`", "columns: a, b"] as &[&str]),
        ("prise > 1", &["no column named `prise`", "did you mean `price`?"]),
        ("s = \"Apple pie\"", &["no column named", "'single quotes'"]),
        ("lenght(s)", &["no function named `lenght`", "did you mean `length`?"]),
        ("sum(a)", &["no function named `sum`", "one row"]),
        ("a >", &["expected an expression", "^"]),
        ("a > 1 b", &["not expected here", "          ^"]),
        ("a = 'x'", &["'x' does not read as a whole number"]),
        ("s > 3", &["cannot compare `s` (text) with `3` (a whole number)", "CAST"]),
        ("coalesce(day, s)", &["have no common type", "CAST"]),
        ("day = yes", &["cannot compare `day` (a date) with `yes` (true or false)"]),
        ("s + 1", &["+ needs numbers, but `s` (text) is none"]),
        ("a and yes", &["must be true or false, but `a` is a whole number"]),
        ("a like 'x'", &["LIKE needs text, but `a` is a whole number"]),
        ("not a", &["must be true or false"]),
        ("upper()", &["`upper`"]),
        ("sqrt(yes)", &["`sqrt` does not take (true or false)", "as sqrt("]),
        ("cast(yes as date)", &["`yes` (true or false) cannot be made a date"]),
        ("cast(a as nonsense)", &["no type named `nonsense`"]),
        ("cast(a as decimal(50, 2))", &["DECIMAL(50, 2) is not possible"]),
        ("DATE '1994-13-01'", &["'1994-13-01' does not read as a date"]),
        ("INTERVAL '3'", &["does not read as an interval"]),
        ("INTERVAL 'x' DAY", &["does not read as an interval"]),
        ("(select 1)", &["not supported"]),
        ("st.outer", &["no field `outer`", "fields: inner"]),
        ("a.b", &["`a` (a whole number) has no fields"]),
        ("case when a then 1 end", &["must be true or false"]),
        ("a -> 1", &["json_extract"]),
        ("s like s escape '!'", &["backslash"]),
        ("$1 = 2", &["$1"]),
        // Errors that depend on the data.
        ("a / 0", &["`a / 0`", "ivide by zero"]),
        ("a + 9223372036854775807", &["verflow"]),
        ("cast(s as int)", &["Apple"]),
    ] {
        let shown = shown(text);
        for part in parts {
            if !shown.contains(part) {
                wrong.push(format!("{text}: {shown}\n    has no {part}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_condition_must_be_true_or_false() {
    let batch = sample();
    let error = Expression::parse_condition("a + 1", batch.schema_ref()).unwrap_err();
    assert!(error.to_string().contains("a condition must be true or false"), "{error}");
    let condition = Expression::parse_condition("a = 2 or yes", batch.schema_ref()).unwrap();
    assert_eq!(condition.columns(), [0, 9]);
    let matches = condition.matches(&batch, &Budget::within(1 << 30)).unwrap();
    assert_eq!(matches, BooleanArray::from(vec![true, true, false]));
}

#[test]
fn projections_name_copy_and_compute() {
    let batch = sample().project(&[0, 1, 10]).unwrap();
    for (items, names) in [
        (&["*"] as &[&str], "a,b,Mixed Case"),
        (&["b, a"], "b,a"),
        (&["Mixed Case", "A as x"], "Mixed Case,x"),
        (&["b*2 as c, *"], "c,a,b,Mixed Case"),
        (&["* exclude (a)", "a+1"], "b,Mixed Case,a + 1"),
        (&["* except (a, b)"], "Mixed Case"),
        (&["1 as one"], "one"),
    ] {
        let projection = parse_projection(items, batch.schema_ref()).unwrap();
        let out = whole(&projection, &batch);
        let schema = out.schema();
        let found: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(found.join(","), names);
        assert_eq!((out.num_rows(), &schema), (3, projection.schema()));
    }
    for (items, wrong) in [
        (&["*", "a"] as &[&str], "two columns are named `a`"),
        (&["x"], "no column named `x`"),
        (&["* exclude (x)"], "no column named `x`"),
        (&["a as"], "expected"),
        (&["st.*"], "not supported"),
    ] {
        let error = parse_projection(items, batch.schema_ref()).unwrap_err();
        assert!(error.to_string().contains(wrong), "{items:?}: {error}");
    }
}

#[test]
fn unrelated_duplicate_columns_are_allowed() {
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let fields = ["x", "x", "y"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(schema, vec![one.clone(), one.clone(), one]).unwrap();
    let sum = Expression::parse("y + 1", batch.schema_ref()).unwrap();
    assert_eq!(sum.evaluate(&batch).unwrap().as_ref(), &Int64Array::from(vec![2]));
    let error = Expression::parse("x + 1", batch.schema_ref()).unwrap_err();
    assert!(error.to_string().contains("could be any of"), "{error}");
}

#[test]
fn constants_are_folded_and_literals_coerced() {
    let batch = sample();
    for (text, parts) in [
        ("day < DATE '1994-01-01' + INTERVAL '1' YEAR", "day@0 < 1995-01-01"),
        ("price > 10", "price@0 > 10.00"),
        ("small < 100", "small@0 < 100"),
        ("s = upper('x')", "s@0 = X"),
    ] {
        let expression = Expression::parse(text, batch.schema_ref()).unwrap();
        assert_eq!(expression.physical.to_string(), parts, "{text}");
    }
}

#[test]
fn long_lists_and_long_chains_are_read() {
    let list: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    assert_eq!(shown(&format!("a in ({})", list.join(","))), "true|true|-");
    let chain: Vec<String> = (0..1000).map(|n| format!("a = {n}")).collect();
    assert_eq!(shown(&chain.join(" or ")), "true|true|-");
    assert_eq!(shown(&format!("a{}", " + 1".repeat(90))), "91|92|-");
    let deep = shown(&format!("a{}", " + 1".repeat(1000)));
    assert!(deep.contains("nested too deeply"), "{deep}");
    let calls = format!("{}s{}", "lower(".repeat(20), ")".repeat(20));
    assert_eq!(shown(&calls), "apple|böse %|-");
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let expression =
        Expression::parse("TIMESTAMP '2020-01-01 00:00:00.123456789'", sample().schema_ref());
    assert_eq!(*expression.unwrap().data_type(), nanos);
}

#[test]
fn every_function_evaluates_or_explains() {
    let batch = sample();
    let mut wrong = vec![];
    for name in calls::names() {
        for args in ["", "a", "s", "b, 2", "s, 'x'", "s, 1, 2", "day", "'year', day", "st"] {
            let text = format!("{name}({args})");
            // It may fail, but must not panic or mention internals of the library.
            let value = Expression::parse(&text, batch.schema_ref());
            let Err(error) = value.and_then(|expression| expression.evaluate(&batch)) else {
                continue;
            };
            let said = error.to_string();
            let inside =
                ["DataFusion", "datafusion", "nternal error", "bug", "panic", "arrow_array"];
            if inside.iter().any(|word| said.replace("those of DataFusion", "").contains(word)) {
                wrong.push(format!("{text}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
