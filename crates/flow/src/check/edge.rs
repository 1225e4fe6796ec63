//! Checks one queue of a flow: its kind, and the unit it hands out.

use arrow::datatypes::SchemaRef;

use super::checked::{CheckedEdge, CheckedNode, QUEUE_BYTES_MAX, Unit};
use super::graph::Incoming;
use crate::document::QueueKind;
use crate::error::{Error, Result};
use crate::shape::Order;

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

/// Whether a queue hands out whole runs to a consumer with this order.
pub(super) fn arrives_in_runs(incoming: &Incoming, producer: &CheckedNode, order: Order) -> bool {
    let is_keyed = kind(incoming.edge.queue, producer).is_ok_and(|kind| kind == QueueKind::Keyed);
    is_keyed || (producer.ordered && order != Order::Any)
}

/// Checks a queue: its kind, and whether it hands out batches or whole runs.
pub(super) fn check_edge(
    incoming: &Incoming,
    schema: &SchemaRef,
    producer: &CheckedNode,
    order: Order,
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
    if gaps && order != Order::Any {
        return Err(Error::usage("a pairwise queue loses the order that this module would keep")
            .at(format!("queue from {}", producer.id))
            .remedy(
                "leave out queue, so that whole runs go to free consumers; or read unordered",
            ));
    }
    let ordered = producer.ordered && !gaps;
    let (unit, why) = match (ordered, order) {
        _ if kind == QueueKind::Keyed => (Unit::Run, "takes whole partitions"),
        (true, Order::Any) => (Unit::Batch, "needs no order"),
        (true, Order::Keeps) if producer.groups => (Unit::Run, "keeps groups whole"),
        (true, Order::Keeps) => (Unit::Run, "keeps the order of the runs"),
        (true, Order::Ordered) => (Unit::Run, "needs the whole stream in order"),
        (false, _) => (Unit::Batch, "gets a stream that has no order"),
    };
    Ok(CheckedEdge {
        from: (incoming.producer, incoming.output),
        to: (0, incoming.input),
        schema: schema.clone(),
        kind,
        unit,
        groups: producer.groups && unit == Unit::Run,
        bytes_max: incoming.edge.bytes_max.unwrap_or(QUEUE_BYTES_MAX).max(1),
        why: format!("the consumer {why}"),
    })
}
