//! Tests of predicates against the rows that bounds describe.

use super::*;
use alloc::vec;
use proptest::prelude::*;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// Columns of rows, with their bounds.
struct Table {
    columns: Vec<Vec<Option<f64>>>,
    bounds: Vec<Bounds<f64>>,
    lacks: bool,
}

impl Facts<usize, f64> for Table {
    fn bounds(&self, column: &usize) -> Option<&Bounds<f64>> {
        self.bounds.get(*column)
    }

    fn lacks(&self, column: &usize, value: &f64) -> bool {
        self.lacks && !self.columns[*column].contains(&Some(*value))
    }
}

/// The exact bounds of a column.
fn exact(column: &[Option<f64>]) -> Bounds<f64> {
    let numbers = || column.iter().flatten().copied().filter(|value| !value.is_nan());
    Bounds {
        least: numbers().min_by(f64::total_cmp),
        greatest: numbers().max_by(f64::total_cmp),
        may_be_nan: column.iter().flatten().any(|value| value.is_nan()),
        nulls: Some(column.iter().filter(|value| value.is_none()).count() as u64),
        rows: column.len() as u64,
    }
}

/// What a filter makes of a row: NaN is greater than all numbers.
fn truth(predicate: &Predicate<usize, f64>, row: &[Option<f64>]) -> Option<bool> {
    match predicate {
        Predicate::Compare(column, comparison, value) => {
            let order = |own: f64| own.partial_cmp(value).unwrap_or(Ordering::Greater);
            row[*column].map(|own| comparison.holds(order(own)))
        }
        Predicate::IsNull(column) => Some(row[*column].is_none()),
        Predicate::Not(inner) => truth(inner, row).map(|truth| !truth),
        Predicate::IsNotFalse(inner) => Some(truth(inner, row) != Some(false)),
        Predicate::All(terms) => joined(terms.iter().map(|term| truth(term, row)), false),
        Predicate::Any(terms) => joined(terms.iter().map(|term| truth(term, row)), true),
        Predicate::Unknown => None,
    }
}

/// `AND`, which `false` decides, or `OR`, which `true` decides.
fn joined(terms: impl Iterator<Item = Option<bool>>, decides: bool) -> Option<bool> {
    let terms: Vec<Option<bool>> = terms.collect();
    match terms.contains(&None) {
        _ if terms.contains(&Some(decides)) => Some(decides),
        true => None,
        false => Some(!decides),
    }
}

fn includes(outcomes: Outcomes, truth: Option<bool>) -> bool {
    match truth {
        Some(true) => outcomes.yes,
        Some(false) => outcomes.no,
        None => outcomes.null,
    }
}

#[test]
fn each_comparison_is_decided_at_its_boundaries() {
    use Comparison::*;
    for (comparison, value, yes, no) in [
        (Equal, 9.0, false, true),
        (Equal, 10.0, true, true),
        (Equal, 20.0, true, true),
        (Equal, 21.0, false, true),
        (NotEqual, 9.0, true, false),
        (NotEqual, 10.0, true, true),
        (Less, 10.0, false, true),
        (Less, 11.0, true, true),
        (Less, 20.0, true, true),
        (Less, 21.0, true, false),
        (LessOrEqual, 9.0, false, true),
        (LessOrEqual, 10.0, true, true),
        (LessOrEqual, 20.0, true, false),
        (Greater, 20.0, false, true),
        (Greater, 19.0, true, true),
        (Greater, 10.0, true, true),
        (Greater, 9.0, true, false),
        (GreaterOrEqual, 21.0, false, true),
        (GreaterOrEqual, 20.0, true, true),
        (GreaterOrEqual, 10.0, true, false),
    ] {
        let column: Vec<Option<f64>> = (10..=20).map(|value| Some(value.into())).collect();
        let table = Table { bounds: vec![exact(&column)], columns: vec![column], lacks: false };
        let found = Predicate::Compare(0, comparison, value).outcomes(&table);
        assert_eq!(found, Outcomes { yes, no, null: false }, "{comparison:?} {value}");
    }
}

#[test]
fn bounds_that_say_nothing_exclude_nothing() {
    let bounds = |least, greatest| {
        vec![Bounds { least, greatest, may_be_nan: false, nulls: Some(0), rows: 3 }]
    };
    for bounds in [vec![], bounds(None, None), bounds(Some(5.0), Some(1.0))] {
        for comparison in COMPARISONS {
            let table = Table { columns: vec![], bounds: bounds.clone(), lacks: false };
            let found = Predicate::Compare(0, comparison, 9.0).outcomes(&table);
            assert!(found.yes && found.no, "{bounds:?} {comparison:?}");
        }
    }
}

#[test]
fn nan_exceeds_every_bound() {
    let bounds = exact(&[Some(1.0), Some(f64::NAN)]);
    let table = Table { columns: vec![], bounds: vec![bounds], lacks: false };
    for (comparison, yes) in [(Comparison::Greater, true), (Comparison::Equal, false)] {
        assert_eq!(Predicate::Compare(0, comparison, 7.0).outcomes(&table).yes, yes);
    }
    let above = Predicate::Compare(0, Comparison::GreaterOrEqual, 7.0);
    let between = [above, Predicate::Compare(0, Comparison::LessOrEqual, 9.0)];
    assert!(!Predicate::All(between.to_vec()).outcomes(&table).yes);
}

#[test]
fn column_of_nulls_passes_no_comparison() {
    let table = Table { columns: vec![], bounds: vec![exact(&[None, None])], lacks: false };
    for comparison in COMPARISONS {
        let found = Predicate::Compare(0, comparison, 1.0).outcomes(&table);
        assert_eq!(found, Outcomes { yes: false, no: false, null: true });
    }
    let is_null = Predicate::IsNull(0).outcomes(&table);
    assert_eq!(is_null, Outcomes { yes: true, no: false, null: false });
}

fn predicates() -> impl Strategy<Value = Predicate<usize, f64>> {
    let compared = (0..2usize, 0..6usize, -3..4i32)
        .prop_map(|(at, by, value)| Predicate::Compare(at, COMPARISONS[by], value.into()));
    let leaf = prop_oneof![6 => compared, 1 => (0..2usize).prop_map(Predicate::IsNull)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let terms = proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            inner.clone().prop_map(|inner| Predicate::Not(Box::new(inner))),
            inner.prop_map(|inner| Predicate::IsNotFalse(Box::new(inner))),
            terms.clone().prop_map(Predicate::All),
            terms.prop_map(Predicate::Any),
        ]
    })
}

fn values() -> impl Strategy<Value = Option<f64>> {
    let number = (-3..4i32).prop_map(f64::from);
    proptest::option::of(prop_oneof![8 => number, 1 => Just(f64::NAN), 1 => Just(-0.0)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn every_truth_value_of_a_row_is_foreseen(
        predicate in predicates(),
        rows in proptest::collection::vec([values(), values()], 1..6),
        slack in [0..3i32, 0..3i32],
        (hides, lacks) in (0..16u8, any::<bool>()),
    ) {
        let columns: Vec<Vec<Option<f64>>> =
            (0..2).map(|at| rows.iter().map(|row| row[at]).collect()).collect();
        let mut bounds: Vec<Bounds<f64>> = columns.iter().map(|column| exact(column)).collect();
        for (at, bounds) in bounds.iter_mut().enumerate() {
            let wider = f64::from(slack[at]);
            bounds.least = bounds.least.map(|least| least - wider);
            bounds.greatest = bounds.greatest.map(|greatest| greatest + wider);
            if hides & 1 << at > 0 {
                bounds.nulls = None;
            }
            if hides & 4 << at > 0 {
                bounds.greatest = None;
            }
        }
        let table = Table { columns, bounds, lacks };
        let outcomes = predicate.outcomes(&table);
        for row in &rows {
            let truth = truth(&predicate, row);
            prop_assert!(includes(outcomes, truth), "{truth:?} of {row:?}, {outcomes:?}");
        }
    }
}
