//! `lapse check` without a stack: its help and its wrong uses.

use super::{check_usage, lapse};

#[test]
fn one_stack_is_named_in_one_way() {
    check_usage(&["check", "--local", "--region", "eu-west-1"], &["--local", "--region"]);
    check_usage(&["check", "--local", "--endpoint-url", "http://127.0.0.1:1"], &["--local", "--endpoint-url"]);
}

#[test]
fn the_help_has_examples_and_exit_codes() {
    let help = lapse(&["check", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    assert!(help.out.contains("Examples:") && help.out.contains("Exit codes:"), "{}", help.out);
}
