//! Tests of the split of CSV into fields.

use super::*;
use crate::csv::quotes::{QuoteState, Quoting};
use crate::options::ReadOptions;
use proptest::prelude::*;

fn records(text: &str, step: usize, keep_blank: bool) -> Result<Vec<Vec<String>>, Unclosed> {
    in_dialect(ReadOptions::default(), text, step, keep_blank)
}

fn in_dialect(
    options: ReadOptions,
    text: &str,
    step: usize,
    keep_blank: bool,
) -> Result<Vec<Vec<String>>, Unclosed> {
    let dialect = Dialect::to_read(&options, None).unwrap();
    let mut records = Tokenizer::new(&dialect, keep_blank);
    let mut all = vec![];
    let drain = |records: &mut Tokenizer, all: &mut Vec<Vec<String>>| {
        for record in 0..records.len() {
            let fields = (0..records.width(record)).map(|column| {
                let Cell { text, quoted, .. } = records.field(record, column);
                let text = String::from_utf8(text.into_owned()).unwrap();
                if quoted { format!("<{text}>") } else { text }
            });
            all.push(fields.collect());
        }
        records.clear();
    };
    for part in text.as_bytes().chunks(step) {
        let mut at = 0;
        while at < part.len() {
            at += records.take(&part[at..], |records| records.len() == 2);
            if records.len() == 2 {
                drain(&mut records, &mut all);
            }
        }
    }
    records.finish()?;
    drain(&mut records, &mut all);
    Ok(all)
}

#[test]
fn fields_are_split_and_unquoted() {
    let cases: [(&str, &[&[&str]]); 14] = [
        ("", &[]),
        ("a,b\nc,d", &[&["a", "b"], &["c", "d"]]),
        ("a,b\r\nc,d\r", &[&["a", "b"], &["c", "d"]]),
        ("a\rb\r\r\nc\n", &[&["a"], &["b"], &["c"]]),
        ("\n\na,\n\n", &[&["a", ""]]),
        ("\"\"\n\"\",x", &[&["<>"], &["<>", "x"]]),
        ("\"a\nb\",\"c,d\"\ne", &[&["<a\nb>", "<c,d>"], &["e"]]),
        ("\"a\"\"b\"\n", &[&["<a\"b>"]]),
        ("\"\"\"\"", &[&["<\">"]]),
        ("\"a\"b\"c\",d", &[&["<ab\"c\">", "d"]]),
        ("a\"b\",c", &[&["a\"b\"", "c"]]),
        ("a,", &[&["a", ""]]),
        (",\n", &[&["", ""]]),
        ("x\n\"y\"", &[&["x"], &["<y>"]]),
    ];
    for (text, expected) in cases {
        for step in 1..5 {
            assert_eq!(records(text, step, false).unwrap(), expected, "{text:?} by {step}");
        }
    }
    assert_eq!(records("a\n\nb\n\n", 3, true).unwrap(), [["a"], [""], ["b"], [""]]);
    assert_eq!(records("a\r\n\r\nb", 1, true).unwrap(), [["a"], [""], ["b"]]);
    assert!(records("a,b\n1,\"open\n2,y\n", 4, false).is_err());
}

#[test]
fn options_set_quotes_escapes_and_comments() {
    let options = |quote: &str, escape: Option<char>, comment: Option<char>| ReadOptions {
        quote: Some(quote.into()),
        escape,
        comment,
        ..ReadOptions::default()
    };
    let cases: [(ReadOptions, &str, &[&[&str]]); 9] = [
        (options("'", None, None), "'a,''b',\"c\"\n", &[&["<a,'b>", "\"c\""]]),
        (options("", None, None), "\"a,b\"\n", &[&["\"a", "b\""]]),
        (options("\"", Some('\\'), None), "\"a\\\"b\\\\\",c\\,d\n", &[&["<a\"b\\>", "c,d"]]),
        (options("\"", Some('\\'), None), "\"a\"\"b\"\n", &[&["<a\"b>"]]),
        (options("", Some('\\'), None), "a\\\nb,c\\", &[&["a\nb", "c\\"]]),
        (
            options("\"", None, Some('#')),
            "# \"x\n  # y\r\na,b # c\n#\n\"d#\"# e\n\"f\" #g",
            &[&["a", "b"], &["<d#>"], &["<f>"]],
        ),
        (
            options("\"", None, Some('#')),
            "a,#b\n,c#\n1,2\n#",
            &[&["a", ""], &["", "c"], &["1", "2"]],
        ),
        (options("\"", Some('\\'), Some('#')), "a\\#b#c\n", &[&["a#b"]]),
        (options("\"", Some('"'), None), "\"a\"\"b\"\n", &[&["<a\"b>"]]),
    ];
    for (options, text, expected) in cases {
        for step in 1..7 {
            let found = in_dialect(options.clone(), text, step, false).unwrap();
            assert_eq!(found, expected, "{text:?} by {step}");
        }
    }
}

proptest! {
    #[test]
    fn tokenizer_and_quoting_state_find_the_same_record_ends(
        text in proptest::collection::vec(prop_oneof![Just('"'), Just(','), Just('\n'),
            Just('a')], 0..60),
        step in 1usize..9,
    ) {
        let text: String = text.into_iter().collect();
        let quoting = Quoting::usual(b',');
        let (mut at, mut ends) = (0, 0);
        while let Ok(end) = quoting.record_end(QuoteState::Out, b'\n', &text.as_bytes()[at..]) {
            at += end;
            ends += 1;
        }
        let left = usize::from(at < text.len());
        match records(&text, step, true) {
            Ok(records) => prop_assert_eq!(records.len(), ends + left),
            Err(Unclosed) => prop_assert_eq!(left, 1),
        }
    }

    #[test]
    fn fields_are_the_same_whether_bytes_are_found_in_blocks_or_one_by_one(
        text in proptest::collection::vec(prop_oneof![Just("\""), Just(","), Just("\n"),
            Just("\r"), Just("a"), Just("some longer text, as is usual: "), Just("é")], 0..99),
        step in 1usize..200,
        keep_blank: bool,
    ) {
        let text = text.concat();
        let found = records(&text, step, keep_blank);
        // An escape that does not occur changes nothing but the way.
        let options = ReadOptions { escape: Some('\\'), ..ReadOptions::default() };
        let other = in_dialect(options, &text, step, keep_blank);
        prop_assert_eq!(found.ok(), other.ok());
    }
}
