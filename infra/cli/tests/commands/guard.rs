//! SEC-1, SEC-2: `lapse guard` for a person.

use super::{check_usage, lapse};

#[track_caller]
fn check(arguments: &[&str], code: i32, expected: &str) {
    let ran = lapse(&[&["guard"], arguments].concat());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(code), expected, ""), "{arguments:?}");
}

const NAME: &str = "https://hooks.example.com/x";

#[test]
fn sec_2_an_address_that_is_not_public_is_refused_with_exit_code_1() {
    let refused = "\
decision  refused
reason    blocked_address
rule      SEC-2
detail    the address 10.9.8.7 is not public

Point the destination at a public address, or allow its range in the configuration.
";
    check(&["https://10.9.8.7/"], 1, refused);
    check(&[NAME, "--resolved", "93.184.216.34", "--resolved", "10.9.8.7"], 1, refused);
    check(&["https://10.9.8.7/", "--allow-cidr", "10.8.0.0/16"], 1, refused);
    let allowed = "decision  allowed\n\nThe URL and each of the addresses may be called.\n";
    check(&[NAME, "--resolved", "93.184.216.34"], 0, allowed);
    check(&[NAME, "--resolved", "10.9.8.7", "--allow-cidr", "fd00::/8", "--allow-cidr", "10.9.0.0/16"], 0, allowed);
    check(
        &[NAME],
        0,
        "\
decision  allowed by its form

A name is judged again by every address that it has where the connection is made (SEC-2): give these with --resolved.
",
    );
}

#[test]
fn sec_1_a_url_of_the_wrong_form_is_refused_and_not_repeated() {
    let refused = |detail: &str| {
        format!(
            "decision  refused\nreason    invalid_url\nrule      SEC-1\ndetail    {detail}\n\n\
             Give the destination a full https URL without credentials, then redrive.\n"
        )
    };
    check(&["http://hooks.example.com/x"], 1, &refused("the URL's scheme is not https"));
    check(&["https://user:password@hooks.example.com/"], 1, &refused("the URL carries credentials"));
    check(&["hooks.example.com", "--allow-http"], 1, &refused("the URL does not parse"));
    check(
        &["http://93.184.216.34/", "--json"],
        1,
        "{\"allowed\":false,\"detail\":\"the URL's scheme is not https\",\"reason\":\"invalid_url\",\"rule\":\"SEC-1\"}\n",
    );
    check(&["http://93.184.216.34/", "--allow-http", "--json"], 0, "{\"allowed\":true}\n");
}

#[test]
fn guard_names_the_wrong_flag() {
    check_usage(&["guard"], &["<URL>"]);
    check_usage(&["guard", NAME, "--resolved", "hooks.example.com"], &["--resolved <IP>"]);
    check_usage(&["guard", NAME, "--allow-cidr", "10.9/16"], &["--allow-cidr", "such as 10.9.0.0/16"]);
    check_usage(&["guard", NAME, "--jsonl"], &["--jsonl"]);
}
