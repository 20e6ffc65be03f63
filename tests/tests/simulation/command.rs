//! `cargo sim` as a person or a program calls it.
//!
//! Owns: what it prints and its exit codes. Must not: play many runs.

use std::process::Command;

use serde_json::Value;

fn sim(arguments: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments.split(' ')).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("it ends"), text(output.stdout), text(output.stderr))
}

fn last_line(output: &str) -> Value {
    serde_json::from_str(output.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn the_last_line_of_json_says_what_was_played() {
    let (code, output, _) = sim("--runs 5 --seed 11 --json");
    let sum = last_line(&output);
    assert_eq!((code, &sum["runs"], &sum["violations"], &sum["seed"]), (0, &5.into(), &0.into(), &11.into()));
    for member in ["events", "sends", "faults"] {
        assert!(sum[member].as_u64().is_some_and(|n| n > 0), "{member}: {sum}");
    }
    assert_eq!(last_line(&sim("--runs 5 --seed 11 --json").1), sum, "the same seeds, the same sum");
}

#[test]
fn a_broken_promise_is_told_with_its_seed_its_last_steps_and_how_to_see_it_again() {
    let (code, output, _) = sim("--runs 50 --seed 1 --bug parked-nowhere --json");
    assert_eq!(code, 1);
    let sum = last_line(&output);
    let (seed, event) = (&sum["broken"][0]["seed"], sum["broken"][0]["event"].as_str().expect("an event"));
    assert_eq!(sum["broken"][0]["invariant"], "I1");
    assert!(output.contains(&format!("seed {seed}: I1 is broken by {event}: ")), "{output}");
    let again = format!("cargo sim --seed {seed} --hours 1 --events 20 --destinations 3 --bug parked-nowhere --trace");
    assert!(output.contains(&again), "{output}");
    let steps = output.lines().skip_while(|line| !line.starts_with("the last ")).skip(1);
    assert!((2..=50).contains(&steps.take_while(|line| line.starts_with("  ")).count()), "{output}");
}

#[test]
fn a_trace_shows_one_run_or_one_event_of_it() {
    fn puts(output: &str) -> Vec<&str> {
        output.lines().filter(|line| line.contains("  put        partner-")).collect()
    }
    let (code, all, _) = sim("--seed 3 --trace");
    let first = puts(&all)[0].split(['#', ' ']).find(|word| word.starts_with("e_")).expect("an event id");
    let (_, one, _) = sim(&format!("--seed 3 --trace {first}"));
    assert_eq!(code, 0);
    assert!(puts(&one).iter().all(|line| line.contains(&format!("#{first} "))), "{one}");
    assert!((1..puts(&all).len()).contains(&puts(&one).len()), "{one}");
}

#[test]
fn a_flag_that_makes_no_sense_is_told_by_its_name() {
    for (arguments, code, told) in [
        ("--trace", 1, "--trace shows one run: give it --seed"),
        ("--seed 1 --runs 2 --trace", 1, "--trace shows one run"),
        ("--hours 0", 1, "--hours must be more than 0"),
        ("--destinations 0", 1, "--destinations must be from 1"),
        ("--bug gate", 2, "gate-open"),
        ("--runs many", 2, "--runs"),
    ] {
        let (ended, output, errors) = sim(arguments);
        assert_eq!((ended, output.as_str()), (code, ""), "{arguments}");
        assert!(errors.contains(told), "{arguments}: {errors}");
    }
}

#[test]
fn a_day_of_a_fleet_is_told_in_numbers_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("day.svg");
    let (code, output, _) =
        sim(&format!("fleet --deliveries 5000 --destinations 100 --workers 10 --json --svg {}", plot.display()));
    let day = last_line(&output);
    assert_eq!((code, &day["deliveries"], &day["drained"]), (0, &5000.into(), &true.into()), "{output}");
    for member in ["receives_per_delivery", "most_in_flight", "most_writes_per_second_on_one_item", "usd_per_month"] {
        assert!(day[member].as_f64().is_some_and(|n| n > 0.0), "{member}: {day}");
    }
    let sum: f64 = day["usd_by_service"].as_object().expect("services").values().filter_map(Value::as_f64).sum();
    assert!((sum - day["usd_per_month"].as_f64().expect("a sum")).abs() < 0.1, "the parts make the whole: {day}");
    let drawn = std::fs::read_to_string(plot).expect("a picture");
    assert_eq!((drawn.starts_with("<svg "), drawn.matches("<polyline").count()), (true, 4));
}
