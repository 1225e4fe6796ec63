//! Late binding with laggard-first requests: the default policy.
//!
//! A batch is assigned to a consumer when the consumer is about to begin it. Before that, producers
//! send only reservations of a few bytes. The rules are:
//!
//! - *Homes.* A producer reserves its k-th batch at one consumer, its home, such that all producers
//!   together cover all consumers evenly. While no component is slow, this balances the load with
//!   three small messages per batch. If an earlier batch has not been requested yet, that is, if
//!   consumers differ in speed, the producer sends more reservations to random consumers: none if
//!   it is ahead of other producers, one if it is even, two if it lags.
//! - *Locality.* If some endpoints share a machine, a producer's homes are the consumers near it,
//!   its only ready batch is kept for them for a while, and a consumer requests from near producers
//!   unless a far one has much more left. Batches that can be consumed locally do not cross the
//!   network.
//! - *Laggard first.* Every message of a producer carries its bytes left. A consumer remembers the
//!   latest stock of a few producers and asks the one with most left, so that all finish together.
//! - *Just in time.* A consumer requests a piece when the pieces it holds will last no longer than
//!   two round trips (the first request may be answered with nothing). A fast consumer with a long
//!   round trip keeps many pieces in flight; a slow one has one piece in service and none queued.
//!   There is no parameter to tune.
//! - *Waiting.* A consumer that finds no work registers at one producer, which sends it its next
//!   piece immediately. It then polls others with exponential back-off and relies on reservations.
//! - *Advertising.* A producer with a ready batch that no consumer requests reserves it at other
//!   consumers with exponential back-off, and once after a short wait when no other producer has
//!   anything left. The last producers and consumers therefore find each other without flooding.
//! - *Pieces.* When a producer estimates that the queue will end before the requester could finish
//!   a whole batch, it gives a piece for half of the time until that end, or for all of it if the
//!   piece was taken as soon as it was ready.
//! - *Recalls.* Unbegun pieces are recalled for a waiting consumer.
//!
//! After Sparrow's late binding (SOSP '13). Laggard first is River's graduated declustering (2.2.3)
//! for producers, and the pieces are guided self-scheduling (Polychronopoulos and Kuck, 1987).

mod consumer;
mod give_rate;
mod known;
mod limits;
mod producer;

pub use consumer::Consumer;
pub use limits::Limits;
pub use producer::Producer;
