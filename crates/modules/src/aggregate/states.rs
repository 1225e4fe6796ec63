//! Aggregation states: rows are added to them, they are merged, and finished into values.
//!
//! Group numbers are found once for a batch; then each state processes its column in one loop. When
//! they are sent or spilled, states are columns of a batch, in which null means that there was no
//! value.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use euphrates_flow::{Error, Result};

use super::functions::{AggregateFunction, Finish, PairStatistic, RowCollection};

mod bytes_extreme;
mod collected;
mod count;
mod distribution;
mod finish;
mod folded;
mod grouped_rows;
mod lanes;
mod min_max;
mod moments;
mod pairs;
mod powers;
mod sketches;
mod state;
mod sum;

use self::bytes_extreme::BytesExtreme;
use self::collected::CollectedGroups;
use self::count::CountState;
use self::finish::value_type;
pub(crate) use self::finish::{interpolated, whole_above};
use self::min_max::extreme_of;
use self::moments::SpreadState;
use self::pairs::PairState;
use self::powers::PowerState;
use self::sketches::{DistinctSketch, QuantileSketch};
pub(crate) use self::state::AggregateState;
use self::sum::{FloatSum, Sum, WideSum};

/// An aggregate function with the type of its argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionKind {
    pub(crate) function: AggregateFunction,
    /// The type of the argument, without dictionaries; null if the function counts rows, a struct
    /// if there are several.
    pub(crate) of: DataType,
}

impl FunctionKind {
    /// The function for values, or collected rows, of this type, which it accepts.
    pub(crate) fn resolved(mut function: AggregateFunction, of: DataType) -> FunctionKind {
        if let AggregateFunction::Collected(collection) = &mut function {
            collection.finish = collection.finish.of_type(&of);
        }
        FunctionKind { function, of }
    }

    /// Fails if the function does not accept this type; `text` is the call as written.
    pub(crate) fn new(
        function: AggregateFunction,
        of: DataType,
        text: &str,
    ) -> Result<FunctionKind> {
        use DataType::*;
        // A column of type null has no values, so any function accepts it.
        let is_number = of.is_integer() || of.is_floating() || of == Null;
        let is_decimal =
            |of: &DataType| matches!(of, Decimal32(..) | Decimal64(..) | Decimal128(..));
        let of = match &function {
            AggregateFunction::Collected(collection) => collection.row_type(&of),
            _ => of,
        };
        let FunctionKind { function, of } = FunctionKind::resolved(function, of);
        let fits = match &function {
            AggregateFunction::Count => true,
            AggregateFunction::CountDistinct | AggregateFunction::ApproxDistinct => {
                crate::partitioning::hashing::can_hash(&of)
            }
            AggregateFunction::Sum
            | AggregateFunction::Avg
            | AggregateFunction::Spread(_)
            | AggregateFunction::Product
            | AggregateFunction::Powers(_)
            | AggregateFunction::ApproxQuantile(_) => is_number || is_decimal(&of),
            AggregateFunction::Bits(_) => of.is_integer() || of == Null,
            AggregateFunction::Pairs(_) => match &of {
                Struct(fields) => fields.iter().all(|field| {
                    let of = field.data_type();
                    of.is_numeric() && !matches!(of, Decimal256(..)) || *of == Null
                }),
                _ => false,
            },
            AggregateFunction::Collected(collection) => {
                if let Finish::Function(inner) = &collection.finish {
                    FunctionKind::new(*inner.clone(), value_type(&of).clone(), text)?;
                }
                !collection.finish.rejects(&of)
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                is_bytes(&of)
                    || matches!(of, Boolean | Null)
                    || (of.is_primitive() && !matches!(of, Interval(_)))
            }
        };
        if fits {
            return Ok(FunctionKind { function, of });
        }
        let name = text.split('(').next().unwrap_or(text).trim();
        let of = match &of {
            Struct(fields) if is_of_columns(&function) => {
                let types: Vec<String> =
                    fields.iter().map(|field| field.data_type().to_string()).collect();
                let error = format!("`{text}`: there is no {name} of {}", types.join(" and "));
                return Err(Error::usage(error).remedy("cast them to simple types"));
            }
            of => of,
        };
        let error = Error::usage(format!("`{text}`: there is no {name} of {of}"));
        Err(match of {
            Decimal256(..) => error.remedy("cast it to decimal(38, ...) or double"),
            _ if is_bytes(of) || *of == Boolean => {
                error.remedy(format!("cast it to a number: `{name}(cast(... as bigint))`"))
            }
            _ => error.remedy("cast it to a simple type, or take a part of it"),
        })
    }

    /// Whether its argument may have a dictionary.
    pub(crate) fn takes_dictionaries(&self) -> bool {
        match self.function {
            AggregateFunction::Count | AggregateFunction::CountDistinct => true,
            AggregateFunction::Min | AggregateFunction::Max => is_bytes(&self.of),
            _ => false,
        }
    }

    /// Whether an argument of decimals may have 64 bits instead of 128, with the same scale.
    pub(crate) fn takes_narrow_decimals(&self) -> bool {
        matches!(self.function, AggregateFunction::Sum | AggregateFunction::Avg)
    }

    /// The types of its state columns.
    pub(crate) fn states(&self) -> Vec<DataType> {
        match &self.function {
            AggregateFunction::Count | AggregateFunction::CountDistinct => vec![DataType::Int64],
            AggregateFunction::Product => vec![DataType::Float64],
            AggregateFunction::Pairs(_) => vec![DataType::Float64; pairs::STATE_COLUMNS],
            AggregateFunction::Powers(_) => vec![DataType::Float64; powers::STATE_COLUMNS],
            AggregateFunction::ApproxDistinct => vec![sketches::hashes_type()],
            AggregateFunction::ApproxQuantile(_) => vec![sketches::digest_type()],
            AggregateFunction::Collected(_) => vec![RowCollection::state_type(&self.of)],
            AggregateFunction::Sum => vec![self.sum_type()],
            AggregateFunction::Avg => vec![self.sum_type(), DataType::Int64],
            AggregateFunction::Spread(_) => {
                vec![DataType::Int64, DataType::Float64, DataType::Float64]
            }
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::Bits(_) => {
                vec![self.of.clone()]
            }
        }
    }

    /// The type of its result.
    pub(crate) fn output(&self) -> DataType {
        match &self.function {
            AggregateFunction::Count
            | AggregateFunction::CountDistinct
            | AggregateFunction::ApproxDistinct
            | AggregateFunction::Pairs(PairStatistic::Count) => DataType::Int64,
            AggregateFunction::Avg
            | AggregateFunction::Spread(_)
            | AggregateFunction::Product
            | AggregateFunction::Powers(_)
            | AggregateFunction::Pairs(_)
            | AggregateFunction::ApproxQuantile(_) => DataType::Float64,
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::Bits(_) => {
                self.of.clone()
            }
            AggregateFunction::Collected(collection) => match self.function_of_all() {
                Some(inner) => inner.output(),
                None => collection.finish.output(&self.of),
            },
            AggregateFunction::Sum if self.of.is_signed_integer() || self.of.is_null() => {
                DataType::Int64
            }
            AggregateFunction::Sum if self.of.is_integer() => DataType::UInt64,
            AggregateFunction::Sum => self.sum_type(),
        }
    }

    /// The function that is made of all collected values, if it is one.
    fn function_of_all(&self) -> Option<FunctionKind> {
        let AggregateFunction::Collected(RowCollection {
            finish: Finish::Function(function), ..
        }) = &self.function
        else {
            return None;
        };
        Some(FunctionKind { function: *function.clone(), of: value_type(&self.of).clone() })
    }

    /// Whether its result may be null.
    pub(crate) fn is_nullable(&self) -> bool {
        !matches!(
            self.function,
            AggregateFunction::Count
                | AggregateFunction::CountDistinct
                | AggregateFunction::ApproxDistinct
                | AggregateFunction::Pairs(PairStatistic::Count)
        )
    }

    /// The type of a sum in its state: 128 bits for integers and decimals. Sums of integers cannot
    /// overflow it. A partial sum of decimals with more than 37 digits can, which is an error.
    fn sum_type(&self) -> DataType {
        match &self.of {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            of if of.is_integer() || of.is_null() => DataType::Decimal128(38, 0),
            _ => DataType::Float64,
        }
    }

    /// An empty state; `name` is used in errors.
    pub(crate) fn start(&self, name: &str) -> Box<dyn AggregateState> {
        let sum = |name: &str| -> Box<dyn Sum> {
            match self.sum_type() {
                DataType::Float64 => Box::new(FloatSum::default()),
                data_type => Box::new(WideSum::new(data_type, name)),
            }
        };
        match &self.function {
            AggregateFunction::Count | AggregateFunction::CountDistinct => {
                Box::new(CountState::default())
            }
            AggregateFunction::Product => folded::product(),
            AggregateFunction::Bits(_) if self.of.is_null() => Box::new(Nothing::default()),
            AggregateFunction::Bits(operation) => folded::bits(*operation, self.of.clone()),
            AggregateFunction::Powers(statistic) => Box::new(PowerState::new(*statistic)),
            AggregateFunction::Pairs(statistic) => Box::new(PairState::new(*statistic)),
            AggregateFunction::ApproxDistinct => Box::new(DistinctSketch::default()),
            AggregateFunction::ApproxQuantile(fraction) => Box::new(QuantileSketch::new(*fraction)),
            AggregateFunction::Collected(collection) => {
                let inner = self.function_of_all().map(|inner| inner.start(name));
                let (by, output) = (collection.clone(), self.output());
                Box::new(CollectedGroups::new(by, &self.of, output, name, inner))
            }
            AggregateFunction::Sum => Box::new(SumOf { sum: sum(name), output: self.output() }),
            AggregateFunction::Avg => {
                Box::new(Avg { sum: sum(name), counts: CountState::default() })
            }
            AggregateFunction::Spread(spread) => Box::new(SpreadState::new(*spread)),
            AggregateFunction::Min | AggregateFunction::Max => {
                let is_max = self.function == AggregateFunction::Max;
                match &self.of {
                    DataType::Null => Box::new(Nothing::default()),
                    DataType::Boolean => Box::new(Recast {
                        state: extreme_of(&DataType::UInt8, is_max),
                        inner: DataType::UInt8,
                        outer: DataType::Boolean,
                    }),
                    of if is_bytes(of) => Box::new(BytesExtreme::new(of.clone(), is_max)),
                    of => extreme_of(of, is_max),
                }
            }
        }
    }
}

/// Whether a struct is the arguments of the function, rather than one of them.
fn is_of_columns(function: &AggregateFunction) -> bool {
    matches!(function, AggregateFunction::Pairs(_) | AggregateFunction::Collected(_))
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

struct SumOf {
    sum: Box<dyn Sum>,
    output: DataType,
}

impl AggregateState for SumOf {
    fn grow(&mut self, groups: usize) {
        self.sum.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        self.sum.add(values.expect("a sum is of something"), groups)
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.sum.take()])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.sum.finish(&self.output)
    }

    fn bytes(&self) -> usize {
        self.sum.bytes()
    }
}

struct Avg {
    sum: Box<dyn Sum>,
    counts: CountState,
}

impl AggregateState for Avg {
    fn grow(&mut self, groups: usize) {
        self.sum.grow(groups);
        self.counts.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        self.counts.add(values, groups)?;
        self.sum.add(values.expect("a mean is of something"), groups)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.sum.add(&states[0], groups)?;
        self.counts.merge(&states[1..], groups)
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.sum.take(), self.counts.finish()?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let counts = std::mem::take(&mut self.counts.0);
        Ok(self.sum.means(&counts))
    }

    fn bytes(&self) -> usize {
        self.sum.bytes() + self.counts.bytes()
    }
}

/// The state for values that are all null.
#[derive(Default)]
struct Nothing {
    groups: usize,
}

impl AggregateState for Nothing {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn add(&mut self, _: Option<&ArrayRef>, _: &[u32]) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(NullArray::new(std::mem::take(&mut self.groups))))
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// States over values that are cast to another type.
struct Recast {
    state: Box<dyn AggregateState>,
    inner: DataType,
    outer: DataType,
}

impl AggregateState for Recast {
    fn grow(&mut self, groups: usize) {
        self.state.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = cast(values.expect("an extreme is of something"), &self.inner)?;
        self.state.add(Some(&values), groups)
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(cast(&self.state.finish()?, &self.outer)?)
    }

    fn bytes(&self) -> usize {
        self.state.bytes()
    }
}
