//! Late binding with laggard-first requests: the default policy.
//!
//! A batch is bound to a consumer when the consumer is about to begin it. Before that there are
//! only reservations of a few bytes. The endpoints meet as follows:
//!
//! - *Homes.* A producer reserves its k-th batch at one consumer, its home, such that all producers
//!   together cover all consumers evenly. This is the perfect division while nothing is slow, with
//!   three small messages per batch. If an earlier batch has not been requested yet, that is, if
//!   the perfect division fails, it places more at random consumers: none if it is ahead of other
//!   producers, one if it is even, two if it lags.
//! - *Locality.* If some endpoints share a machine, a producer's homes are the consumers near it,
//!   its only ready batch is kept for them for a while, and a consumer asks near producers unless a
//!   far one has much more left. Batches that can be consumed locally thus stay off the network.
//! - *Laggard first.* Every message of a producer carries its bytes left. A consumer remembers the
//!   latest stock of a few producers and asks the one with most left, so that all finish together.
//! - *Just in time.* A consumer requests a piece when the pieces it holds will last no longer than
//!   two round trips, of which one may be in vain. A fast and far consumer keeps many slots busy; a
//!   slow one has one piece in service and none behind it. Nothing needs tuning.
//! - *Waiting.* A consumer that finds nothing waits at one producer, which gives it its next piece
//!   at once. It then polls others with exponential back-off and relies on reservations.
//! - *Advertising.* A producer with a ready batch that no consumer requests reserves it at other
//!   consumers with exponential back-off, and once after a short wait when no other producer has
//!   anything left. The ends thus find each other when few are left, without flooding.
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
