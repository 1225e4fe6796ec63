//! What is kept of each group for what is computed of it: states, which rows are added to, which
//! can be merged, and which are finished at the end.
//!
//! Groups are numbers, found once for a batch; then each state goes over its column in one loop. As
//! they travel, states are columns of a batch, in which null says that there was nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, NullArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use euphrates_flow::{Error, Result};

use super::spelling::Function;

mod extreme;
mod sum;

use extreme::{BytesExtreme, extreme_of};
use sum::{FloatSum, Sum, WideSum};

/// The states of all groups for one value.
pub trait State: Send {
    /// From now on there are so many groups; what is new has seen nothing.
    fn grow(&mut self, groups: usize);

    /// Adds rows to their groups: the values of a column, or nothing but that there are rows.
    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()>;

    /// Merges states that have come as columns.
    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()>;

    /// The states as columns; none are left.
    fn take(&mut self) -> Result<Vec<ArrayRef>>;

    /// What comes out; nothing is left.
    fn finish(&mut self) -> Result<ArrayRef>;

    /// Bytes of what is kept.
    fn bytes(&self) -> usize;
}

/// One value: what it is computed by, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The function.
    pub function: Function,
    /// The type of what it is computed of, without dictionaries; that of rows is null.
    pub of: DataType,
}

impl Kind {
    /// Fails if there is no such thing; `text` is how it was written.
    pub fn new(function: Function, of: DataType, text: &str) -> Result<Kind> {
        use DataType::*;
        // Of a column without a type nothing is known, and nothing comes out.
        let is_number = of.is_integer() || of.is_floating() || of == Null;
        let is_decimal = matches!(of, Decimal32(..) | Decimal64(..) | Decimal128(..));
        let fits = match function {
            Function::Count => true,
            Function::CountDistinct => crate::hashing::can_hash(&of),
            Function::Sum | Function::Avg => is_number || is_decimal,
            Function::Min | Function::Max => {
                is_bytes(&of)
                    || matches!(of, Boolean | Null)
                    || (of.is_primitive() && !matches!(of, Interval(_)))
            }
        };
        if fits {
            return Ok(Kind { function, of });
        }
        let name = function.name();
        let error = Error::usage(format!("`{text}`: there is no {name} of {of}"));
        Err(match of {
            Decimal256(..) => error.remedy("cast it to decimal(38, ...) or double"),
            _ if is_bytes(&of) || of == Boolean => {
                error.remedy(format!("cast it to a number: `{name}(cast(... as bigint))`"))
            }
            _ => error.remedy("cast it to a simple type, or take a part of it"),
        })
    }

    /// The types of its states.
    pub fn states(&self) -> Vec<DataType> {
        match self.function {
            Function::Count | Function::CountDistinct => vec![DataType::Int64],
            Function::Sum => vec![self.sum_type()],
            Function::Avg => vec![self.sum_type(), DataType::Int64],
            Function::Min | Function::Max => vec![self.of.clone()],
        }
    }

    /// The type of what comes out.
    pub fn output(&self) -> DataType {
        match self.function {
            Function::Count | Function::CountDistinct => DataType::Int64,
            Function::Avg => DataType::Float64,
            Function::Min | Function::Max => self.of.clone(),
            Function::Sum if self.of.is_signed_integer() || self.of.is_null() => DataType::Int64,
            Function::Sum if self.of.is_integer() => DataType::UInt64,
            Function::Sum => self.sum_type(),
        }
    }

    /// Whether what comes out may be null.
    pub fn is_nullable(&self) -> bool {
        !matches!(self.function, Function::Count | Function::CountDistinct)
    }

    /// Sums are so wide that only what comes out can be too large, never a part of it.
    fn sum_type(&self) -> DataType {
        match &self.of {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            of if of.is_integer() || of.is_null() => DataType::Decimal128(38, 0),
            _ => DataType::Float64,
        }
    }

    /// States of no group yet; `name` is what errors speak of.
    pub fn start(&self, name: &str) -> Box<dyn State> {
        let sum = |name: &str| -> Box<dyn Sum> {
            match self.sum_type() {
                DataType::Float64 => Box::new(FloatSum::default()),
                data_type => Box::new(WideSum::new(data_type, name)),
            }
        };
        match self.function {
            Function::Count | Function::CountDistinct => Box::new(Count::default()),
            Function::Sum => Box::new(SumOf { sum: sum(name), output: self.output() }),
            Function::Avg => Box::new(Avg { sum: sum(name), counts: Count::default() }),
            Function::Min | Function::Max => {
                let is_max = self.function == Function::Max;
                match &self.of {
                    DataType::Null => Box::new(Nothing::default()),
                    DataType::Boolean => Box::new(Recast {
                        state: extreme_of(&DataType::UInt8, is_max),
                        inner: DataType::UInt8,
                        outer: DataType::Boolean,
                    }),
                    of if is_bytes(of) => Box::new(Recast {
                        state: Box::new(BytesExtreme::new(is_max)),
                        inner: DataType::LargeBinary,
                        outer: of.clone(),
                    }),
                    of => extreme_of(of, is_max),
                }
            }
        }
    }
}

impl Function {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count | Function::CountDistinct => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Avg => "avg",
        }
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

/// Which groups have seen a value: most often all, and then nothing is kept of it.
#[derive(Default)]
pub(super) struct Seen {
    /// Once some group may have seen none.
    flags: Option<Vec<bool>>,
    groups: usize,
    /// Groups that have just come, and will be told of.
    fresh: usize,
}

impl Seen {
    fn grow(&mut self, groups: usize) {
        self.fresh += groups - self.groups;
        self.groups = groups;
        if let Some(flags) = &mut self.flags {
            flags.resize(groups, false);
        }
    }

    /// Each of these groups has seen a value; groups that have come since the last call are among
    /// them.
    fn all(&mut self, groups: &[u32]) {
        if let Some(flags) = &mut self.flags {
            groups.iter().for_each(|group| flags[*group as usize] = true);
        }
        self.fresh = 0;
    }

    /// Those of these groups have whose row is valid.
    fn some(&mut self, groups: impl Iterator<Item = u32>) {
        let (known, all) = (self.groups - self.fresh, self.groups);
        let flags = self.flags.get_or_insert_with(|| {
            let mut flags = vec![true; known];
            flags.resize(all, false);
            flags
        });
        groups.for_each(|group| flags[group as usize] = true);
        self.fresh = 0;
    }

    fn take(&mut self) -> Option<arrow::buffer::NullBuffer> {
        let flags =
            self.flags.take().or_else(|| (self.fresh > 0).then(|| vec![false; self.groups]));
        (self.groups, self.fresh) = (0, 0);
        flags.map(Into::into)
    }

    fn bytes(&self) -> usize {
        self.flags.as_ref().map_or(0, Vec::len)
    }
}

#[derive(Default)]
struct Count(Vec<i64>);

impl State for Count {
    fn grow(&mut self, groups: usize) {
        self.0.resize(groups, 0);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        match values.and_then(|values| values.logical_nulls()) {
            Some(nulls) if nulls.null_count() > 0 => {
                let rows = groups.iter().zip(nulls.iter());
                rows.for_each(|(group, valid)| self.0[*group as usize] += i64::from(valid));
            }
            _ => groups.iter().for_each(|group| self.0[*group as usize] += 1),
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let counts = states[0].as_primitive::<Int64Type>();
        match counts.nulls() {
            Some(nulls) => nulls.valid_indices().for_each(|row| {
                self.0[groups[row] as usize] += counts.value(row);
            }),
            None => {
                let rows = groups.iter().zip(counts.values());
                rows.for_each(|(group, count)| self.0[*group as usize] += count);
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish()?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.0))))
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<i64>()
    }
}

struct SumOf {
    sum: Box<dyn Sum>,
    output: DataType,
}

impl State for SumOf {
    fn grow(&mut self, groups: usize) {
        self.sum.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        self.sum.add(values.expect("a sum is of something"), groups)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.sum.add(&states[0], groups)
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
    counts: Count,
}

impl State for Avg {
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

/// Of values that are all null.
#[derive(Default)]
struct Nothing {
    groups: usize,
}

impl State for Nothing {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn add(&mut self, _: Option<&ArrayRef>, _: &[u32]) -> Result<()> {
        Ok(())
    }

    fn merge(&mut self, _: &[ArrayRef], _: &[u32]) -> Result<()> {
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish()?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(NullArray::new(std::mem::take(&mut self.groups))))
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// States of values that are kept as another type.
struct Recast {
    state: Box<dyn State>,
    inner: DataType,
    outer: DataType,
}

impl State for Recast {
    fn grow(&mut self, groups: usize) {
        self.state.grow(groups);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = cast(values.expect("an extreme is of something"), &self.inner)?;
        self.state.add(Some(&values), groups)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        self.add(states.first(), groups)
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish()?])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(cast(&self.state.finish()?, &self.outer)?)
    }

    fn bytes(&self) -> usize {
        self.state.bytes()
    }
}
