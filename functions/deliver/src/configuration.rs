//! DST-1: destinations as this sandbox knows them, for at most 30 s.
//!
//! Owns: the cache and what a missing or wrong row means. Must not: parse fields.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Destinations, Unavailable};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;

/// A change takes hold within this.
const CACHED: Duration = Duration::from_secs(30);

/// A destination, or why nothing can be sent to it.
#[derive(Debug, Clone)]
pub enum Configured {
    /// Its configuration.
    Destination(Arc<Destination>),
    /// The reason for its events' end, and the error for the operator.
    Unusable(Reason, String),
}

/// The cache.
#[derive(Debug, Default)]
pub struct Configuration(RefCell<HashMap<DestinationName, (Timestamp, Arc<Destination>)>>);

impl Configuration {
    /// The destination of that name; only a usable one is cached, so that a new row is seen at once.
    pub async fn of<D: Destinations>(
        &self,
        store: &D,
        name: &DestinationName,
        now: Timestamp,
        function_timeout: Duration,
    ) -> Result<Configured, Unavailable> {
        if let Some((read_at, destination)) = self.0.borrow().get(name)
            && now.since(*read_at) < CACHED
            && now >= *read_at
        {
            return Ok(Configured::Destination(Arc::clone(destination)));
        }
        let Some(row) = store.read(name).await? else {
            let error = format!("destination: there is none named {name}");
            return Ok(Configured::Unusable(Reason::UnknownDestination, error));
        };
        Ok(match Destination::parse(name, &row).and_then(|d| d.fits(function_timeout)) {
            Ok(destination) if destination.disabled => Configured::Unusable(
                Reason::DisabledDestination,
                "disabled: is true in the destination's row".to_owned(),
            ),
            Ok(destination) => {
                let destination = Arc::new(destination);
                self.0.borrow_mut().insert(name.clone(), (now, Arc::clone(&destination)));
                Configured::Destination(destination)
            }
            Err(error) => Configured::Unusable(Reason::InvalidDestination, error.to_string()),
        })
    }
}
