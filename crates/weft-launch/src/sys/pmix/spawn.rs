//! `PMIx_Spawn`: programs in the library's structures.
//!
//! The library may replace what a program's structure leads to, by malloc and free. So all of that is made by
//! malloc.
#![allow(unsafe_code)]

use super::{BAD_PARAMETER, BOOL, Info, KEY_BYTES, NAMESPACE_BYTES, STRING, Status, Value, done, fixed, zero_ended};
use std::ffi::{CString, c_char, c_int};
use std::mem::offset_of;
use std::ptr::{null_mut, write};

/// A program and its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The name of the program, then its arguments.
    pub(crate) words: Vec<String>,
    /// `NAME=value` each, beside the environment of the launcher.
    pub(crate) environment: Vec<String>,
    pub(crate) directory: String,
    pub(crate) processes: u32,
    /// Attributes of PMIx with a text.
    pub(crate) attributes: Vec<(&'static str, String)>,
}

/// `pmix_app_t`.
#[repr(C)]
pub(super) struct App {
    command: *mut c_char,
    words: *mut *mut c_char,
    environment: *mut *mut c_char,
    directory: *mut c_char,
    processes: c_int,
    attributes: *mut Info,
    attribute_count: usize,
}

const _: () = assert!(size_of::<App>() == 56 && offset_of!(App, attributes) == 40);

pub(super) type Spawn = unsafe extern "C" fn(*const Info, usize, *const App, usize, *mut c_char) -> Status;

/// Starts a job of these programs. `attributes` are those of the job.
pub(super) fn spawn(call: Spawn, attributes: &[(&'static str, String)], programs: &[Program]) -> Result<(), Status> {
    let texts = attributes.iter().map(|(_, text)| zero_ended(text)).collect::<Result<Vec<_>, _>>()?;
    let infos = attributes.iter().zip(&texts).map(|((key, _), text)| info(key, text.as_ptr().cast_mut()));
    let mut infos = infos.collect::<Result<Vec<_>, _>>()?;
    // The processes will speak PMIx. OpenPMIx 5.0.11 refuses a job of which nothing is said at all.
    infos.push(Info { key: fixed("pmix.nonpmi")?, flags: 0, value: Value { kind: BOOL, data: [0; 3] } });
    // All texts are looked at before the first structure is made.
    let checked = programs.iter().map(Checked::new).collect::<Result<Vec<_>, _>>()?;
    let mut apps: Vec<App> = checked.iter().map(Checked::app).collect();
    let mut namespace: [c_char; NAMESPACE_BYTES] = [0; NAMESPACE_BYTES];
    // SAFETY: all structures are valid during the call; what the library may replace in them was made by
    // malloc. The namespace has the length that it expects.
    let status = unsafe { call(infos.as_ptr(), infos.len(), apps.as_ptr(), apps.len(), namespace.as_mut_ptr()) };
    for app in &mut apps {
        // SAFETY: each of them was made by `Checked::app`, and the call is over.
        unsafe { release(app) };
    }
    done(status)
}

fn info(key: &str, text: *mut c_char) -> Result<Info, Status> {
    let value = Value { kind: STRING, data: [text.expose_provenance() as u64, 0, 0] };
    Ok(Info { key: fixed(key)?, flags: 0, value })
}

/// A program whose texts fit into structures.
struct Checked {
    words: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    processes: c_int,
    attributes: Vec<(&'static str, CString)>,
}

impl Checked {
    fn new(program: &Program) -> Result<Self, Status> {
        let texts = |list: &[String]| list.iter().map(|text| zero_ended(text)).collect::<Result<Vec<_>, _>>();
        let attribute = |(key, text): &(&'static str, String)| {
            if key.len() < KEY_BYTES { Ok((*key, zero_ended(text)?)) } else { Err(BAD_PARAMETER) }
        };
        Ok(Self {
            words: texts(&program.words)?,
            environment: texts(&program.environment)?,
            directory: zero_ended(&program.directory)?,
            processes: c_int::try_from(program.processes).map_err(|_| BAD_PARAMETER)?,
            attributes: program.attributes.iter().map(attribute).collect::<Result<_, _>>()?,
        })
    }

    /// The structure, with all that it leads to.
    fn app(&self) -> App {
        let infos = self.attributes.iter().filter_map(|(key, text)| info(key, copy(text)).ok()).collect::<Vec<_>>();
        let mut attributes: *mut Info = null_mut();
        if !infos.is_empty() {
            // SAFETY: the memory is new and as large as the list, each of whose places is written once.
            unsafe {
                attributes = allocate(infos.len() * size_of::<Info>()).cast();
                infos.iter().enumerate().for_each(|(index, info)| write(attributes.add(index), *info));
            }
        }
        App {
            command: self.words.first().map_or(null_mut(), copy),
            words: list(&self.words),
            environment: list(&self.environment),
            directory: copy(&self.directory),
            processes: self.processes,
            attributes,
            attribute_count: infos.len(),
        }
    }
}

/// Memory by malloc.
fn allocate(bytes: usize) -> *mut c_char {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(bytes) };
    assert!(!memory.is_null(), "there is no memory for {bytes} bytes");
    memory.cast()
}

/// A copy of a text by malloc.
fn copy(text: &CString) -> *mut c_char {
    let bytes = text.as_bytes_with_nul();
    let to = allocate(bytes.len());
    // SAFETY: the memory is new and as long as the text.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to, bytes.len()) };
    to
}

/// A list of texts by malloc, which ends with a null.
fn list(texts: &[CString]) -> *mut *mut c_char {
    let to: *mut *mut c_char = allocate((texts.len() + 1) * size_of::<*mut c_char>()).cast();
    for (index, text) in texts.iter().map(copy).chain([null_mut()]).enumerate() {
        // SAFETY: the memory is new and has a place more than there are texts.
        unsafe { write(to.add(index), text) };
    }
    to
}

/// Frees what a structure leads to.
///
/// # Safety
/// All of it was made by malloc, lists end with a null, and nobody else uses any of it.
unsafe fn release(app: &mut App) {
    // SAFETY: the caller's promise, for each call here.
    unsafe {
        for list in [app.words, app.environment].into_iter().filter(|list| !list.is_null()) {
            let mut at = list;
            while !(*at).is_null() {
                libc::free((*at).cast());
                at = at.add(1);
            }
            libc::free(list.cast());
        }
        for index in 0..if app.attributes.is_null() { 0 } else { app.attribute_count } {
            let value = &(*app.attributes.add(index)).value;
            if value.kind == STRING {
                libc::free(std::ptr::with_exposed_provenance_mut(value.data[0] as usize));
            }
        }
        libc::free(app.attributes.cast());
        libc::free(app.command.cast());
        libc::free(app.directory.cast());
    }
}

#[cfg(test)]
mod tests {
    use super::super::library::text;
    use super::*;
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Notes what it is given, and replaces the environment as the library may.
    unsafe extern "C" fn fake(_: *const Info, infos: usize, apps: *const App, count: usize, _: *mut c_char) -> Status {
        let mut seen = SEEN.lock().expect("no panic");
        for index in 0..count {
            // SAFETY: `spawn` gives so many structures, whose lists end with a null.
            unsafe {
                let app = &mut *apps.add(index).cast_mut();
                let words = (0..).map_while(|at| text(*app.words.add(at))).collect::<Vec<_>>().join(" ");
                let variables = (0..).map_while(|at| text(*app.environment.add(at))).collect::<Vec<_>>().join(" ");
                let keys = (0..app.attribute_count).map(|at| text((*app.attributes.add(at)).key.as_ptr()));
                let keys = keys.flatten().collect::<Vec<_>>().join(" ");
                let directory = text(app.directory).expect("a text");
                seen.push(format!("{infos} {words}|{variables}|{keys}|{directory}|{}", app.processes));
                libc::free((*app.environment).cast());
                *app.environment = copy(&c"B=2".to_owned());
            }
        }
        -5
    }

    #[test]
    fn programs_reach_the_library_whole() {
        let program = |name: &str| Program {
            words: vec![name.into(), "x y".into()],
            environment: vec!["A=1".into()],
            directory: "/".into(),
            processes: 3,
            attributes: vec![("pmix.host", "h0".into())],
        };
        let result = spawn(fake, &[("pmix.mapby", "node".into())], &[program("a"), program("b")]);
        assert_eq!(result, Err(-5));
        let seen = SEEN.lock().expect("no panic").clone();
        assert_eq!(seen, ["2 a x y|A=1|pmix.host|/|3", "2 b x y|A=1|pmix.host|/|3"]);
        assert_eq!(spawn(fake, &[], &[program("zero\0")]), Err(BAD_PARAMETER));
    }
}
