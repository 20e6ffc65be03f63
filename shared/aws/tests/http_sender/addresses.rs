//! SEC-1, SEC-2, CLS-7, CLS-9: which addresses a request may reach.
//!
//! Owns: the count of connections at a listener that must get none. Must not: test the table of special blocks; that
//! is the policy's. Everything listens on 127.0.0.1, which a sender without an allow-list may not call.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapse_aws::guarded_resolver::SystemResolver;
use lapse_aws::http_sender::HttpSender;
use lapse_policy::classifier::Failure;
use lapse_policy::guard::AllowList;
use lapse_policy::ports::Sender as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::json;

use crate::attempts::{Names, answered, attempt, failure, local_sender, ruled, send, sender, strict_sender};
use crate::peer::{Event, Peer, Then, answer};

fn ok() -> Then {
    Then::Answer(answer("200 OK", &[], b"thanks"))
}

/// Shows that the listener counts: a sender that may call it does.
async fn reached_by_who_may(peer: &Peer) {
    let before = peer.connections();
    assert_eq!(answered(&send(&local_sender(), &peer.url()).await).status, 200);
    assert_eq!(peer.connections(), before + 1);
}

#[tokio::test]
async fn sec_2_no_spelling_of_an_address_reaches_the_forbidden_listener() {
    let peer = Peer::start([ok()]).await;
    let (port, strict) = (peer.address.port(), strict_sender(Names::default()));
    for host in [
        // The listener's own address.
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0x7f.1",
        "0X7F000001",
        "0x7f.0x0.0x0.0x1",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "127\t.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.\u{ff10}.\u{ff10}.\u{ff11}",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "\u{2460}27.0.0.1",
        // What the kernel takes for it.
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "127.255.255.254",
        // What holds it inside.
        "[::ffff:127.0.0.1]",
        "[::FFFF:7F00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2001:0:7f00:1::]",
        "[2001:0:53aa:64c::80ff:fffe]",
        // Metadata services.
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
    ] {
        let sent = strict.send(&attempt(&format!("http://{host}:{port}/hook"), &json!({}))).await;
        assert_eq!((failure(&sent), ruled(&sent)), (Failure::Blocked, ("CLS-9", None)), "{host}: {:?}", sent.excerpt);
    }
    assert_eq!(peer.connections(), 0);
    reached_by_who_may(&peer).await;
}

#[tokio::test]
async fn sec_1_no_trick_of_a_url_reaches_the_forbidden_listener() {
    use Failure::{Blocked, Dns, InvalidUrl};
    let peer = Peer::start([ok()]).await;
    let (here, strict) = (peer.address, strict_sender(Names::default()));
    for (url, expected) in [
        (format!("http://hooks.example.com@{here}/"), InvalidUrl),
        (format!("http://hooks.example.com:443@{here}/"), InvalidUrl),
        (format!("http://:@{here}/"), Blocked),
        (format!("http://@{here}/"), Blocked),
        (format!("http:{here}/"), Blocked),
        (format!("http:///{here}/"), Blocked),
        (format!("http:\\\\{here}/"), Blocked),
        (format!("  HTTP://{here}/  "), Blocked),
        (format!("ht\ntp://{here}/"), Blocked),
        (format!("http://{here}#@hooks.example.com/"), Blocked),
        (format!("http://{here}\\@hooks.example.com/"), Blocked),
        (format!("http://{here}?@hooks.example.com/"), Blocked),
        (format!("//{here}/"), InvalidUrl),
        (format!("ftp://{here}/"), InvalidUrl),
        (format!("ws://{here}/"), InvalidUrl),
        (format!("gopher://{here}/"), InvalidUrl),
        (format!("data:,{here}"), InvalidUrl),
        ("file:///etc/hostname".to_owned(), InvalidUrl),
        (format!("http://[fe80::1%25lo]:{}/", here.port()), InvalidUrl),
        (format!("http://256.0.0.1:{}/", here.port()), InvalidUrl),
        (format!("http://127.0.0.1:{}0000/", here.port()), InvalidUrl),
        ("http://127.0.0.1%00.example.com/".to_owned(), InvalidUrl),
        (format!("http://127.0.0.1..:{}/", here.port()), Dns),
        (String::new(), InvalidUrl),
        ("not a url".to_owned(), InvalidUrl),
    ] {
        let sent = strict.send(&attempt(&url, &json!({}))).await;
        assert_eq!(failure(&sent), expected, "{url}: {:?}", sent.excerpt);
    }
    assert_eq!(peer.connections(), 0);
    reached_by_who_may(&peer).await;
}

#[tokio::test]
async fn sec_1_plain_http_and_credentials_are_refused_even_where_the_address_is_allowed() {
    let peer = Peer::start([ok()]).await;
    let here = peer.address;
    for (url, allow_http) in [(format!("http://{here}/"), false), (format!("http://user:pass@{here}/"), true)] {
        let sent = local_sender().send(&attempt(&url, &json!({"allow_http": allow_http}))).await;
        assert_eq!((failure(&sent), ruled(&sent).0), (Failure::InvalidUrl, "CLS-9"), "{url}");
        assert!(!sent.excerpt.expect("the reason").contains("pass"));
    }
    assert_eq!(peer.connections(), 0);
    reached_by_who_may(&peer).await;
}

#[tokio::test]
async fn sec_2_a_name_is_called_by_the_addresses_that_were_judged() {
    let peer = Peer::start([ok()]).await;
    let authority = format!("hooks.example.com:{}", peer.address.port());
    let sender = sender(Names::of("hooks.example.com", &["127.0.0.1"]));
    let sent = sender.send(&attempt(&format!("http://{authority}/"), &json!({}))).await;
    assert_eq!(answered(&sent).status, 200);
    assert_eq!(peer.requests()[0].values("host"), [authority]);
}

#[tokio::test]
async fn sec_2_one_private_address_among_a_names_blocks_it() {
    let peer = Peer::start([ok()]).await;
    let url = format!("http://hooks.example.com:{}/", peer.address.port());
    for addresses in [
        ["1.1.1.1", "127.0.0.1"],
        ["127.0.0.1", "1.1.1.1"],
        ["2606:4700::1111", "::ffff:127.0.0.1"],
        ["169.254.169.254", "1.1.1.1"],
    ] {
        let strict = strict_sender(Names::of("hooks.example.com", &addresses));
        let sent = strict.send(&attempt(&url, &json!({}))).await;
        assert_eq!((failure(&sent), ruled(&sent).0), (Failure::Blocked, "CLS-9"), "{addresses:?}");
    }
    // An allow-list opens its range and nothing beside it.
    for addresses in [["127.0.0.1", "10.0.0.1"], ["169.254.169.254", "127.0.0.1"], ["127.0.0.1", "::1"]] {
        let sent = sender(Names::of("hooks.example.com", &addresses)).send(&attempt(&url, &json!({}))).await;
        assert_eq!(failure(&sent), Failure::Blocked, "{addresses:?}");
    }
    assert_eq!(peer.connections(), 0);
    reached_by_who_may(&peer).await;
}

#[tokio::test]
async fn sec_2_what_the_systems_own_resolver_says_is_judged_too() {
    let peer = Peer::start([ok()]).await;
    let strict = strict_sender(SystemResolver);
    for name in ["localhost", "LOCALHOST", "localhost."] {
        let sent = strict.send(&attempt(&format!("http://{name}:{}/", peer.address.port()), &json!({}))).await;
        // Not every system knows the name with a dot behind it.
        assert!(matches!(failure(&sent), Failure::Blocked | Failure::Dns), "{name}: {:?}", sent.excerpt);
    }
    assert_eq!(peer.connections(), 0);
    reached_by_who_may(&peer).await;
}

/// Set for the run that has a proxy in its environment.
const PROXIED: &str = "LAPSE_TEST_PROXIED";

#[test]
fn sec_2_a_proxy_of_the_environment_is_not_used() {
    // A proxy would resolve the name itself, unjudged. A process cannot change its own environment safely, so the
    // test runs itself again with one.
    if std::env::var_os(PROXIED).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(async { reached_by_who_may(&Peer::start([ok()]).await).await });
    }
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", proxy.local_addr().expect("bound"));
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    again.args(["--exact", "addresses::sec_2_a_proxy_of_the_environment_is_not_used", "--nocapture"]).env(PROXIED, "1");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(name, &url);
    }
    assert!(again.env_remove("no_proxy").env_remove("NO_PROXY").status().expect("started").success());
    proxy.set_nonblocking(true).expect("set");
    assert_eq!(proxy.accept().expect_err("no connection").kind(), std::io::ErrorKind::WouldBlock);
}

/// A resolver whose answer is another one each time; the last one repeats.
#[derive(Debug, Clone)]
struct Changing {
    answers: Arc<[IpAddr]>,
    asked: Arc<AtomicUsize>,
}

impl Changing {
    fn new<const N: usize>(answers: [&str; N]) -> Self {
        let answers = answers.map(|text| text.parse().expect("an address"));
        Self { answers: Arc::new(answers), asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }
}

impl Resolve for Changing {
    fn resolve(&self, _: Name) -> Resolving {
        let turn = self.asked.fetch_add(1, Ordering::AcqRel).min(self.answers.len() - 1);
        let address = SocketAddr::new(self.answers[turn], 0);
        Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
    }
}

/// One listener by two addresses, of which only this one may be called: what leads to it by the other is forbidden.
const ALLOWED: &str = "::ffff:127.0.0.1";
const FORBIDDEN: &str = "127.0.0.1";

fn rebinding(resolver: &Changing) -> HttpSender {
    let allow = AllowList::parse(&format!("{ALLOWED}/128")).expect("a range");
    HttpSender::with_resolver(allow, Arc::new(resolver.clone())).expect("a sender")
}

#[tokio::test]
async fn sec_2_a_name_that_changes_between_check_and_connect_is_connected_to_where_it_was_checked() {
    let peer = Peer::start([ok()]).await;
    let names = Changing::new([ALLOWED, FORBIDDEN]);
    let url = format!("http://rebind.example.com:{}/", peer.address.port());
    let sent = rebinding(&names).send(&attempt(&url, &json!({}))).await;
    assert_eq!(answered(&sent).status, 200);
    assert_eq!((names.asked(), peer.connections()), (1, 1), "the answer that was judged is the one that was used");
}

#[tokio::test]
async fn sec_2_every_later_answer_of_a_name_is_judged_as_the_first_was() {
    let mut peer = Peer::start([ok(), Then::Close(answer("200 OK", &[("connection", "close")], b""))]).await;
    let names = Changing::new([ALLOWED, FORBIDDEN, ALLOWED]);
    let sender = rebinding(&names);
    let attempt = attempt(&format!("http://rebind.example.com:{}/", peer.address.port()), &json!({}));
    for label in ["the first", "on the connection that was kept"] {
        assert_eq!(answered(&sender.send(&attempt).await).status, 200, "{label}");
        assert_eq!((names.asked(), peer.connections()), (1, 1), "{label}");
    }
    assert_eq!(peer.event().await, Event::Ended);
    let sent = sender.send(&attempt).await;
    assert_eq!(failure(&sent), Failure::Blocked, "on a new connection: {:?}", sent.excerpt);
    assert_eq!((names.asked(), peer.connections()), (2, 1));
    assert_eq!(answered(&sender.send(&attempt).await).status, 200, "a refusal is not remembered");
    assert_eq!((names.asked(), peer.connections()), (3, 2));
}

#[tokio::test]
async fn cls_7_a_redirect_is_not_followed() {
    let sender = local_sender();
    let target = Peer::start([ok()]).await;
    let (own, other) = ("127.0.0.1", target.url());
    for (location, host) in [
        (other.as_str(), Some("127.0.0.1")),
        ("http://169.254.169.254/latest/meta-data/", Some("169.254.169.254")),
        ("http://2852039166/latest/meta-data/", Some("169.254.169.254")),
        ("https://new.example.com:8443/hook", Some("new.example.com")),
        ("/elsewhere", Some(own)),
        ("http://[", None),
    ] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"] {
            let peer = Peer::start([Then::Answer(answer(status, &[("Location", location)], b""))]).await;
            let sent = send(&sender, &peer.url()).await;
            assert_eq!(ruled(&sent).0, "CLS-7", "{status} {location}");
            assert_eq!(answered(&sent).location_host.as_deref(), host, "{status} {location}");
            assert_eq!(peer.requests().len(), 1, "{status} {location}");
        }
    }
    assert_eq!(target.connections(), 0);
    reached_by_who_may(&target).await;
}

#[tokio::test]
async fn cls_7_a_location_matters_in_a_redirect_alone() {
    let sender = local_sender();
    let peer = Peer::start([Then::Answer(answer("201 Created", &[("Location", "/made")], b""))]).await;
    assert_eq!(answered(&send(&sender, &peer.url()).await).location_host, None);
}
