//! The functions of a query that are not the planner's own: the modules compute them.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit};
use datafusion_common::{Result, not_impl_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use euphrates_flow::spec::json_path::has_wildcard;

use super::nested_types;
use crate::relations::asof_tokens::MARK;
use crate::relations::glob_tokens::GLOB;
use crate::relations::limit_tokens::PERCENT;
use crate::relations::sampled::SAMPLE;

/// The type of a function's results.
#[derive(Clone, Copy, Debug)]
enum ScalarReturn {
    Integer,
    /// An integer without a sign.
    Unsigned,
    Float,
    Text,
    Boolean,
    Date,
    Time,
    /// That of an argument.
    Same(usize),
    /// A list of text.
    Texts,
    Bytes,
    Interval,
    /// Microseconds without a zone.
    Instant,
    /// A date if the argument is one, else an instant.
    DateOrInstant(usize),
    /// An instant of a number, and a number of another value.
    NumberOrInstant,
    /// A time with a zone if the argument has none, else one without.
    OtherZone(usize),
    /// The type of an item of the first argument.
    Item,
    /// The type of whole numbers as those of the first argument.
    Whole,
    /// Text, or a list of text if the path is a list or has a wildcard.
    TextOrTexts,
    /// The type of the field that the second argument names.
    Field,
    /// What this makes of the types of the arguments.
    Made(fn(&[DataType]) -> Result<DataType>),
}

use ScalarReturn::*;

/// The function of a field of a struct in a lambda: the planner writes its own of columns alone.
pub(crate) const FIELD_OF: &str = "_field_of";

/// The function of the value of a key in a map: the planner's own takes texts that are written.
pub(crate) const VALUE_OF: &str = "_value_of";

/// The function of a map of two lists that are computed.
pub(crate) const MAP_OF: &str = "_map_of";

/// The most arguments of functions that take any number of them.
const VALUES_MAX: usize = 64;

/// Names, the fewest and the most arguments, and the type of the results.
const FUNCTIONS: [(&str, usize, usize, ScalarReturn); 253] = [
    // Mark a join and limits; no module computes them.
    (MARK, 1, 1, Boolean),
    (PERCENT, 1, 1, Float),
    (SAMPLE, 3, 3, Integer),
    (FIELD_OF, 2, 2, Field),
    (VALUE_OF, 2, 2, Made(nested_types::value)),
    (MAP_OF, 2, 2, Made(nested_types::map_of_lists)),
    ("sign", 1, 1, Same(0)),
    ("mod", 2, 2, Same(0)),
    ("fmod", 2, 2, Float),
    ("if", 3, 3, Same(1)),
    ("iff", 3, 3, Same(1)),
    ("ifnull", 2, 2, Same(0)),
    ("xor", 2, 2, Same(0)),
    ("bit_not", 1, 1, Same(0)),
    ("square", 1, 1, Same(0)),
    ("whole_quotient", 2, 2, Same(0)),
    ("isinf", 1, 1, Boolean),
    ("isfinite", 1, 1, Boolean),
    ("lcase", 1, 1, Text),
    ("ucase", 1, 1, Text),
    ("len", 1, 1, Integer),
    ("strlen", 1, 1, Integer),
    ("prefix", 2, 2, Boolean),
    ("suffix", 2, 2, Boolean),
    ("instr", 2, 2, Integer),
    ("mid", 3, 3, Text),
    ("regexp_matches", 2, 3, Boolean),
    ("regexp_full_match", 2, 2, Boolean),
    ("regexp_extract", 2, 3, Text),
    ("similar_to", 2, 2, Boolean),
    ("year", 1, 1, Integer),
    ("quarter", 1, 1, Integer),
    ("month", 1, 1, Integer),
    ("week", 1, 1, Integer),
    ("weekofyear", 1, 1, Integer),
    ("day", 1, 1, Integer),
    ("dayofmonth", 1, 1, Integer),
    ("dayofweek", 1, 1, Integer),
    ("weekday", 1, 1, Integer),
    ("isodow", 1, 1, Integer),
    ("dayofyear", 1, 1, Integer),
    ("hour", 1, 1, Integer),
    ("minute", 1, 1, Integer),
    ("second", 1, 1, Integer),
    ("millisecond", 1, 1, Integer),
    ("microsecond", 1, 1, Integer),
    ("epoch", 1, 1, Float),
    ("epoch_ms", 1, 1, NumberOrInstant),
    ("julian", 1, 1, Float),
    ("decade", 1, 1, Integer),
    ("century", 1, 1, Integer),
    ("millennium", 1, 1, Integer),
    ("dayname", 1, 1, Text),
    ("monthname", 1, 1, Text),
    ("strftime", 2, 2, Text),
    ("last_day", 1, 1, Date),
    ("date", 1, 1, Date),
    ("as_time", 1, 1, Time),
    ("try_as_time", 1, 1, Time),
    ("date_diff", 3, 3, Integer),
    ("datediff", 3, 3, Integer),
    ("string_split", 2, 2, Texts),
    ("str_split", 2, 2, Texts),
    ("split", 2, 2, Texts),
    ("string_split_regex", 2, 2, Texts),
    ("str_split_regex", 2, 2, Texts),
    ("regexp_split_to_array", 2, 2, Texts),
    ("regexp_extract_all", 2, 3, Texts),
    ("parse_path", 1, 1, Texts),
    ("json_keys", 1, 2, Texts),
    ("regexp_escape", 1, 1, Text),
    ("hamming", 2, 2, Integer),
    ("mismatches", 2, 2, Integer),
    ("editdist3", 2, 2, Integer),
    ("jaccard", 2, 2, Float),
    ("unicode", 1, 1, Integer),
    ("ord", 1, 1, Integer),
    ("bar", 3, 4, Text),
    ("printf", 1, VALUES_MAX, Text),
    ("format", 1, VALUES_MAX, Text),
    ("hex", 1, 1, Text),
    ("unhex", 1, 1, Bytes),
    ("from_hex", 1, 1, Bytes),
    ("to_base64", 1, 1, Text),
    ("base64", 1, 1, Text),
    ("from_base64", 1, 1, Bytes),
    ("url_encode", 1, 1, Text),
    ("url_decode", 1, 1, Text),
    ("parse_filename", 1, 2, Text),
    ("parse_dirname", 1, 1, Text),
    ("parse_dirpath", 1, 1, Text),
    ("hash", 1, 8, Unsigned),
    ("strip_accents", 1, 1, Text),
    ("nfc_normalize", 1, 1, Text),
    (GLOB, 2, 2, Boolean),
    ("md5", 1, 1, Text),
    ("sha1", 1, 1, Text),
    ("sha256", 1, 1, Text),
    ("bit_count", 1, 1, Integer),
    ("bin", 1, 1, Text),
    ("to_binary", 1, 1, Text),
    ("even", 1, 1, Float),
    ("round_even", 1, 2, Float),
    ("roundbankers", 1, 2, Float),
    ("format_bytes", 1, 1, Text),
    ("formatreadablesize", 1, 1, Text),
    ("nested_key", 1, 1, Bytes),
    ("strptime", 2, 2, Instant),
    ("try_strptime", 2, 2, Instant),
    ("make_timestamp", 1, 6, Instant),
    ("make_time", 3, 3, Time),
    ("epoch_us", 1, 1, Integer),
    ("epoch_ns", 1, 1, Integer),
    ("date_sub", 3, 3, Integer),
    ("datesub", 3, 3, Integer),
    ("datepart", 2, 2, Integer),
    ("date_add", 2, 2, Same(0)),
    ("yearweek", 1, 1, Integer),
    ("isoyear", 1, 1, Integer),
    ("era", 1, 1, Integer),
    ("age", 2, 2, Interval),
    ("time_bucket", 2, 3, DateOrInstant(1)),
    ("to_years", 1, 1, Interval),
    ("to_quarters", 1, 1, Interval),
    ("to_months", 1, 1, Interval),
    ("to_weeks", 1, 1, Interval),
    ("to_days", 1, 1, Interval),
    ("to_hours", 1, 1, Interval),
    ("to_minutes", 1, 1, Interval),
    ("to_seconds", 1, 1, Interval),
    ("to_milliseconds", 1, 1, Interval),
    ("to_microseconds", 1, 1, Interval),
    ("timezone", 2, 2, OtherZone(1)),
    ("json", 1, 1, Text),
    ("json_extract", 2, 2, TextOrTexts),
    ("json_extract_path", 2, 2, TextOrTexts),
    ("json_extract_string", 2, 2, TextOrTexts),
    ("json_extract_path_text", 2, 2, TextOrTexts),
    ("json_value", 2, 2, Text),
    ("json_exists", 2, 2, Boolean),
    ("json_array_length", 1, 2, Integer),
    ("json_type", 1, 2, Text),
    ("json_valid", 1, 1, Boolean),
    ("list_sort", 1, 3, Same(0)),
    ("array_sort", 1, 3, Same(0)),
    ("list_reverse_sort", 1, 2, Same(0)),
    ("array_reverse_sort", 1, 2, Same(0)),
    ("list_string_agg", 1, 1, Text),
    ("list_count", 1, 1, Integer),
    ("list_unique", 1, 1, Integer),
    ("array_unique", 1, 1, Integer),
    ("list_min", 1, 1, Item),
    ("list_mode", 1, 1, Item),
    ("list_first", 1, 1, Item),
    ("list_last", 1, 1, Item),
    ("list_bool_and", 1, 1, Item),
    ("list_bool_or", 1, 1, Item),
    ("list_median", 1, 1, Float),
    ("list_stddev", 1, 1, Float),
    ("list_stddev_samp", 1, 1, Float),
    ("list_stddev_pop", 1, 1, Float),
    ("list_variance", 1, 1, Float),
    ("list_var_samp", 1, 1, Float),
    ("list_var_pop", 1, 1, Float),
    ("ceil", 1, 1, Whole),
    ("ceiling", 1, 1, Whole),
    ("floor", 1, 1, Whole),
    ("gamma", 1, 1, Float),
    ("lgamma", 1, 1, Float),
    ("nextafter", 2, 2, Made(nested_types::next_float)),
    ("octet_length", 1, 1, Integer),
    ("damerau_levenshtein", 2, 2, Integer),
    ("jaro_similarity", 2, 2, Float),
    ("jaro_winkler_similarity", 2, 2, Float),
    ("list_where", 2, 2, Same(0)),
    ("array_where", 2, 2, Same(0)),
    ("_interval_times", 2, 2, Interval),
    ("_interval_over", 2, 2, Interval),
    ("_instant_at", 2, 2, Instant),
    ("_text_item", 2, 2, Text),
    ("_text_slice", 3, 3, Text),
    ("_text_of_bytes", 1, 1, Text),
    ("greatest_common_divisor", 2, 2, Integer),
    ("least_common_multiple", 2, 2, Integer),
    ("add", 2, 2, Same(0)),
    ("subtract", 2, 2, Same(0)),
    ("multiply", 2, 2, Same(0)),
    ("fdiv", 2, 2, Float),
    ("signbit", 1, 1, Boolean),
    ("map_contains", 2, 2, Boolean),
    ("list_inner_product", 2, 2, Float),
    ("list_dot_product", 2, 2, Float),
    ("list_negative_inner_product", 2, 2, Float),
    ("list_negative_dot_product", 2, 2, Float),
    ("list_cosine_distance", 2, 2, Float),
    ("list_cosine_similarity", 2, 2, Float),
    ("list_select", 2, 2, Same(0)),
    ("array_inner_product", 2, 2, Float),
    ("array_dot_product", 2, 2, Float),
    ("array_negative_inner_product", 2, 2, Float),
    ("array_negative_dot_product", 2, 2, Float),
    ("array_cosine_distance", 2, 2, Float),
    ("array_cosine_similarity", 2, 2, Float),
    ("array_select", 2, 2, Same(0)),
    ("constant_or_null", 2, 2, Same(0)),
    ("days_in_month", 1, 1, Integer),
    ("nanosecond", 1, 1, Integer),
    ("make_timestamp_ms", 1, 1, Instant),
    ("map_contains_value", 2, 2, Boolean),
    ("map_contains_entry", 3, 3, Boolean),
    ("list_approx_count_distinct", 1, 1, Integer),
    ("to_json", 1, 1, Text),
    ("row_to_json", 1, 1, Text),
    ("array_to_json", 1, 1, Text),
    ("json_quote", 1, 1, Text),
    ("json_array", 1, VALUES_MAX, Text),
    ("json_object", 2, VALUES_MAX, Text),
    ("typeof", 1, 1, Text),
    ("to_base", 2, 3, Text),
    ("unbin", 1, 1, Bytes),
    ("from_binary", 1, 1, Bytes),
    ("to_millennia", 1, 1, Interval),
    ("to_centuries", 1, 1, Interval),
    ("to_decades", 1, 1, Interval),
    ("list_bit_and", 1, 1, Item),
    ("list_bit_or", 1, 1, Item),
    ("list_bit_xor", 1, 1, Item),
    ("list_skewness", 1, 1, Float),
    ("list_kurtosis", 1, 1, Float),
    ("list_entropy", 1, 1, Float),
    ("list_mad", 1, 1, Float),
    ("list_sem", 1, 1, Float),
    ("struct_insert", 2, VALUES_MAX, Same(0)),
    ("struct_update", 2, VALUES_MAX, Same(0)),
    ("struct_concat", 1, 8, Made(nested_types::concatenated)),
    ("_struct_updated", 2, 2, Made(nested_types::updated)),
    ("struct_keys", 1, 1, Texts),
    ("struct_values", 1, 1, Made(nested_types::numbered)),
    ("map_concat", 2, 8, Made(nested_types::merged_map)),
    ("map_from_entries", 1, 1, Made(nested_types::map_of_pairs)),
    ("_bin_of", 2, 2, Same(0)),
    ("_exact_bin_of", 2, 2, Same(0)),
    ("_histogram_bins", 2, 2, Same(0)),
    ("_top_keys", 2, 2, Made(nested_types::keys)),
    ("equi_width_bins", 3, 4, Made(nested_types::boundaries)),
    ("list_histogram", 1, 1, Made(nested_types::counts)),
    ("json_merge_patch", 2, 8, Text),
    ("json_contains", 2, 2, Boolean),
    ("json_structure", 1, 1, Text),
    ("json_pretty", 1, 1, Text),
    ("gen_random_uuid", 0, 0, Text),
    ("to_uuid", 1, 1, Text),
    ("try_to_uuid", 1, 1, Text),
];

/// The functions, for the planner.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.into_iter().map(|(name, ..)| function(name)).collect()
}

/// The function of a name in `FUNCTIONS`.
pub(crate) fn function(name: &str) -> Arc<ScalarUDF> {
    let found = FUNCTIONS.into_iter().find(|(known, ..)| *known == name);
    let (name, fewest, most, returns) = found.expect("it is a function of the modules");
    let numbers = (fewest..=most).map(TypeSignature::Any).collect();
    let is_random = name == "gen_random_uuid";
    let volatility = if is_random { Volatility::Volatile } else { Volatility::Immutable };
    let signature = Signature::one_of(numbers, volatility);
    Arc::new(ScalarUDF::new_from_impl(ModuleFunction { name, signature, returns }))
}

#[derive(Debug)]
struct ModuleFunction {
    name: &'static str,
    signature: Signature,
    returns: ScalarReturn,
}

impl PartialEq for ModuleFunction {
    fn eq(&self, other: &ModuleFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for ModuleFunction {}

impl std::hash::Hash for ModuleFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ModuleFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.returns {
            Integer => DataType::Int64,
            Unsigned => DataType::UInt64,
            Float => DataType::Float64,
            Text => DataType::Utf8,
            Boolean => DataType::Boolean,
            Date => DataType::Date32,
            Time => DataType::Time64(TimeUnit::Microsecond),
            Same(at) => types[at].clone(),
            Texts => nested_types::list_of(DataType::Utf8),
            Bytes => DataType::Binary,
            Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            DateOrInstant(at) if types[at] == DataType::Date32 => DataType::Date32,
            DateOrInstant(at) if matches!(types[at], DataType::Timestamp(_, Some(_))) => {
                types[at].clone()
            }
            NumberOrInstant if !types[0].is_integer() => DataType::Int64,
            Instant | DateOrInstant(_) | NumberOrInstant => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            OtherZone(at) => DataType::Timestamp(
                TimeUnit::Microsecond,
                match &types[at] {
                    DataType::Timestamp(_, Some(_)) => None,
                    _ => Some("UTC".into()),
                },
            ),
            Whole => match types[0] {
                DataType::Decimal32(digits, 1..) => DataType::Decimal32(digits, 0),
                DataType::Decimal64(digits, 1..) => DataType::Decimal64(digits, 0),
                DataType::Decimal128(digits, 1..) => DataType::Decimal128(digits, 0),
                DataType::Decimal256(digits, 1..) => DataType::Decimal256(digits, 0),
                DataType::Float32 => DataType::Float32,
                ref other if other.is_decimal() => other.clone(),
                _ => DataType::Float64,
            },
            Made(of) => of(types)?,
            TextOrTexts => DataType::Utf8,
            Field => return plan_err!("`{}` is used of structs alone", self.name),
            Item => match &types[0] {
                DataType::List(item)
                | DataType::LargeList(item)
                | DataType::FixedSizeList(item, _) => item.data_type().clone(),
                other => other.clone(),
            },
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let name = args.scalar_arguments.get(1).copied().flatten();
        let name = name.and_then(|name| name.try_as_str().flatten());
        let returns = match (self.returns, &types[..], name) {
            // A result for each path.
            (_, [_, DataType::List(_) | DataType::FixedSizeList(..)], _)
                if nested_types::takes_json_path(self.name) =>
            {
                nested_types::list_of(self.return_type(&types)?)
            }
            (TextOrTexts, _, Some(path)) if has_wildcard(path) => {
                nested_types::list_of(DataType::Utf8)
            }
            (Field, [of, _], Some(name)) => nested_types::field(of, name)?,
            _ => self.return_type(&types)?,
        };
        Ok(Arc::new(arrow::datatypes::Field::new(self.name, returns, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("`{}` is computed by a module", self.name)
    }
}
