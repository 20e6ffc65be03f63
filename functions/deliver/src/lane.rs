//! LAN-1: taking one of a destination's lanes for an invocation's share, and giving it back on every path.
//!
//! Owns: what this invocation holds. Must not: choose lanes, nor know what is done in one.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;

use futures::FutureExt as _;
use futures::future::{Either, join_all, select};
use lapse_policy::lanes::{Lane, choose};
use lapse_policy::ledger::LEASE_MARGIN;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Chance as _, Clock as _, Lanes as _, Unavailable};
use lapse_policy::timestamp::Timestamp;

use crate::run::Run;
use crate::world::World;

/// A destination's lane.
pub type Held = (DestinationName, Lane);

/// Takes a free lane: one read, and at most two tries. `None` if there is none.
pub async fn take<W: World>(
    run: &Run<'_, W>,
    name: &DestinationName,
    most: NonZeroU32,
) -> Result<Option<Held>, Unavailable> {
    let (store, chance) = (run.world.lanes(), run.world.chance());
    let lanes = store.read(name).await?;
    let (owner, until) = (chance.token(), run.ends_at.plus(LEASE_MARGIN));
    for number in choose(&lanes, most, run.now(), chance.draw()) {
        let held = (name.clone(), Lane { number, owner: owner.clone(), until });
        // Noted before it is asked for: from then on it may be ours, whatever becomes of the call.
        run.held.borrow_mut().push(held.clone());
        match store.take(name, &held.1, run.now()).await {
            Ok(true) => return Ok(Some(held)),
            Ok(false) => forget(run, &held),
            Err(error) => {
                give_back(run, &held).await;
                return Err(error);
            }
        }
    }
    Ok(None)
}

/// Does the work and gives the lane back, also where the work panics.
pub async fn within<W: World>(run: &Run<'_, W>, held: Held, work: impl Future<Output = ()>) {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    give_back(run, &held).await;
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

/// Gives back what is still held when the work was cut off, until then at the latest. What is not given back frees
/// itself when its lease is over.
pub async fn give_back_all<W: World>(run: &Run<'_, W>, until: Timestamp) {
    let held = run.held.take();
    if held.is_empty() {
        return;
    }
    let all = pin!(AssertUnwindSafe(join_all(held.iter().map(|held| give_back(run, held)))).catch_unwind());
    let end = pin!(run.world.clock().sleep_until(until));
    match select(all, end).await {
        Either::Left((Ok(_), _)) => {}
        Either::Left((Err(_), _)) | Either::Right(_) => tracing::warn!("lanes_not_given_back"),
    }
}

async fn give_back<W: World>(run: &Run<'_, W>, held: &Held) {
    let (name, lane) = held;
    if let Err(error) = run.world.lanes().release(name, lane).await {
        let Unavailable { operation, cause } = error;
        tracing::warn!(destination = %name, lane = lane.number, operation, cause, "lane_not_given_back");
    }
    forget(run, held);
}

fn forget<W: World>(run: &Run<'_, W>, held: &Held) {
    run.held.borrow_mut().retain(|other| other != held);
}
