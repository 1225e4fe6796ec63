//! The plan of an aggregation, made from its configuration and the schema of its records or states.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::{ArrayRef, StructArray, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown_column;
use euphrates_flow::{Error, Result};

use super::config::Config;
use super::function_syntax::{AggregateCall, parse};
use super::functions::{AggregateFunction, RowCollection};
use super::group_keys::{KeyForm, plain, plain_type};
use super::output_expressions::{AggregateCalls, output};
use super::states::{AggregateState, FunctionKind};
use crate::expression::{Expression, NarrowMemo, Projection, SliceRows};
use crate::partitioning::hashing::can_hash;

/// The hash that selects the part of a row: of the keys for states of a group, of keys and value
/// for a distinct value.
const HASH: &str = "__hash";
/// The kind of a row, a code of `state_rows`.
const ROW_KIND: &str = "__what";
/// Metadata of the state of a sum: the type of the argument.
const OF: &str = "euphrates.of";

/// What is computed for each group, and the schemas of states and output.
pub(crate) struct AggregatePlan {
    /// The key columns, without dictionaries.
    pub(crate) keys: Vec<FieldRef>,
    /// How keys are compared.
    pub(crate) form: KeyForm,
    pub(crate) values: Vec<NamedFunction>,
    /// The values that count distinct arguments, and the types of these.
    pub(crate) distinct: Vec<(usize, DataType)>,
    /// States as they are sent: hashes, keys, states; with `count(distinct)`, also the kind of a
    /// row and a column for each distinct argument.
    pub(crate) states: SchemaRef,
    /// The states of groups as they are held and spilled: hashes, keys, states.
    pub(crate) group_states: SchemaRef,
    /// The distinct values of groups as they are held and spilled, for each `count(distinct)`:
    /// hashes, keys, values.
    pub(crate) pairs: Vec<SchemaRef>,
    /// Keys and function results.
    pub(crate) results: SchemaRef,
    /// The projection from `results` to the output; `None` if they are the same.
    pub(crate) projection: Option<Projection>,
    /// The schema of the output.
    pub(crate) output: SchemaRef,
}

/// A function result with a name.
pub(crate) struct NamedFunction {
    pub(crate) name: String,
    pub(crate) kind: FunctionKind,
}

/// Evaluates the keys and arguments of rows.
#[derive(Default)]
pub(crate) struct ArgumentEvaluator {
    by: Vec<usize>,
    arguments: Vec<Argument>,
    /// Whether each argument may have a dictionary, for all functions of it.
    may_be_encoded: Vec<bool>,
    /// What each value is of.
    of: Vec<ValueSource>,
    /// How many rows are evaluated at once.
    pub(crate) slice_rows: SliceRows,
}

/// What a value is of.
enum ValueSource {
    Rows,
    Argument(usize),
    /// Several arguments, as a struct.
    Struct(Fields, Vec<usize>),
}

enum Argument {
    Column(usize),
    Computed(Expression),
    /// Arithmetic on decimals, in 64 bits until a batch has larger values.
    Narrow(Expression, AtomicBool),
}

impl AggregatePlan {
    /// The plan for records of this schema, and the evaluation of keys and arguments.
    pub(crate) fn new(
        config: &Config,
        input: &SchemaRef,
    ) -> Result<(AggregatePlan, ArgumentEvaluator)> {
        let find =
            |name: &String| input.index_of(name).map_err(|_| unknown_column(name, input).at("by"));
        let by: Vec<usize> = config.by.iter().map(find).collect::<Result<_>>()?;
        let keys = by.iter().map(|column| {
            let field = input.field(*column);
            let data_type = plain_type(field.data_type());
            match can_hash(&data_type) {
                true => Ok(Arc::new(Field::new(field.name(), data_type, field.is_nullable()))),
                false => Err(no_key(field)),
            }
        });
        let keys: Vec<FieldRef> = keys.collect::<Result<_>>()?;
        let mut source = ArgumentEvaluator {
            by,
            slice_rows: SliceRows::default(),
            ..ArgumentEvaluator::default()
        };
        let mut texts: Vec<String> = vec![];
        let mut values = vec![];
        let spelled = AggregateCalls::new(config);
        for (name, text) in &spelled.calls {
            let value = source.value(name, text, input, &mut texts);
            values.push(value.map_err(|error| error.at(format!("values: {name}")))?);
        }
        source.narrow(&values);
        Ok((AggregatePlan::of(config, spelled, keys, values)?, source))
    }

    /// The plan for states of a `pre_aggregate` with this configuration.
    pub(crate) fn of_states(config: &Config, states: &SchemaRef) -> Result<AggregatePlan> {
        let error = || {
            let error = Error::usage("what comes in is not what a `pre_aggregate` makes of this");
            error.remedy(
                "give the `pre_aggregate` the same `by` and `values`, or leave it out: it is \
                 placed before an `aggregate` without being written",
            )
        };
        let mut fields = states.fields().iter().skip(1);
        let keys: Vec<FieldRef> = fields.by_ref().take(config.by.len()).cloned().collect();
        let mut values = vec![];
        let spelled = AggregateCalls::new(config);
        for (name, text) in &spelled.calls {
            let AggregateCall { function, .. } = parse(text)?;
            let state = fields.next().ok_or_else(error)?;
            let of = match &function {
                AggregateFunction::Sum | AggregateFunction::Avg => {
                    state.metadata().get(OF).and_then(|of| of.parse().ok())
                }
                AggregateFunction::Collected(_) => {
                    RowCollection::row_type_of_state(state.data_type())
                }
                _ => Some(state.data_type().clone()),
            };
            let of = of.ok_or_else(error)?;
            let kind = FunctionKind::resolved(function, of);
            fields.by_ref().take(kind.states().len() - 1).for_each(drop);
            values.push(NamedFunction { name: name.clone(), kind });
        }
        fields.next();
        for value in
            values.iter_mut().filter(|v| v.kind.function == AggregateFunction::CountDistinct)
        {
            value.kind.of = fields.next().ok_or_else(error)?.data_type().clone();
        }
        let plan = AggregatePlan::of(config, spelled, keys, values)?;
        if plan.states.fields() == states.fields() { Ok(plan) } else { Err(error()) }
    }

    fn of(
        config: &Config,
        spelled: AggregateCalls,
        keys: Vec<FieldRef>,
        values: Vec<NamedFunction>,
    ) -> Result<AggregatePlan> {
        check_names(config)?;
        let types: Vec<DataType> = keys.iter().map(|key| key.data_type().clone()).collect();
        let distinct = values.iter().enumerate();
        let distinct =
            distinct.filter(|(_, value)| value.kind.function == AggregateFunction::CountDistinct);
        let distinct: Vec<(usize, DataType)> =
            distinct.map(|(number, value)| (number, value.kind.of.clone())).collect();
        let mut states: Vec<FieldRef> = vec![Arc::new(Field::new(HASH, DataType::UInt64, false))];
        states.extend(keys.iter().cloned());
        let mut given = keys.clone();
        for NamedFunction { name, kind } in &values {
            given.push(Arc::new(Field::new(name, kind.output(), kind.is_nullable())));
            for (number, data_type) in kind.states().into_iter().enumerate() {
                let field = Field::new(format!("__{name}_{number}"), data_type, true);
                let of = matches!(kind.function, AggregateFunction::Sum | AggregateFunction::Avg)
                    && number == 0;
                let of = of.then(|| HashMap::from([(OF.into(), kind.of.to_string())]));
                states.push(Arc::new(field.with_metadata(of.unwrap_or_default())));
            }
        }
        let group_states = Arc::new(Schema::new(states.clone()));
        if !distinct.is_empty() {
            states.push(Arc::new(Field::new(ROW_KIND, DataType::UInt16, false)));
        }
        let mut pairs = vec![];
        for (number, data_type) in &distinct {
            let name = format!("__{}_value", values[*number].name);
            let value = Arc::new(Field::new(name, data_type.clone(), true));
            let columns = states[..1 + keys.len()].iter().chain([&value]).cloned();
            pairs.push(Arc::new(Schema::new(columns.collect::<Vec<_>>())));
            states.push(value);
        }
        let given = Arc::new(Schema::new(given));
        let over = spelled.projection(&keys, &given)?;
        Ok(AggregatePlan {
            form: KeyForm::of(&types),
            states: Arc::new(Schema::new(states)),
            group_states,
            pairs,
            output: output(&over, &given),
            results: given,
            projection: over,
            keys,
            values,
            distinct,
        })
    }

    pub(crate) fn key_types(&self) -> Vec<DataType> {
        self.keys.iter().map(|key| key.data_type().clone()).collect()
    }

    /// Empty states of all values.
    pub(crate) fn start(&self) -> Vec<Box<dyn AggregateState>> {
        self.values.iter().map(|value| value.kind.start(&value.name)).collect()
    }

    /// The number of state columns in `states`, behind hashes and keys.
    pub(crate) fn state_columns(&self) -> usize {
        self.values.iter().map(|value| value.kind.states().len()).sum()
    }

    /// A batch of states of groups.
    pub(crate) fn of_groups(
        &self,
        hashes: Vec<u64>,
        keys: Vec<ArrayRef>,
        states: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
        columns.extend(keys);
        columns.extend(states);
        Ok(RecordBatch::try_new(self.group_states.clone(), columns)?)
    }

    /// A batch of distinct values of groups, for the `number`-th `count(distinct)`. The value is
    /// the last column.
    pub(crate) fn of_pairs(
        &self,
        number: usize,
        hashes: Vec<u64>,
        pairs: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
        columns.extend(pairs);
        Ok(RecordBatch::try_new(self.pairs[number].clone(), columns)?)
    }
}

impl ArgumentEvaluator {
    /// The evaluation of the arguments of one call, and its function.
    pub(crate) fn of_call(
        text: &str,
        input: &SchemaRef,
    ) -> Result<(ArgumentEvaluator, FunctionKind)> {
        let mut source = ArgumentEvaluator::default();
        let value = source.value(text, text, input, &mut vec![])?;
        Ok((source, value.kind))
    }

    fn value(
        &mut self,
        name: &str,
        text: &str,
        input: &SchemaRef,
        texts: &mut Vec<String>,
    ) -> Result<NamedFunction> {
        let AggregateCall { function, arguments } = parse(text)?;
        let numbers = arguments.into_iter().map(|what| self.argument(what, input, texts));
        let numbers: Vec<usize> = numbers.collect::<Result<_>>()?;
        let types = numbers.iter().map(|number| match &self.arguments[*number] {
            Argument::Column(column) => plain_type(input.field(*column).data_type()),
            Argument::Computed(expression) | Argument::Narrow(expression, _) => {
                plain_type(expression.data_type())
            }
        });
        let types: Vec<DataType> = types.collect();
        let is_of_columns =
            matches!(function, AggregateFunction::Pairs(_) | AggregateFunction::Collected(_));
        let (source, of) = match (&numbers[..], &types[..]) {
            ([], _) => (ValueSource::Rows, DataType::Null),
            ([number], [of]) if !is_of_columns => (ValueSource::Argument(*number), of.clone()),
            _ => {
                let fields = types.iter().enumerate();
                let field =
                    |(at, of): (usize, &DataType)| Field::new(at.to_string(), of.clone(), true);
                let fields: Fields = fields.map(field).collect();
                (ValueSource::Struct(fields.clone(), numbers.clone()), DataType::Struct(fields))
            }
        };
        self.of.push(source);
        let kind = FunctionKind::new(function, of, text)?;
        for number in numbers {
            self.may_be_encoded[number] &= kind.takes_dictionaries();
        }
        Ok(NamedFunction { name: name.into(), kind })
    }

    /// Has arguments evaluated in 64 bits if only sums and means take them.
    fn narrow(&mut self, values: &[NamedFunction]) {
        let takers = |number: usize| {
            let is_taken = move |of: &ValueSource| match of {
                ValueSource::Rows => false,
                ValueSource::Argument(argument) => *argument == number,
                ValueSource::Struct(_, arguments) => arguments.contains(&number),
            };
            self.of.iter().zip(values).filter(move |(of, _)| is_taken(of)).map(|(_, value)| value)
        };
        let is_summed = |number| takers(number).all(|value| value.kind.takes_narrow_decimals());
        let summed: Vec<bool> = (0..self.arguments.len()).map(is_summed).collect();
        let arguments = std::mem::take(&mut self.arguments).into_iter().zip(summed);
        let narrowed = arguments.map(|(argument, is_summed)| match argument {
            Argument::Computed(expression) if is_summed && expression.may_be_narrow() => {
                Argument::Narrow(expression, AtomicBool::new(true))
            }
            other => other,
        });
        self.arguments = narrowed.collect();
    }

    /// The number of an argument. One that is shared by several values is evaluated once.
    fn argument(
        &mut self,
        what: String,
        input: &SchemaRef,
        texts: &mut Vec<String>,
    ) -> Result<usize> {
        if let Some(number) = texts.iter().position(|other| *other == what) {
            return Ok(number);
        }
        self.arguments.push(match input.index_of(&what) {
            Ok(column) => Argument::Column(column),
            Err(_) => Argument::Computed(Expression::parse(&what, input)?),
        });
        texts.push(what);
        self.may_be_encoded.push(true);
        Ok(texts.len() - 1)
    }

    /// The key columns of a batch, with dictionaries if they have some.
    pub(crate) fn keys(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.by.iter().map(|column| batch.column(*column).clone()).collect()
    }

    /// The argument of each value, if it has one, without a dictionary unless all functions of it
    /// take one.
    pub(crate) fn values(
        &self,
        batch: &RecordBatch,
        rows: Range<usize>,
    ) -> Result<Vec<Option<ArrayRef>>> {
        let mut memo = NarrowMemo::default();
        let compute = |(argument, may_be_encoded): (&Argument, &bool)| {
            let column = match argument {
                Argument::Column(column) => batch.column(*column).slice(rows.start, rows.len()),
                Argument::Computed(expression) => expression.evaluate_rows(batch, rows.clone())?,
                Argument::Narrow(expression, fits) => {
                    narrow(expression, fits, batch, &rows, &mut memo)?
                }
            };
            if *may_be_encoded { Ok(column) } else { plain(&column) }
        };
        let columns = self.arguments.iter().zip(&self.may_be_encoded).map(compute);
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let value = |of: &ValueSource| match of {
            ValueSource::Rows => Ok(None),
            ValueSource::Argument(number) => Ok(Some(columns[*number].clone())),
            ValueSource::Struct(fields, numbers) => {
                let columns = numbers.iter().map(|number| columns[*number].clone()).collect();
                let rows = StructArray::try_new(fields.clone(), columns, None)?;
                Ok(Some(Arc::new(rows) as ArrayRef))
            }
        };
        self.of.iter().map(value).collect()
    }
}

/// Evaluates in 64 bits as long as all values have them.
fn narrow(
    expression: &Expression,
    fits: &AtomicBool,
    batch: &RecordBatch,
    rows: &Range<usize>,
    memo: &mut NarrowMemo,
) -> Result<ArrayRef> {
    if fits.load(Relaxed) {
        if let Some(values) = expression.evaluate_narrow(batch, rows.clone(), memo) {
            return Ok(values);
        }
        fits.store(false, Relaxed);
    }
    expression.evaluate_rows(batch, rows.clone())
}

fn check_names(config: &Config) -> Result<()> {
    if config.by.is_empty() && config.values.0.is_empty() {
        let error = Error::usage("`by` and `values` are empty");
        return Err(error.remedy("say what to compute, like `{\"rows\": \"count()\"}`"));
    }
    for (number, name) in config.by.iter().enumerate() {
        if config.by[..number].contains(name) {
            return Err(Error::usage(format!("`{name}` is in `by` twice")).remedy("once will do"));
        }
        if config.values.0.iter().any(|(other, _)| other == name) {
            let error = Error::usage(format!("a value has the name of the key `{name}`"));
            return Err(error.remedy("give it another name").at("values"));
        }
    }
    Ok(())
}

fn no_key(field: &Field) -> Error {
    let message = format!("rows cannot be grouped by `{}`, a {}", field.name(), field.data_type());
    Error::usage(message).remedy("group by columns of simple types: take parts of it").at("by")
}
