//! The libraries that are compared: their names on the command line, their prefixes, and their kinds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::fetch;
use super::kind::Kind;

/// A word of `--library`: `NAME[=PREFIX][:VARIABLE=VALUE,…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) prefix: Option<PathBuf>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Says whether the library takes part only within one host (`true`) or only between several (`false`).
    pub(crate) within_host: Option<bool>,
}

/// The value of a `--library` option: several words, separated by commas. A comma inside a list of variables
/// is recognized by the text behind it: names of variables are in capitals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Specs(pub(crate) Vec<Spec>);

impl FromStr for Specs {
    type Err = String;

    fn from_str(text: &str) -> Result<Specs, String> {
        let mut specs: Vec<Spec> = Vec::new();
        for word in text.split(',') {
            match (specs.last_mut(), variable(word)) {
                (Some(last), Some((name, value))) if !last.environment.is_empty() => {
                    last.environment.insert(name.to_owned(), value.to_owned());
                }
                _ => specs.push(word.parse()?),
            }
        }
        Ok(Specs(specs))
    }
}

impl Spec {
    /// The library that is named by its kind alone.
    pub(crate) fn plain(kind: Kind) -> Spec {
        Spec { name: kind.name().into(), prefix: None, environment: BTreeMap::new(), within_host: None }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Spec, String> {
        const FORM: &str = "NAME, NAME=PREFIX or NAME:VARIABLE=VALUE";
        let (library, environment) = match text.split_once(':') {
            Some((library, setting)) => {
                let named = variable(setting).ok_or(format!("{setting:?} sets no variable; a library is {FORM}"))?;
                (library, BTreeMap::from([(named.0.to_owned(), named.1.to_owned())]))
            }
            None => (text, BTreeMap::new()),
        };
        let (name, prefix) = match library.split_once('=') {
            Some((name, prefix)) => (name, Some(PathBuf::from(prefix))),
            None => (library, None),
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || !name.chars().all(is_word) || prefix.as_ref().is_some_and(|p| p.as_os_str().is_empty()) {
            return Err(format!("{text:?} names no library; a library is {FORM}"));
        }
        Ok(Spec { name: name.to_owned(), prefix, environment, within_host: None })
    }
}

/// `VARIABLE=VALUE`.
fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_name)).then_some((name, value))
}

/// An installed library.
#[derive(Clone, Debug)]
pub(crate) struct Mpi {
    /// The user's name of the library, with the variables that tell it from another one.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) prefix: PathBuf,
    /// The variables that the user sets for the library.
    pub(crate) environment: BTreeMap<String, String>,
    /// Says whether the library runs programs of the standard ABI (MPI-5.0 §20).
    pub(crate) has_abi: bool,
    /// The value of [`Spec::within_host`].
    pub(crate) within_host: Option<bool>,
}

impl Mpi {
    /// Finds the library of `spec`. Without a prefix this is the Weft that this command belongs to, or a
    /// fetched peer.
    pub(crate) fn find(spec: &Spec, cache: &Path) -> Result<Mpi, String> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == spec.name);
        let prefix = match (&spec.prefix, known) {
            (Some(prefix), _) => {
                std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?
            }
            (None, Some(Kind::Weft)) => weft_at_hand()?,
            (None, Some(kind)) => fetch::fetched(cache, kind).ok_or(format!(
                "{0} is not here: `weft compare --fetch` gets it, or say where it is with --library {0}=PREFIX",
                spec.name
            ))?,
            (None, None) => {
                let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                return Err(format!(
                    "{} is not one of {}; say where it is with --library {0}=PREFIX",
                    spec.name,
                    names.join(", ")
                ));
            }
        };
        let kind = detect(&prefix)?;
        if known.is_some_and(|known| known != kind) {
            let (called, prefix) = (&spec.name, prefix.display());
            return Err(format!("{prefix} holds {}, not {called}; give it another name", kind.name()));
        }
        let settings: Vec<String> = spec.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let id = match settings.is_empty() {
            true => spec.name.clone(),
            false => format!("{}:{}", spec.name, settings.join(",")),
        };
        let has_abi = has_library(&prefix, "libmpi_abi.so");
        Ok(Mpi { id, kind, prefix, environment: spec.environment.clone(), has_abi, within_host: spec.within_host })
    }

    pub(crate) fn bin(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// The wrapper that builds programs for the library, if it has one.
    pub(crate) fn compiler(&self) -> Option<PathBuf> {
        let abi = self.bin("mpicc_abi");
        let wrapper = if self.has_abi && abi.is_file() { abi } else { self.bin("mpicc") };
        wrapper.is_file().then_some(wrapper)
    }

    /// A title for people, from the text of `MPI_Get_library_version`.
    pub(crate) fn title(&self, version: &str) -> String {
        let first = version.lines().next().unwrap_or_default();
        let name = match self.kind {
            Kind::Weft => "Weft",
            Kind::Mpich => "MPICH",
            Kind::OpenMpi => "Open MPI",
            Kind::Intel => "Intel MPI",
        };
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        let mut words = first.split(|c: char| c.is_whitespace() || c == ',').map(|word| word.trim_start_matches('v'));
        let number = words.find(is_number).unwrap_or_default();
        let settings: Vec<String> = self.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
        format!("{name} {number}{settings}").replace("  ", " ").trim_end().to_owned()
    }
}

/// The installation that this command is part of.
pub(crate) fn weft_at_hand() -> Result<PathBuf, String> {
    let own =
        std::env::current_exe().ok().and_then(|path| Some(path.canonicalize().ok()?.parent()?.parent()?.to_path_buf()));
    own.filter(|prefix| detect(prefix) == Ok(Kind::Weft)).ok_or_else(|| {
        "this weft is not installed beside a library: run the one in PREFIX/bin, or say --library weft=PREFIX".into()
    })
}

/// The kind of the library that is installed at `prefix`, or a sentence that says which files are missing.
pub(crate) fn detect(prefix: &Path) -> Result<Kind, String> {
    let has = |name: &str| prefix.join("bin").join(name).is_file();
    let at = prefix.display();
    if !prefix.is_dir() {
        return Err(format!("{at} is not a directory; a library is named by its prefix, the directory of bin and lib"));
    }
    if !has("mpiexec") {
        return Err(format!("there is no bin/mpiexec in {at}: is that the prefix of an MPI library?"));
    }
    if has("impi_info") || has_library(prefix, "libmpi_shm_heap_proxy.so") {
        return Ok(Kind::Intel);
    }
    if has("ompi_info") || has_library(prefix, "libopen-pal.so") {
        return Ok(Kind::OpenMpi);
    }
    if has("weft") && has_library(prefix, "libmpi_abi.so") {
        return Ok(Kind::Weft);
    }
    if has("mpiexec.hydra") || has("mpichversion") {
        return Ok(Kind::Mpich);
    }
    Err(format!(
        "the mpiexec in {at} belongs to no library that is known here: Weft (bin/weft), MPICH (bin/mpiexec.hydra), \
         Open MPI (bin/ompi_info), Intel MPI (bin/impi_info)"
    ))
}

fn has_library(prefix: &Path, begin: &str) -> bool {
    let entries = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, prefix: Option<&str>, environment: &[(&str, &str)]) -> Spec {
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Spec { name: name.into(), prefix: prefix.map(Into::into), environment, within_host: None }
    }

    #[test]
    fn libraries_are_lists_of_names_places_and_variables() {
        let parsed: Specs = "weft:WEFT_LINK=udp,WEFT_X=1,mpich,mine=/opt/mpi:A=b=c".parse().unwrap();
        let expected = [
            spec("weft", None, &[("WEFT_LINK", "udp"), ("WEFT_X", "1")]),
            spec("mpich", None, &[]),
            spec("mine", Some("/opt/mpi"), &[("A", "b=c")]),
        ];
        assert_eq!(parsed.0, expected);
        for (wrong, word) in
            [("", "NAME"), ("weft:udp", "\"udp\""), ("a b", "\"a b\""), ("weft=", "NAME"), ("weft,", "NAME")]
        {
            assert!(wrong.parse::<Specs>().unwrap_err().contains(word), "{wrong}");
        }
    }

    /// A prefix with these files; they are removed when it is dropped.
    struct Prefix(PathBuf);

    impl Prefix {
        fn new(name: &str, files: &[&str]) -> Prefix {
            let path = std::env::temp_dir().join(format!("weft-library-test-{}-{name}", std::process::id()));
            for file in files {
                let file = path.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "").unwrap();
            }
            Prefix(path)
        }
    }

    impl Drop for Prefix {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_library_is_known_by_its_files() {
        let weft = Prefix::new("weft", &["bin/mpiexec", "bin/weft", "bin/mpicc", "lib/libmpi_abi.so.1"]);
        let mpich = Prefix::new("mpich", &["bin/mpiexec", "bin/mpiexec.hydra", "bin/mpicc", "lib/libmpi.so.12"]);
        let open = Prefix::new("openmpi", &["bin/mpiexec", "bin/ompi_info", "lib/libmpi.so.40"]);
        let intel = Prefix::new("impi", &["bin/mpiexec", "bin/mpiexec.hydra", "bin/impi_info", "lib/libmpi_abi.so.1"]);
        let found: Vec<_> = [&weft, &mpich, &open, &intel].iter().map(|prefix| detect(&prefix.0)).collect();
        assert_eq!(found, Kind::ALL.map(Ok));
        let find = |name: &str, prefix: &Prefix| Mpi::find(&spec(name, prefix.0.to_str(), &[]), Path::new("/nowhere"));
        assert!(find("weft", &weft).unwrap().has_abi);
        let old = find("mine", &mpich).unwrap();
        assert!(!old.has_abi && old.compiler().is_some());
        assert!(find("impi", &intel).unwrap().compiler().is_none());
        assert!(find("mpich", &open).unwrap_err().contains("holds openmpi, not mpich"));
    }

    #[test]
    fn what_is_no_library_says_so() {
        let empty = Prefix::new("empty", &["bin/ls"]);
        assert!(detect(&empty.0).unwrap_err().contains("no bin/mpiexec"));
        let other = Prefix::new("other", &["bin/mpiexec"]);
        assert!(detect(&other.0).unwrap_err().contains("belongs to no library"));
        assert!(detect(Path::new("/no/such/prefix")).unwrap_err().contains("not a directory"));
        let missing = Mpi::find(&spec("mpich", None, &[]), Path::new("/nowhere")).unwrap_err();
        assert!(missing.contains("--fetch") && missing.contains("mpich=PREFIX"), "{missing}");
        assert!(Mpi::find(&spec("lam", None, &[]), Path::new("/nowhere")).unwrap_err().contains("lam=PREFIX"));
    }

    #[test]
    fn titles_are_short() {
        let mut mpi = Mpi {
            id: "x".into(),
            kind: Kind::Mpich,
            prefix: "/x".into(),
            environment: BTreeMap::new(),
            has_abi: true,
            within_host: None,
        };
        assert_eq!(mpi.title("MPICH Version:      5.0.2\nMPICH Release date: x"), "MPICH 5.0.2");
        mpi.environment.insert("A".into(), "b".into());
        mpi.kind = Kind::OpenMpi;
        assert_eq!(mpi.title("Open MPI v5.0.11, package: Open MPI x"), "Open MPI 5.0.11 (A=b)");
        mpi.kind = Kind::Intel;
        assert_eq!(mpi.title(""), "Intel MPI (A=b)");
    }
}
