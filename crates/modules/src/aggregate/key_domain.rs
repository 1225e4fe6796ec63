//! Numbers the values of a key column from 1, if these are few: integers from the least on, values
//! of dictionaries in the order in which they are found. 0 is null.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use euphrates_flow::Result;

use super::group_keys::{KeyForm, plain, plain_type, width};
use super::group_table::GroupTable;
use crate::batches::array_values::fixed_values;

/// The most bytes of the values of dictionaries.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// The values of a key column so far.
pub(crate) enum KeyDomain {
    /// Integers, or what is stored as integers, from `low` to `high`.
    Range {
        low: i64,
        high: i64,
    },
    Values(Box<DictionaryValues>),
}

/// The values of all dictionaries so far, each with a number.
pub(crate) struct DictionaryValues {
    form: KeyForm,
    known: GroupTable,
    /// The dictionary of the last batch.
    last: Option<ArrayRef>,
    /// The number of each of its values.
    numbers: Vec<u32>,
    /// How many dictionary values have been looked up; one in several dictionaries counts each
    /// time.
    looked_up: usize,
    rows: usize,
}

impl KeyDomain {
    /// An empty domain for columns of this type; `None` if their values cannot be numbered.
    pub(crate) fn new(data_type: &DataType) -> Option<KeyDomain> {
        use DataType::*;
        match data_type {
            Dictionary(..) => {
                let types = vec![plain_type(data_type)];
                let form = KeyForm::of(&types);
                Some(KeyDomain::Values(Box::new(DictionaryValues {
                    form,
                    known: GroupTable::new(types),
                    last: None,
                    numbers: vec![],
                    looked_up: 0,
                    rows: 0,
                })))
            }
            Boolean => Some(KeyDomain::Range { low: 0, high: 1 }),
            Float16 | Float32 | Float64 | FixedSizeBinary(_) | Interval(_) => None,
            // An empty range.
            other => width(other)
                .filter(|width| *width <= size_of::<i64>())
                .map(|_| KeyDomain::Range { low: i64::MAX, high: i64::MIN }),
        }
    }

    /// The numbers to provide for: the values, null, and some room for values to come.
    pub(crate) fn size(&self) -> usize {
        let values = match self {
            KeyDomain::Range { low, high } if low > high => 0,
            KeyDomain::Range { low, high } => {
                usize::try_from(high.abs_diff(*low)).unwrap_or(usize::MAX / 4)
            }
            KeyDomain::Values(values) => values.known.len(),
        };
        values.saturating_add(2).min(usize::MAX / 4).next_power_of_two()
    }

    /// The least integer, which has the number 1; numbers change if it does.
    pub(crate) fn low(&self) -> i64 {
        match self {
            KeyDomain::Range { low, .. } => *low,
            KeyDomain::Values(_) => 0,
        }
    }

    /// Adds the values of a column, and puts the number of each row. `false` if more than
    /// `size_max` numbers would be in use.
    pub(crate) fn number(
        &mut self,
        column: &ArrayRef,
        size_max: usize,
        numbers: &mut Vec<u32>,
    ) -> Result<bool> {
        numbers.clear();
        let fits = match self {
            KeyDomain::Range { low, high } => {
                let column = match column.data_type() {
                    DataType::Boolean => &cast(column, &DataType::Int8)?,
                    _ => column,
                };
                let width = width(column.data_type()).expect("only such columns have a range");
                let (bytes, range) = (fixed_values(column, width), (low, high));
                match width {
                    1 => number_integers::<i8>(bytes.typed_data(), column, range, numbers),
                    2 => number_integers::<i16>(bytes.typed_data(), column, range, numbers),
                    4 => number_integers::<i32>(bytes.typed_data(), column, range, numbers),
                    _ => number_integers::<i64>(bytes.typed_data(), column, range, numbers),
                }
                self.size() <= size_max
            }
            KeyDomain::Values(values) => values.number(column, size_max, numbers)?,
        };
        if fits && let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            let rows = numbers.iter_mut().zip(nulls);
            rows.for_each(|(number, is_valid)| *number *= u32::from(is_valid));
        }
        Ok(fits)
    }
}

impl DictionaryValues {
    fn number(
        &mut self,
        column: &ArrayRef,
        size_max: usize,
        numbers: &mut Vec<u32>,
    ) -> Result<bool> {
        let dictionary = column.as_any_dictionary();
        let values = dictionary.values();
        let is_last = |last: &ArrayRef| last.to_data().ptr_eq(&values.to_data());
        self.rows += column.len();
        if !self.last.as_ref().is_some_and(is_last) {
            // Bounded by the rows, since each batch may bring a large dictionary of its own.
            self.looked_up += values.len();
            if self.looked_up > self.rows + size_max {
                return Ok(false);
            }
            let plain = plain(values)?;
            self.known.find(&self.form.keys(vec![plain], values.len())?, &mut self.numbers)?;
            self.numbers.iter_mut().for_each(|number| *number += 1);
            self.last = Some(values.clone());
        }
        if self.known.len() + 2 > size_max || self.known.bytes() > VALUES_BYTES_MAX {
            return Ok(false);
        }
        let number = |code: usize| self.numbers.get(code).copied().unwrap_or(0);
        match dictionary.keys().as_primitive_opt::<Int32Type>() {
            Some(codes) => numbers.extend(codes.values().iter().map(|code| number(*code as usize))),
            None if values.is_empty() => numbers.resize(column.len(), 0),
            None => numbers.extend(dictionary.normalized_keys().into_iter().map(number)),
        }
        Ok(true)
    }
}

/// Extends a range by the values of a column, and puts their numbers.
fn number_integers<T: Copy + Ord + Into<i64>>(
    values: &[T],
    column: &ArrayRef,
    (low, high): (&mut i64, &mut i64),
    numbers: &mut Vec<u32>,
) {
    let range = match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => range(values.iter().copied()),
        Some(nulls) => range(nulls.valid_indices().map(|row| values[row])),
    };
    if let Some((least, most)) = range {
        (*low, *high) = (least.into().min(*low), most.into().max(*high));
    }
    let low = *low;
    let number = |value: &T| ((*value).into().wrapping_sub(low) as u32).wrapping_add(1);
    numbers.extend(values.iter().map(number));
}

/// The least and the largest value.
fn range<T: Copy + Ord>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}
