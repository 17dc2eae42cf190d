//! Libraries: what the configuration and the search find, loaded or refused.

use super::{Present, Refused, Registry};
use crate::config::{self, DriverEntry};
use ottava_loader::{Candidate, Environment, LibrarySpec, LoadOptions, Policy, Rule, Search, load_all};

impl Registry {
    /// Loads the libraries that the configuration lists, those of `OTTAVA_DRIVER_FILES` and `OTTAVA_DRIVER_PATH`, and,
    /// where the configuration lists no drivers, those of the user's and the system's folders. What is refused is kept with
    /// its reason ([`Self::refused`]); a driver whose name is taken already is refused too.
    pub fn load_libraries(self) -> Self {
        self.load_libraries_in(Environment::from_process())
    }

    fn load_libraries_in(mut self, environment: Environment) -> Self {
        for candidate in load_all(&self.load_options(environment)) {
            self.take(candidate);
        }
        self
    }

    fn load_options(&self, environment: Environment) -> LoadOptions {
        let config::Policy { require_hash, allow, deny, search_user, search_system } = &self.config.policy;
        let rules = |list: &[config::Rule]| list.iter().map(rule).collect();
        let library = |entry: &DriverEntry| match entry {
            DriverEntry::Library { path, sha256 } => {
                Some(LibrarySpec { sha256: sha256.clone(), ..LibrarySpec::new(path) })
            }
            DriverEntry::Builtin(_) => None,
        };
        let is_listed = self.config.drivers.is_some();
        LoadOptions {
            libraries: self.config.drivers.iter().flatten().filter_map(library).collect(),
            policy: Policy { require_hash: *require_hash, allow: rules(allow), deny: rules(deny) },
            search: Search { user: *search_user && !is_listed, system: *search_system && !is_listed },
            environment,
        }
    }

    fn take(&mut self, c: Candidate) {
        let source = c.path.display().to_string();
        let name = c.name.clone().unwrap_or_default();
        let reason = match (&c.driver, self.drivers.iter().find(|d| self.is_enabled(d) && d.driver.info().name == name))
        {
            (None, _) => c.reason.clone().unwrap_or_else(|| "no reason was given".into()),
            (Some(_), Some(other)) => format!("a driver `{name}` is there already ({})", other.source),
            (Some(driver), None) => {
                let present = Present { driver: driver.clone(), source, abi: c.abi.clone() };
                return self.add(present);
            }
        };
        self.refused.push(Refused { name, source, reason });
    }
}

fn rule(rule: &config::Rule) -> Rule {
    match rule {
        config::Rule::Dir(dir) => Rule::Dir(dir.clone()),
        config::Rule::Sha256(hash) => Rule::Sha256(hash.clone()),
    }
}
