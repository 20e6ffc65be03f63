//! The repository's own rules: layers, files, rule ids, reasons.
//!
//! Owns: what must be true of the tree, each with a message that says what to change. Must not: run anything.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below the workspace's source folders, by path from the root.
fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    for folder in ["functions", "shared", "infra/cli", "infra/local", "tests"] {
        walk(&root.join(folder), &mut found);
    }
    let name = |path: &PathBuf| path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).expect("text"))).collect()
}

#[track_caller]
fn none(found: &[String], what_to_change: &str) {
    assert!(found.is_empty(), "{what_to_change}:\n  {}", found.join("\n  "));
}

/// The names of a crate's dependencies, development ones not included.
fn dependencies(crate_folder: &str) -> BTreeSet<String> {
    let text = read(format!("{crate_folder}/Cargo.toml"));
    let section = text.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    section.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(name).collect()
}

#[test]
fn policy_is_pure_by_its_dependency_list() {
    let allowed = ["base64", "crc32fast", "httpdate", "ipnet", "serde", "serde_json", "thiserror", "time", "url"];
    let allowed: BTreeSet<_> = allowed.map(str::to_owned).into();
    let extra: Vec<_> = dependencies("shared/policy").difference(&allowed).cloned().collect();
    none(&extra, "shared/policy does no I/O and knows no clock; move what needs these to an adapter");
}

#[test]
fn arrows_between_crates_point_one_way() {
    let allowed: [(&str, &[&str]); 11] = [
        ("shared/policy", &[]),
        ("shared/aws", &["lapse-policy"]),
        ("functions/deliver", &["lapse-aws", "lapse-policy"]),
        ("functions/expiry", &["lapse-aws", "lapse-policy"]),
        ("functions/receiver", &["lapse-aws", "lapse-policy"]),
        ("functions/triage", &["lapse-aws", "lapse-policy"]),
        ("tests/fuzz", &["lapse-aws", "lapse-policy", "lapse-receiver"]),
        ("infra/local", &["lapse-aws", "lapse-policy"]),
        ("infra/cli", &["lapse-aws", "lapse-local", "lapse-policy"]),
        ("tests/engines", &["lapse-local"]),
        (
            "tests",
            &[
                "lapse-aws",
                "lapse-cli",
                "lapse-deliver",
                "lapse-engines",
                "lapse-expiry",
                "lapse-local",
                "lapse-policy",
                "lapse-receiver",
                "lapse-triage",
            ],
        ),
    ];
    for (folder, allowed) in allowed {
        let ours = dependencies(folder).into_iter().filter(|name| name.starts_with("lapse-"));
        let wrong: Vec<_> = ours.filter(|name| !allowed.contains(&name.as_str())).collect();
        none(&wrong, &format!("{folder} may not depend on these"));
    }
}

#[test]
fn only_adapters_and_commands_name_aws_types() {
    let pure = |path: &str| {
        let use_case = path.starts_with("functions/") && path.contains("/src/");
        let edge = ["handler.rs", "main.rs", "config.rs", "dispositions.rs", "reservations.rs"];
        path.starts_with("shared/policy/src") || (use_case && !edge.iter().any(|name| path.ends_with(name)))
    };
    let found: Vec<_> = sources().into_iter().filter(|(path, text)| pure(path) && text.contains("aws_sdk_")).collect();
    let names: Vec<_> = found.into_iter().map(|(path, _)| path).collect();
    none(&names, "use cases talk to ports; move the client into an adapter");
}

#[test]
fn every_file_says_what_it_owns_and_stays_readable() {
    let (mut headless, mut long, mut roots) = (Vec::new(), Vec::new(), Vec::new());
    for (path, text) in sources() {
        let lines = text.lines().count();
        if !text.starts_with("//! ") {
            headless.push(path.clone());
        }
        if lines > 420 {
            long.push(format!("{path}: {lines} lines"));
        }
        if path.starts_with("functions/") && path.ends_with("/main.rs") && lines > 40 {
            roots.push(format!("{path}: {lines} lines"));
        }
    }
    none(&headless, "open these with //! and say what they own and must not do");
    none(&long, "these are two rooms in one: split them");
    none(&roots, "main.rs is a composition root of at most 40 lines");
}

#[test]
fn nothing_is_left_unfinished_or_switched_off() {
    // Put together, so that this file does not find itself.
    let marks =
        [["TO", "DO"], ["FIX", "ME"], ["#[ig", "nore"], ["#[al", "low("], ["todo", "!("], ["unimplemented", "!("]];
    let marks = marks.map(|parts| parts.concat());
    let found: Vec<_> = sources()
        .into_iter()
        .flat_map(|(path, text)| {
            let hits = marks.iter().filter(|mark| text.contains(mark.as_str()));
            hits.map(|mark| format!("{path}: {mark}")).collect::<Vec<_>>()
        })
        .collect();
    none(&found, "finish these, or use #[expect(.., reason = ..)]");
}

#[test]
fn every_reason_has_a_section_of_symptom_cause_and_action_in_the_runbook() {
    let runbook = read("RUNBOOK.md");
    let section = |name: &str| {
        let (_, rest) = runbook.split_once(&format!("\n### `{name}`\n"))?;
        Some(rest.split("\n#").next().unwrap_or_default().to_owned())
    };
    let lacking = |reason: &lapse_policy::reason::Reason| {
        let name = reason.name();
        let Some(section) = section(name) else { return vec![format!("{name}: no section")] };
        let parts = ["Symptom", "Cause", "Action"].map(|part| format!("- **{part}.** "));
        let missing = parts.iter().filter(|part| section.lines().filter(|line| line.starts_with(*part)).count() != 1);
        missing.map(|part| format!("{name}: {part}")).collect()
    };
    let missing: Vec<_> = lapse_policy::reason::Reason::ALL.iter().flat_map(lacking).collect();
    none(&missing, "RUNBOOK.md needs a section for each of these reasons: symptom, cause, action, once each");
}

/// Rule ids in ARCHITECTURE.md's index: a table row that begins with the id. `false` marks "not in this version".
fn index() -> BTreeMap<String, bool> {
    let row = |line: &str| {
        let id = line.strip_prefix('|')?.split('|').next()?.trim().trim_matches('`').to_owned();
        is_rule(&id).then(|| (id, !line.contains("not in this version")))
    };
    read("ARCHITECTURE.md").lines().filter_map(row).collect()
}

fn is_rule(text: &str) -> bool {
    text.split_once('-').is_some_and(|(family, number)| FAMILIES.contains(&family) && number.parse::<u32>().is_ok())
}

const FAMILIES: [&str; 12] = ["ACK", "CLS", "DLQ", "DST", "EMT", "LAN", "LED", "LIM", "OBS", "RCV", "RET", "SEC"];

/// Rule ids in a text, upper case as in code or lower case with `_` as in a test's name. "LIM-1 to LIM-3" names all three.
fn named(text: &str) -> BTreeSet<String> {
    let text = text.to_uppercase().replace('_', "-");
    let mut found = BTreeSet::new();
    for family in FAMILIES {
        let prefix = format!("{family}-");
        let mut last: Option<(usize, u32)> = None;
        for (at, _) in text.match_indices(&prefix) {
            let digits: String = text[at + prefix.len()..].chars().take_while(char::is_ascii_digit).collect();
            let Ok(number) = digits.parse::<u32>() else { continue };
            let first = match last {
                Some((end, from)) if &text[end..at] == " TO " => from,
                _ => number,
            };
            found.extend((first..=number).map(|n| format!("{prefix}{n}")));
            last = Some((at + prefix.len() + digits.len(), number));
        }
    }
    found
}

/// What is code and what is test: a test folder, a `tests` file, or what follows `#[cfg(test)]`.
fn code_and_tests() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in sources() {
        // This file names the families, and rules as examples.
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        if path.contains("tests/") {
            tests.extend(named(&text));
        } else {
            let mut parts = text.splitn(2, "#[cfg(test)]");
            code.extend(named(parts.next().unwrap_or_default()));
            tests.extend(named(parts.next().unwrap_or_default()));
        }
    }
    code.extend(named(&read("infra/sam/template.yaml")));
    (code, tests)
}

#[test]
fn every_rule_of_the_index_is_held_by_code_and_proved_by_a_test() {
    let index = index();
    assert!(index.len() > 60, "ARCHITECTURE.md has lost its index of rules: {} found", index.len());
    let (code, tests) = code_and_tests();
    let held: Vec<_> = index.iter().filter(|(_, held)| **held).map(|(id, _)| id).collect();
    let lacking = |named: &BTreeSet<String>| -> Vec<String> {
        held.iter().filter(|id| !named.contains(**id)).map(|id| (*id).clone()).collect()
    };
    none(&lacking(&code), "name these rules where the code holds them");
    none(&lacking(&tests), "name these rules in a test that proves them");
    let unknown: Vec<_> = code.union(&tests).filter(|id| !index.contains_key(*id)).cloned().collect();
    none(&unknown, "these rules are named in code but not in ARCHITECTURE.md's index");
}

#[test]
fn a_range_of_rules_names_each() {
    let names: Vec<_> = named("LIM-1 to LIM-3, RET-8; ret_2_x").into_iter().collect();
    assert_eq!(names, ["LIM-1", "LIM-2", "LIM-3", "RET-2", "RET-8"]);
}
