//! Limits and samples.

use datafusion_common::ScalarValue;
use datafusion_expr::logical_plan::Limit;
use datafusion_expr::{Expr, FetchType, SkipType};
use euphrates_flow::{Error, Result};
use serde_json::{Value, json};

use super::{Lowering, PlannedRows};
use crate::errors::failed;
use crate::relations::sampled::is_sample;
use crate::rewrites::one_row_barriers::is_barrier;
use crate::statement::unsupported;

impl Lowering<'_> {
    pub(super) fn limit(&mut self, limit: &Limit) -> Result<PlannedRows> {
        let is_none = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0))))
            && self.shared.is_empty()
            && self.read.is_none();
        let before = is_none.then(|| self.document.clone());
        let stream = self.stream(&limit.input)?;
        if is_barrier(limit) {
            return Ok(stream);
        }
        if let Some(before) = before {
            return self.no_rows(stream, before);
        }
        if let Some(sample) = limit.fetch.as_deref().filter(|fetch| is_sample(fetch)) {
            let id = self.behind(&stream.id, "sample", sample_config(sample)?);
            return Ok(PlannedRows { id, ..stream });
        }
        let computed = || unsupported("a computed limit").remedy("write a number");
        let SkipType::Literal(offset) = limit.get_skip_type().map_err(failed)? else {
            return Err(computed());
        };
        let FetchType::Literal(rows) = limit.get_fetch_type().map_err(failed)? else {
            return Err(computed());
        };
        let mut config = json!({"rows": rows.map_or(u64::MAX >> 1, |rows| rows as u64)});
        if offset > 0 {
            config["offset"] = offset.into();
        }
        let id = self.behind(&stream.id, "limit", config);
        Ok(PlannedRows { id, ..stream })
    }
}

/// The options of the module `sample`, from the call that marks one.
fn sample_config(sample: &Expr) -> Result<Value> {
    let wrong = || {
        let error = Error::usage("the size and the seed of a sample are numbers");
        error.remedy("write `tablesample (10 percent)` or `tablesample reservoir(10 rows)`")
    };
    let Expr::ScalarFunction(call) = sample else { return Err(wrong()) };
    let [Expr::Literal(unit, _), Expr::Literal(count, _), Expr::Literal(seed, _)] = &call.args[..]
    else {
        return Err(wrong());
    };
    let number = |value: &ScalarValue| value.to_string().parse::<f64>().map_err(|_| wrong());
    let whole = |value: &ScalarValue| value.to_string().parse::<u64>().map_err(|_| wrong());
    let seed = whole(seed)?;
    match unit.try_as_str() {
        Some(Some("percent")) => Ok(json!({"fraction": number(count)? / 100.0, "seed": seed})),
        _ => Ok(json!({"rows": whole(count)?, "seed": seed})),
    }
}
