//! Where the values of settings come from: the environment, then the files of defaults.

use std::sync::OnceLock;

use weft_launch::{Defaults, DefaultsLine};

use super::table::Setting;
use super::{Settings, Unknown, unknown};

/// What the environment and the files of defaults say.
#[derive(Clone, Debug, Default)]
pub struct Said {
    defaults: Defaults,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A variable of the environment.
    Environment,
    /// A line of a file of defaults, in the words of a message.
    File(String),
    /// The default in the table.
    Default,
}

impl Said {
    /// What counts for this process. Files are read once, also for the tool interface before `MPI_Init`.
    ///
    /// # Errors
    /// One sentence about a file, a line of it, and what to do.
    pub fn here() -> Result<&'static Said, String> {
        static SAID: OnceLock<Result<Said, String>> = OnceLock::new();
        SAID.get_or_init(|| Defaults::of_process().map(Said::of)).as_ref().map_err(String::clone)
    }

    /// The environment of this process, and these defaults below it.
    pub fn of(defaults: Defaults) -> Said {
        Said { defaults }
    }

    /// The defaults.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// The value of a variable. An empty one counts as not set.
    pub fn value(&self, name: &str) -> Option<String> {
        self.found(name, environment(name)).map(|(value, _)| value)
    }

    /// The value of a setting, and its source.
    pub fn with_origin(&self, setting: &Setting) -> (String, Origin) {
        self.found(setting.name, environment(setting.name)).unwrap_or((setting.default.to_owned(), Origin::Default))
    }

    fn found(&self, name: &str, environment: Option<String>) -> Option<(String, Origin)> {
        let in_file = |line: &DefaultsLine| (line.value.clone(), Origin::File(line.place()));
        environment.map(|value| (value, Origin::Environment)).or_else(|| self.defaults.find(name).map(in_file))
    }

    /// Reads the settings. `counts_more` may have a value that counts more than the environment.
    ///
    /// # Errors One sentence: the variable, its value and the values that it may have, with the place of a
    /// line in a file.
    pub fn settings(&self, counts_more: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let variable = |name: &str| counts_more(name).filter(|value| !value.is_empty()).or_else(|| environment(name));
        self.settings_over(variable)
    }

    fn settings_over(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let value = |name: &str| self.found(name, variable(name)).map(|(value, _)| value);
        Settings::read(value).map_err(|why| {
            // Each such sentence begins with the name and the value.
            let is_meant = |line: &&DefaultsLine| {
                variable(&line.name).is_none() && why.starts_with(&format!("{}={}", line.name, line.value))
            };
            match self.defaults.lines().iter().filter(|line| !line.value.is_empty()).find(is_meant) {
                Some(line) => format!("{}: {why}: correct the line, or remove it", line.place()),
                None => why,
            }
        })
    }

    /// Variables and lines that look like settings and are none, each with a sentence.
    pub fn unknown(&self) -> Vec<String> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let variables = unknown(names).into_iter().map(|one| one.to_string());
        variables.chain(self.unknown_lines()).collect()
    }

    fn unknown_lines(&self) -> Vec<String> {
        let lines = self.defaults.lines();
        let name = |line: &DefaultsLine| line.name.clone();
        let say = |Unknown { name, meant }| {
            let place = lines.iter().find(|line| line.name == name).map_or_else(String::new, DefaultsLine::place);
            let meant = meant.map_or_else(String::new, |meant| format!("; {meant} is"));
            format!("{place}: {name} is no setting of this version of Weft{meant}: correct the line, or remove it")
        };
        unknown(lines.iter().map(name)).into_iter().map(say).collect()
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said::of(Defaults::from_variable(text).unwrap())
    }

    #[test]
    fn the_environment_wins_over_the_users_file_and_that_over_the_systems() {
        let said = said(
            "file /home/u/.config/weft.conf\n2 WEFT_ACK=deferred\nfile /etc/weft.conf\n1 WEFT_ACK=immediate\n7 WEFT_LINK=udp\n",
        );
        let file = |place: &str| Origin::File(place.to_owned());
        let own = |value: &str, origin| Some((value.to_owned(), origin));
        assert_eq!(said.found("WEFT_ACK", Some("every-packet".into())), own("every-packet", Origin::Environment));
        assert_eq!(said.found("WEFT_ACK", None), own("deferred", file("/home/u/.config/weft.conf, line 2")));
        assert_eq!(said.found("WEFT_LINK", None), own("udp", file("/etc/weft.conf, line 7")));
        assert_eq!(said.found("WEFT_NODE", None), None);
    }

    /// Expect: for each kind of value that a file says and no setting may have, the sentence names the line.
    #[test]
    fn a_value_that_makes_no_sense_is_told_with_its_line() {
        for (name, value) in [
            ("WEFT_LINK", "carrier-pigeon"),
            ("WEFT_SINGLE_COPY", "perhaps"),
            ("WEFT_EAGER_LIMIT", "-1"),
            ("WEFT_UNEXPECTED_BYTES", "much"),
            ("WEFT_ACK", "never"),
            ("WEFT_PROGRESS", "none at all"),
            ("WEFT_FAULTS", "drop=many"),
            ("WEFT_COSTS", "/nowhere"),
            ("WEFT_COLLECTIVES_TABLE", "/nowhere"),
            ("WEFT_CLUSTERS", "a,,b"),
            ("WEFT_SHM_DIR", "here"),
            ("WEFT_LONG_PATH", "sometimes"),
            ("WEFT_VERBS_MODE", "fast"),
            ("WEFT_VERBS_CONNECTIONS", "0"),
            ("WEFT_COMMUNICATORS", "0"),
            ("WEFT_BARRIER", "by shouting"),
            ("WEFT_CAPTURE", "/tmp/all"),
        ] {
            let said = said(&format!("file /etc/weft.conf\n4 {name}={value}\n"));
            let why = said.settings_over(|_| None).map(drop).unwrap_err();
            let front = format!("/etc/weft.conf, line 4: {name}={value}");
            assert!(why.starts_with(&front) && why.ends_with(": correct the line, or remove it"), "{why}");
            // The variable counts, so it is the one that is wrong.
            let why = said.settings_over(|other| (other == name).then(|| value.to_owned())).map(drop).unwrap_err();
            assert!(why.starts_with(&format!("{name}={value}")), "{why}");
        }
        let fine = said("file /etc/weft.conf\n4 WEFT_ACK=never\n");
        assert!(fine.settings_over(|name| (name == "WEFT_ACK").then(|| "immediate".into())).is_ok());
    }

    #[test]
    fn a_name_that_no_setting_has_is_told_with_its_line() {
        let said = said("file /etc/weft.conf\n4 WEFT_LINKS=udp\n5 WEFT_OF_TOMORROW=1\n6 WEFT_AGENT=ssh {host}\n");
        assert_eq!(
            said.unknown_lines(),
            [
                "/etc/weft.conf, line 4: WEFT_LINKS is no setting of this version of Weft; WEFT_LINK is: correct the line, or remove it",
                "/etc/weft.conf, line 5: WEFT_OF_TOMORROW is no setting of this version of Weft: correct the line, or remove it",
            ]
        );
    }
}
