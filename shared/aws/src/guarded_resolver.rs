//! SEC-2: the name resolver of the HTTP sender, which judges every address where the connection is made.
//!
//! Owns: that a name with one address that may not be called is not called at all. The addresses judged are
//! the ones connected to: nothing is resolved twice. Must not: judge by itself (that is `lapse_policy::guard`).

use std::net::SocketAddr;
use std::sync::Arc;

use lapse_policy::guard::{AllowList, Refusal, judge_address};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Why a name gave no address to connect to. The sender finds it among an error's causes by its type.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// One of its addresses may not be called.
    #[error("the name leads to an address that may not be called")]
    Blocked(#[source] Refusal),
    /// It has no address.
    #[error("the name has no address")]
    Empty,
    /// The lookup failed.
    #[error("the lookup of the name failed")]
    Lookup(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The system's resolver: `getaddrinfo`, on a thread for blocking calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // Port 0 is replaced by the URL's.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// A resolver whose answers are judged.
pub struct GuardedResolver {
    inner: Arc<dyn Resolve>,
    allowed: Arc<AllowList>,
}

impl GuardedResolver {
    /// Judges the answers of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Resolve>, allowed: Arc<AllowList>) -> Self {
        Self { inner, allowed }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = self.inner.resolve(name);
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let found = lookup.await.map_err(Unresolved::Lookup)?;
            Ok(Box::new(judged(found, &allowed)?.into_iter()) as Addrs)
        })
    }
}

fn judged(found: Addrs, allowed: &AllowList) -> Result<Vec<SocketAddr>, Unresolved> {
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() {
        return Err(Unresolved::Empty);
    }
    for address in &found {
        judge_address(address.ip(), allowed).map_err(Unresolved::Blocked)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, found: &[&str], allowed: &str, expected: Result<usize, &str>) {
        let found: Vec<SocketAddr> = found.iter().map(|text| SocketAddr::new(text.parse().expect(text), 0)).collect();
        let allowed = AllowList::parse(allowed).expect("ranges");
        let result = judged(Box::new(found.into_iter()), &allowed);
        let result = result.map(|addresses| addresses.len()).map_err(|error| match error {
            Unresolved::Blocked(_) => "blocked",
            Unresolved::Empty => "empty",
            Unresolved::Lookup(_) => "lookup",
        });
        assert_eq!(result, expected, "{label}");
    }

    #[test]
    fn sec_2_all_answers_of_a_name_must_be_public() {
        check("public", &["1.1.1.1", "2606:4700::1111"], "", Ok(2));
        check("private", &["10.0.0.1"], "", Err("blocked"));
        check("private behind public", &["1.1.1.1", "169.254.169.254"], "", Err("blocked"));
        check("private before public", &["::ffff:127.0.0.1", "1.1.1.1"], "", Err("blocked"));
        check("allowed", &["1.1.1.1", "10.0.0.1"], "10.0.0.0/8", Ok(2));
        check("none", &[], "", Err("empty"));
    }
}
