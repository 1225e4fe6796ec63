//! `at time zone`: a local time as an instant, and an instant as the local time of a zone.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use euphrates_flow::{Error, Result};
use sqlparser::ast::Expr as Ast;

use super::Translator;
use crate::expression::common_type::plain;
use crate::expression::typed::Typed;

impl Translator<'_> {
    /// An instant if the time has no zone, else the local time in this zone.
    pub(super) fn at_zone(&self, time: &Ast, zone: &Ast, depth: usize) -> Result<Typed> {
        let zone = self.expr(zone, depth)?;
        let Some(Some(zone)) = zone.value().and_then(ScalarValue::try_as_str) else {
            return Err(Error::usage("AT TIME ZONE needs the name of a zone in quotes"));
        };
        let time = self.expr(time, depth)?;
        let in_zone = |zone: &str| DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
        let is_instant = matches!(plain(&time.data_type), DataType::Timestamp(_, Some(_)));
        let zoned = time.cast_explicit(in_zone(zone), false)?;
        match is_instant {
            true => self.call("local_time", vec![zoned]),
            false => zoned.cast_explicit(in_zone("UTC"), false),
        }
    }
}
