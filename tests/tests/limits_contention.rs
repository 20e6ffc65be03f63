//! LIM-1 to LIM-3, LIM-5: up to a hundred workers that book at one destination at once, on each DynamoDB engine.
//!
//! Owns: the budget of writes, and that no place is given twice or too early. Must not: measure; `cargo perf limits`
//! does, by the same code.

use anyhow::Result;
use lapse_engines::each;
use lapse_tests::perf::limits::contention::{LOADS, Place, contend};

#[test]
fn lim_1_a_hundred_workers_book_with_at_most_three_writes_for_two_bookings() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for engine in each() {
        let table = runtime.block_on(engine.table("limits"));
        let place = Place { engine: engine.name, endpoint: engine.endpoint().to_owned(), table };
        for (load, workers) in LOADS.iter().flat_map(|load| [(load, 5), (load, 100)]) {
            let outcome = contend(&place, load, workers, 5)?;
            assert_eq!(outcome.missed(), Vec::<String>::new(), "{outcome:#?}");
            assert!(outcome.bookings >= workers * 5, "a plan each time: {outcome:#?}");
        }
    }
    Ok(())
}
