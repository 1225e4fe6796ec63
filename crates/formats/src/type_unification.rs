//! Unifies types that represent the same values and differ only in layout or in inner names.
//!
//! Text is text, with 32-bit or 64-bit offsets, as views, or in a dictionary; a list's item and a
//! map's entries may have any name. Inputs of a union, and files that are read as one table, are
//! compatible if their columns are alike. Decimals are alike too, in a decimal that has the digits
//! of all. Other numbers of different widths, and times of different units, are not: `project`
//! converts these explicitly.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use euphrates_flow::{Error, Result, new_batch};

/// The type that holds the values of both, if both represent the same kind of value.
pub(crate) fn alike(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::*;
    if one == other {
        return Some(one.clone());
    }
    Some(match (one, other) {
        (Null, some) | (some, Null) => some.clone(),
        (Dictionary(_, values), some) | (some, Dictionary(_, values)) => alike(values, some)?,
        (RunEndEncoded(_, values), some) | (some, RunEndEncoded(_, values)) => {
            alike(values.data_type(), some)?
        }
        (one, other) if is_text(one) && is_text(other) => match (one, other) {
            (LargeUtf8, _) | (_, LargeUtf8) => LargeUtf8,
            _ => Utf8,
        },
        (one, other) if is_bytes(one) && is_bytes(other) => match (one, other) {
            (LargeBinary, _) | (_, LargeBinary) => LargeBinary,
            _ => Binary,
        },
        (Timestamp(unit, Some(zone)), Timestamp(same, Some(other)))
            if unit == same && is_utc(zone) && is_utc(other) =>
        {
            Timestamp(*unit, Some(zone.clone()))
        }
        (one, other) if one.is_decimal() && other.is_decimal() => decimal(one, other)?,
        (FixedSizeList(item, count), FixedSizeList(other, same)) if count == same => {
            FixedSizeList(field(item, other)?, *count)
        }
        (Struct(fields), Struct(others)) if fields.len() == others.len() => {
            let pairs = fields.iter().zip(others);
            let both = pairs.map(|(one, other)| match one.name() == other.name() {
                true => field(one, other),
                false => None,
            });
            Struct(both.collect::<Option<_>>()?)
        }
        (Map(entries, sorted), Map(others, also)) => {
            let both = map_entries(entries, others)?;
            Map(both, *sorted && *also)
        }
        (one, other) => {
            let (item, is_large) = item_of(one)?;
            let (same, is_large_too) = item_of(other)?;
            let item = field(item, same)?;
            if is_large || is_large_too { LargeList(item) } else { List(item) }
        }
    })
}

/// The narrowest decimal that has the digits of both before and after the point, and at least as
/// many bits as either; `None` if that takes more than 76 digits.
fn decimal(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::*;
    let size = |of: &DataType| match *of {
        Decimal32(digits, scale) => Some((0, digits, scale)),
        Decimal64(digits, scale) => Some((1, digits, scale)),
        Decimal128(digits, scale) => Some((2, digits, scale)),
        Decimal256(digits, scale) => Some((3, digits, scale)),
        _ => None,
    };
    let (width, digits, scale) = size(one)?;
    let (other_width, other_digits, other_scale) = size(other)?;
    let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    let whole = whole(digits, scale).max(whole(other_digits, other_scale));
    let scale = scale.max(other_scale);
    narrowest_decimal(width.max(other_width), whole, scale)
}

/// The narrowest decimal with `whole` digits before the point and `scale` after it; `None` if that
/// takes more than 76 digits. It has 32, 64, 128 or 256 bits, for a `least` of 0 to 3 or more.
///
/// ```
/// use arrow::datatypes::DataType;
/// use euphrates_formats::type_unification::narrowest_decimal;
///
/// assert_eq!(narrowest_decimal(0, 7, 2), Some(DataType::Decimal32(9, 2)));
/// assert_eq!(narrowest_decimal(2, 7, 2), Some(DataType::Decimal128(9, 2)));
/// assert_eq!(narrowest_decimal(0, 70, 7), None);
/// ```
pub fn narrowest_decimal(least: usize, whole: i16, scale: i8) -> Option<DataType> {
    use DataType::*;
    let digits = u8::try_from(whole + i16::from(scale)).ok()?.max(1);
    Some(match (least..4).find(|width| digits <= [9, 18, 38, 76][*width])? {
        0 => Decimal32(digits, scale),
        1 => Decimal64(digits, scale),
        2 => Decimal128(digits, scale),
        _ => Decimal256(digits, scale),
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "GMT" | "Z" | "+00:00" | "+0000" | "+00")
}

/// The item of a list, and whether the list has 64-bit offsets.
fn item_of(list: &DataType) -> Option<(&FieldRef, bool)> {
    match list {
        DataType::List(item) | DataType::ListView(item) => Some((item, false)),
        DataType::FixedSizeList(item, _) => Some((item, false)),
        DataType::LargeList(item) | DataType::LargeListView(item) => Some((item, true)),
        _ => None,
    }
}

/// A field that holds both, with the name of the first.
fn field(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let data_type = alike(one.data_type(), other.data_type())?;
    let is_null = |field: &FieldRef| field.is_nullable() || *field.data_type() == DataType::Null;
    let field = Field::new(one.name(), data_type, is_null(one) || is_null(other));
    Some(Arc::new(field.with_metadata(one.metadata().clone())))
}

/// Unifies keys with keys and values with values, whatever their names.
fn map_entries(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let (DataType::Struct(pair), DataType::Struct(others)) = (one.data_type(), other.data_type())
    else {
        return None;
    };
    let [key, value] = &**pair else { return None };
    let [other_key, other_value] = &**others else { return None };
    let both = DataType::Struct(vec![field(key, other_key)?, field(value, other_value)?].into());
    Some(Arc::new(one.as_ref().clone().with_data_type(both)))
}

/// The unified field of two columns; `None` if their types are not alike.
///
/// ```
/// use arrow::datatypes::{DataType, Field};
/// use euphrates_formats::type_unification::agreed;
///
/// let field = |name, nullable| Field::new(name, DataType::Int64, nullable);
/// assert_eq!(agreed(&field("n", false), &field("m", true)), Some(field("n", true)));
/// ```
pub fn agreed(one: &Field, other: &Field) -> Option<Field> {
    let data_type = alike(one.data_type(), other.data_type())?;
    let is_nullable = [one, other]
        .iter()
        .any(|field| field.is_nullable() || *field.data_type() == DataType::Null);
    Some(one.clone().with_data_type(data_type).with_nullable(is_nullable))
}

/// Casts the columns of a batch to a unified schema with the same columns.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int32Array, RecordBatch};
/// use arrow::datatypes::{DataType, Field, Schema};
/// use euphrates_formats::type_unification::conform;
///
/// let column: ArrayRef = Arc::new(Int32Array::from(vec![7]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let wide = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
/// assert_eq!(conform(&batch, &wide)?.schema(), wide);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| converted(column, field.data_type()));
    let columns = columns.collect::<Result<_>>()?;
    Ok(new_batch(schema.clone(), columns, batch.num_rows())?)
}

/// Casts a column; fails for a value that the type does not hold.
pub(crate) fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(column.clone());
    }
    if !can_cast_types(column.data_type(), to) {
        let message = format!("{} cannot be read as {to}", column.data_type());
        return Err(Error::usage(message).remedy("convert it with a `project` before"));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(column, to, &strict)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use arrow::datatypes::{Int8Type, Int32Type, Schema};

    fn list(item: &str, of: DataType) -> DataType {
        DataType::List(Arc::new(Field::new(item, of, true)))
    }

    /// Concatenates two arrays of one type.
    fn joined(one: ArrayRef, other: ArrayRef) -> ArrayRef {
        let both = alike(one.data_type(), other.data_type()).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("x", both, true)]));
        let batch = |column: ArrayRef| {
            let own = Schema::new(vec![Field::new("x", column.data_type().clone(), true)]);
            RecordBatch::try_new(Arc::new(own), vec![column]).unwrap()
        };
        let batches = [one, other].map(|column| conform(&batch(column), &schema).unwrap());
        arrow::compute::concat_batches(&schema, &batches).unwrap().column(0).clone()
    }

    fn map(entries: &str, keys: &str, values: &str) -> ArrayRef {
        let names = MapFieldNames { entry: entries.into(), key: keys.into(), value: values.into() };
        let mut map = MapBuilder::new(Some(names), StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("a");
        map.values().append_value(1);
        map.append(true).unwrap();
        Arc::new(map.finish())
    }

    #[test]
    fn different_layouts_of_the_same_values_make_one_column() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None].into_iter().collect();
        let small: DictionaryArray<Int8Type> = vec![Some("a"), None].into_iter().collect();
        let runs: RunArray<Int32Type> = vec![Some("a"), None].into_iter().collect();
        let forms: Vec<ArrayRef> = vec![
            text.clone(),
            Arc::new(LargeStringArray::from(vec![Some("a"), None])),
            Arc::new(StringViewArray::from(vec![Some("a"), None])),
            Arc::new(dictionary),
            Arc::new(small),
            Arc::new(runs),
        ];
        for one in &forms {
            for other in &forms {
                let both = joined(one.clone(), other.clone());
                let plain = arrow::compute::cast(&both, &DataType::Utf8).unwrap();
                let expected = StringArray::from(vec![Some("a"), None, Some("a"), None]);
                assert_eq!(plain.as_string::<i32>(), &expected);
            }
        }
        let nothing: ArrayRef = Arc::new(NullArray::new(1));
        assert_eq!(joined(nothing, text).null_count(), 2);
    }

    #[test]
    fn nested_columns_with_different_inner_names_make_one_column() {
        let lists = |item: &str| -> ArrayRef {
            let field = Arc::new(Field::new(item, DataType::Int32, true));
            let mut lists = ListBuilder::new(Int32Builder::new()).with_field(field);
            lists.append_value([Some(1), None]);
            Arc::new(lists.finish())
        };
        let both = joined(lists("item"), lists("element"));
        assert_eq!(both.as_list::<i32>().value(1).len(), 2);
        let large = DataType::LargeList(Arc::new(Field::new("l", DataType::Int32, false)));
        let large = arrow::compute::cast(&lists("item"), &large.clone());
        assert!(large.is_err() || joined(lists("item"), large.unwrap()).len() == 2);
        let both = joined(map("entries", "keys", "values"), map("key_value", "key", "value"));
        assert_eq!(both.as_map().value(1).len(), 1);
        let structs = |is_nullable| -> ArrayRef {
            let field = Arc::new(Field::new("a", DataType::Int32, is_nullable));
            let values: ArrayRef = Arc::new(Int32Array::from(vec![7]));
            Arc::new(StructArray::from(vec![(field, values)]))
        };
        let both = joined(structs(false), structs(true));
        assert_eq!(both.as_struct().column(0).len(), 2);
        let deep = list("x", list("y", DataType::Utf8));
        let other = list("item", list("item", DataType::LargeUtf8));
        assert_eq!(alike(&deep, &other), Some(list("x", list("y", DataType::LargeUtf8))));
    }

    #[test]
    fn decimals_are_alike_in_one_that_has_all_digits() {
        use DataType::*;
        for (one, other, both) in [
            (Decimal32(9, 2), Decimal128(20, 2), Some(Decimal128(20, 2))),
            (Decimal64(18, 6), Decimal32(9, 0), Some(Decimal64(18, 6))),
            (Decimal64(18, 0), Decimal32(9, 9), Some(Decimal128(27, 9))),
            (Decimal128(38, 0), Decimal64(18, 18), Some(Decimal256(56, 18))),
            (Decimal128(10, -3), Decimal128(10, 2), Some(Decimal128(15, 2))),
            (Decimal256(76, 0), Decimal32(2, 1), None),
            (Decimal128(10, 2), Int64, None),
        ] {
            assert_eq!(alike(&one, &other), both, "{one} {other}");
            assert_eq!(alike(&other, &one), both, "{other} {one}");
        }
        let one: ArrayRef = Arc::new(
            Decimal32Array::from(vec![Some(-999_999_999), None]).with_data_type(Decimal32(9, 2)),
        );
        let most = 10i128.pow(38) - 1;
        let other: ArrayRef =
            Arc::new(Decimal128Array::from(vec![most]).with_data_type(Decimal128(38, 1)));
        let both = arrow::compute::cast(&joined(one, other), &Utf8).unwrap();
        let expected = ["-9999999.99", "", "9999999999999999999999999999999999999.90"];
        let found: Vec<&str> = both.as_string::<i32>().iter().map(|x| x.unwrap_or("")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn other_types_are_not_alike() {
        for (one, other) in [
            (DataType::Int32, DataType::Int64),
            (DataType::Utf8, DataType::Int64),
            (DataType::Utf8, DataType::Binary),
            (DataType::Float32, DataType::Float64),
            (list("item", DataType::Int32), list("item", DataType::Utf8)),
            (list("item", DataType::Int32), DataType::Int32),
        ] {
            assert_eq!(alike(&one, &other), None);
        }
    }
}
