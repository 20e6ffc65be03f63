//! Reading a function's settings from environment variables, with errors that name the variable.
//!
//! Owns: the reading of one variable into a checked value. Must not: know which variables a function has;
//! that is each function's `config`.

use std::fmt;
use std::str::FromStr;

/// A setting that is missing or wrong: the function refuses to start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name} {problem}; it accepts {accepts}")]
pub struct InvalidSetting {
    name: &'static str,
    problem: String,
    accepts: &'static str,
}

type Lookup<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// The variables, as the process has them or as a test gives them.
pub struct Environment<'a> {
    lookup: Lookup<'a>,
}

impl Environment<'_> {
    /// Those of the process.
    #[must_use]
    pub fn of_process() -> Self {
        Self { lookup: Box::new(|name| std::env::var(name).ok()) }
    }
}

impl<'a> Environment<'a> {
    /// Those of a list.
    #[must_use]
    pub fn of(pairs: &'a [(&'a str, &'a str)]) -> Self {
        let find = move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Self { lookup: Box::new(find) }
    }

    /// A variable that must be set and not be empty.
    pub fn required(&self, name: &'static str, accepts: &'static str) -> Result<String, InvalidSetting> {
        match (self.lookup)(name) {
            Some(value) if !value.trim().is_empty() => Ok(value),
            Some(_) => Err(InvalidSetting { name, problem: "is empty".to_owned(), accepts }),
            None => Err(InvalidSetting { name, problem: "is not set".to_owned(), accepts }),
        }
    }

    /// A variable that may be absent or empty: the default then.
    pub fn parsed<T: FromStr>(&self, name: &'static str, accepts: &'static str, default: T) -> Result<T, InvalidSetting>
    where
        T::Err: fmt::Display,
    {
        self.read(name, accepts, |text| T::from_str(text).map_err(|e| e.to_string())).map(|v| v.unwrap_or(default))
    }

    /// A variable that may be absent or empty, read by a function of the caller's.
    pub fn read<T>(
        &self,
        name: &'static str,
        accepts: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, InvalidSetting> {
        let Some(value) = (self.lookup)(name).filter(|value| !value.trim().is_empty()) else { return Ok(None) };
        read(value.trim()).map(Some).map_err(|problem| InvalidSetting {
            name,
            problem: format!("is wrong ({problem})"),
            accepts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_variable_and_what_it_accepts() {
        let environment = Environment::of(&[("EMPTY", " "), ("COUNT", "many"), ("SEVEN", " 7 ")]);
        let error = environment.required("TABLE", "a table's name").expect_err("missing");
        assert_eq!(error.to_string(), "environment variable TABLE is not set; it accepts a table's name");
        assert!(environment.required("EMPTY", "a name").is_err());
        let error = environment.parsed("COUNT", "a whole number", 1_u32).expect_err("a word");
        assert!(error.to_string().starts_with("environment variable COUNT is wrong"), "{error}");
        assert_eq!(environment.parsed("SEVEN", "a whole number", 1_u32), Ok(7));
        assert_eq!(environment.parsed("ABSENT", "a whole number", 1_u32), Ok(1));
    }
}
