//! Checks one queue of a flow: its kind, and whether it hands out batches, runs or partitions.

use arrow::datatypes::SchemaRef;

use super::checked::{CheckedEdge, CheckedNode, QUEUE_BYTES_MAX, QueueUnit};
use super::graph::Incoming;
use crate::document::QueueKind;
use crate::error::{Error, Result};
use crate::shape::InputOrder;

/// The kind of a queue. The producer's output and the document must agree.
fn kind(said: Option<QueueKind>, producer: &CheckedNode) -> Result<QueueKind> {
    let place = |error: Error| error.at(format!("queue from {}", producer.id));
    match (said, producer.interface.is_keyed) {
        (None | Some(QueueKind::Keyed), true) => Ok(QueueKind::Keyed),
        (Some(_), true) => {
            let error = Error::usage("each whole partition goes to the next free consumer");
            Err(place(error.remedy("leave out queue")))
        }
        (Some(QueueKind::Keyed), false) => {
            let error = Error::usage("a keyed queue from a module that keeps no partitions");
            Err(place(error.remedy("place a `partition` between the two")))
        }
        (said, false) => Ok(said.unwrap_or(QueueKind::Distributed)),
    }
}

/// The unit that a queue hands to a consumer with this order. It does not depend on the numbers of
/// instances, so it is known before the consumer is bound.
pub(super) fn unit(incoming: &Incoming, producer: &CheckedNode, order: InputOrder) -> QueueUnit {
    let is_keyed = kind(incoming.edge.queue, producer).is_ok_and(|kind| kind == QueueKind::Keyed);
    match is_keyed || (producer.ordered && order != InputOrder::Any) {
        true => QueueUnit::Run,
        false => QueueUnit::Batch,
    }
}

/// Checks a queue: its kind, and whether it hands out batches or whole runs.
pub(super) fn check_edge(
    incoming: &Incoming,
    schema: &SchemaRef,
    producer: &CheckedNode,
    order: InputOrder,
    count: usize,
) -> Result<CheckedEdge> {
    let kind = kind(incoming.edge.queue, producer)?;
    if kind == QueueKind::Pairwise && producer.count != count {
        let message = format!("a pairwise queue joins {} instances to {count}", producer.count);
        return Err(Error::usage(message)
            .at(format!("queue from {}", producer.id))
            .remedy("give both modules the same count"));
    }
    // A pairwise queue splits the runs of several producers, which leaves gaps in their numbers.
    let gaps = producer.ordered && kind == QueueKind::Pairwise && count > 1;
    if gaps && order != InputOrder::Any {
        return Err(Error::usage("a pairwise queue loses the order that this module would keep")
            .at(format!("queue from {}", producer.id))
            .remedy(
                "leave out queue, so that whole runs go to free consumers; or read unordered",
            ));
    }
    let unit = unit(incoming, producer, order);
    let why = match (unit, order) {
        (QueueUnit::Batch, _) if producer.ordered => "needs no order",
        (QueueUnit::Batch, _) => "gets a stream that has no order",
        (QueueUnit::Run, _) if kind == QueueKind::Keyed => "takes whole partitions",
        (QueueUnit::Run, InputOrder::Ordered) => "needs the whole stream in order",
        (QueueUnit::Run, _) if producer.keeps_equal_keys_together => "keeps groups whole",
        (QueueUnit::Run, _) => "keeps the order of the runs",
    };
    Ok(CheckedEdge {
        from: (incoming.producer, incoming.output),
        to: (0, incoming.input),
        schema: schema.clone(),
        kind,
        unit,
        keeps_equal_keys_together: producer.keeps_equal_keys_together && unit == QueueUnit::Run,
        bytes_max: incoming.edge.bytes_max.unwrap_or(QUEUE_BYTES_MAX).max(1),
        why: format!("the consumer {why}"),
    })
}
