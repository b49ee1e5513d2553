//! The argument that an implementation gets for a parameter: a value, or a place, an array or a string of
//! `crate::arguments` made of the pointer that C hands over.

use super::super::spec::{Direction, Form, Parameter};
use super::{Entry, is_pointer, rust_name, rust_scalar};
use anyhow::{Result, ensure};

/// The room that the standard demands for strings whose length no argument gives.
const ROOMS: &[(&str, &str)] = &[
    ("comm_name", "MPI_MAX_OBJECT_NAME"),
    ("type_name", "MPI_MAX_OBJECT_NAME"),
    ("win_name", "MPI_MAX_OBJECT_NAME"),
    ("datarep", "MPI_MAX_DATAREP_STRING"),
    ("port_name", "MPI_MAX_PORT_NAME"),
    ("string", "MPI_MAX_ERROR_STRING"),
    ("version", "MPI_MAX_LIBRARY_VERSION_STRING"),
    ("key", "MPI_MAX_INFO_KEY"),
    ("name", "MPI_MAX_PROCESSOR_NAME"),
];

impl Entry<'_> {
    /// The argument that the implementation gets for a parameter. The call stands in an `unsafe` block: the
    /// caller keeps the contract of the C prototype.
    pub(super) fn argument(&self, parameter: &Parameter) -> Result<String> {
        let name = rust_name(parameter);
        let c_type = self.spec.c_type(parameter, self.form);
        if self.is_wide_output(parameter) {
            let place = if parameter.direction == Direction::Out { "Out" } else { "InOut" };
            return Ok(format!("{place}::from(&mut {name}_wide)"));
        }
        if !parameter.in_form(self.form) {
            // The usual binding has neither the array of large counts nor its length.
            return Ok(match &parameter.lengths[..] {
                [] => "0".to_owned(),
                _ => format!("OutArray::new(std::ptr::null_mut::<{}>(), 0)", rust_scalar(c_type)?),
            });
        }
        if c_type == "fn" {
            return Ok(name);
        }
        match parameter.kind.as_str() {
            "STRING_ARRAY" => return Ok(format!("InStrings::new({name})")),
            "STRING_2DARRAY" => return Ok(format!("InCommandLines::new({name})")),
            "FILE_DESCRIPTOR" => return Ok(format!("InDescriptor::new({name})")),
            "ERROR_CODE" if parameter.lengths == ["*"] => return Ok(format!("OutCodes::new({name})")),
            _ => {}
        }
        if !parameter.lengths.is_empty() {
            return self.array(parameter, &name);
        }
        Ok(match self.place(parameter, &name) {
            Some(place) => place,
            None if parameter.is_poly() => self.as_wide(parameter, &name),
            None => name,
        })
    }

    /// The value that stands for the first of `parameters` as a group, and the number of them; `None` if they
    /// are no group.
    pub(super) fn group(&self, parameters: &[&Parameter]) -> Result<Option<(String, usize)>> {
        let is = |at: usize, kind: &str| parameters.get(at).is_some_and(|found: &&Parameter| found.kind == kind);
        let is_list = |at: usize| parameters.get(at).is_some_and(|found| !found.lengths.is_empty());
        let fields: &[&str] = match () {
            () if is(0, "BUFFER") && is(2, "DATATYPE") && !is_list(1) => &["Part", "buffer", "count", "datatype"],
            () if is(0, "BUFFER") && is(3, "DATATYPE") && is_list(1) && is_list(3) => {
                &["TypedParts", "buffer", "counts", "displacements", "datatypes"]
            }
            () if is(0, "BUFFER") && is(3, "DATATYPE") && is_list(1) => {
                &["Parts", "buffer", "counts", "displacements", "datatype"]
            }
            () if is(0, "RANK_NNI") && is(1, "RMA_DISPLACEMENT_NNI") && is(3, "DATATYPE") => {
                &["Target", "rank", "disp", "count", "datatype"]
            }
            () => return Ok(None),
        };
        let mut values = Vec::new();
        for (field, parameter) in fields[1..].iter().zip(parameters) {
            // These displacements are MPI_Aint in both bindings.
            let into = if *field == "displacements" && !parameter.is_poly() { ".into()" } else { "" };
            let value = format!("{}{into}", self.argument(parameter)?);
            values.push(if value == *field { value } else { format!("{field}: {value}") });
        }
        Ok(Some((format!("{} {{ {} }}", fields[0], values.join(", ")), fields.len() - 1)))
    }

    /// The argument for a string, or for the place of one value. `None`: a value, or a pointer that the
    /// implementation gets as it is.
    fn place(&self, parameter: &Parameter, name: &str) -> Option<String> {
        let of_tools = self.symbol.starts_with("MPI_T_");
        match (parameter.kind.as_str(), parameter.direction) {
            // Only the root must give it.
            ("STRING", Direction::In) if parameter.root => return Some(format!("InString::if_wanted({name})")),
            ("STRING", Direction::In) => return Some(format!("InString::new({name})")),
            ("STRING", _) => {
                if let Some(length) = self.length_of_text(parameter) {
                    return Some(format!("OutText::new({name}, {})", rust_name(length)));
                }
                // Elsewhere another argument gives the room, and null asks for the length.
                let (_, room) = ROOMS.iter().find(|(of, _)| *of == parameter.name)?;
                let has_room =
                    self.must_not_be_null(parameter) && !self.parameters.iter().any(|p| p.name == "valuelen");
                return has_room.then(|| format!("OutString::new({name}, {room} as usize)"));
            }
            ("BUFFER", _) => return Some(format!("Buffer::new({name})")),
            ("STATUS", Direction::In) => return Some(format!("*{name}")),
            // The other fields of a status keep their values (MPI-5.0 §3.2.5).
            ("STATUS", Direction::Out) => return Some(format!("InOut::if_wanted({name})")),
            // Implementations take addresses as numbers.
            ("C_BUFFER" | "C_BUFFER2" | "ATTRIBUTE_VAL" | "ATTRIBUTE_VAL_10", Direction::Out) if !of_tools => {
                return Some(format!("Out::new({name}.cast::<usize>())"));
            }
            ("ARGUMENT_COUNT", _) => return None,
            _ if !is_pointer(parameter) || self.spec.c_type(parameter, self.form).ends_with('*') => return None,
            _ => {}
        }
        let place = if parameter.direction == Direction::Out { "Out" } else { "InOut" };
        let always = self.must_not_be_null(parameter) && !parameter.root;
        Some(format!("{place}::{}({name})", if always { "new" } else { "if_wanted" }))
    }

    /// The parameter with the length of a string that a tool asks for; the string and its length are one
    /// argument.
    fn length_of_text(&self, parameter: &Parameter) -> Option<&Parameter> {
        let is_text = parameter.kind == "STRING" && parameter.direction == Direction::Out;
        let is_asked = is_text && self.symbol.starts_with("MPI_T_");
        self.c_parameters().find(|other| is_asked && other.name == format!("{}_len", parameter.name))
    }

    /// Returns whether this parameter is the length of such a string.
    pub(super) fn is_length_of_text(&self, parameter: &Parameter) -> bool {
        self.c_parameters().any(|text| self.length_of_text(text).is_some_and(|length| length.name == parameter.name))
    }

    fn array(&self, parameter: &Parameter, name: &str) -> Result<String> {
        if self.spec.c_type(parameter, self.form).ends_with('*') {
            return Ok(name.to_owned());
        }
        let is_input = parameter.direction == Direction::In;
        ensure!(is_input || !parameter.is_poly(), "an output array whose width depends on the form");
        // Statuses may be ignored, and tools pass null for values that they do not want to know (MPI-5.0
        // §15.3.3).
        let optional = parameter.kind == "STATUS" || self.symbol.starts_with("MPI_T_");
        let how = if optional { "if_wanted" } else { "new" };
        Ok(match (parameter.direction, self.length(parameter)) {
            (Direction::In, Some(length)) => {
                self.of_width(parameter, name, "Counts", |first| format!("InArray::new({first}, {length})"))
            }
            (Direction::In, None) => {
                self.of_width(parameter, name, "UnmeasuredCounts", |first| format!("UnmeasuredArray::new({first})"))
            }
            (_, None) => name.to_owned(),
            (Direction::Out, Some(length)) if parameter.kind != "STATUS" => {
                format!("OutArray::{how}({name}, {length})")
            }
            (_, Some(length)) => format!("InOutArray::{how}({name}, {length})"),
        })
    }

    /// The argument for an input array of counts or displacements, which is as wide as the form says.
    fn of_width(&self, parameter: &Parameter, name: &str, counts: &str, elements: impl Fn(&str) -> String) -> String {
        match self.spec.c_type(parameter, self.form) {
            _ if !parameter.is_poly() => elements(name),
            "int" => format!("{counts}::Narrow({})", elements(name)),
            // MPI_Aint, MPI_Count and MPI_Offset are all 64 bits wide (MPI-5.0 §20).
            _ => format!("{counts}::Wide({})", elements(&format!("{name}.cast()"))),
        }
    }

    /// The length of an array, if an argument gives it.
    fn length(&self, parameter: &Parameter) -> Option<String> {
        let of = match parameter.lengths[0].as_str() {
            // There are as many as there are requests.
            "*" if matches!(parameter.name.as_str(), "array_of_statuses" | "array_of_indices") => {
                &self.c_parameters().find(|p| p.kind == "REQUEST")?.lengths[0]
            }
            of => of,
        };
        let length = self.c_parameters().find(|p| p.name == *of)?;
        // At processes that are not the root, neither the array nor its length is looked at.
        let is_known = !length.root || parameter.root;
        let is_number = length.direction == Direction::In && length.lengths.is_empty() && is_known;
        is_number.then(|| self.as_wide(length, &rust_name(length)))
    }

    /// The lines before and after the call for an output whose width depends on the form: it goes through a
    /// 64-bit local.
    pub(super) fn wide_local(&self, parameter: &Parameter) -> Result<Option<(String, Option<String>)>> {
        if !self.is_wide_output(parameter) {
            return Ok(None);
        }
        let name = rust_name(parameter);
        if !parameter.in_form(self.form) {
            return Ok(Some((format!("let mut {name}_wide = 0_i64;"), None)));
        }
        let c_type = self.spec.c_type(parameter, self.form);
        let initial = match (parameter.direction, c_type) {
            (Direction::Out, _) => "0_i64".to_owned(),
            (_, "int") => format!("i64::from(unsafe {{ *{name} }})"),
            (_, "MPI_Aint") => format!("unsafe {{ *{name} }} as i64"),
            _ => format!("unsafe {{ *{name} }}"),
        };
        let narrowed = match c_type {
            "int" => format!("narrow({name}_wide)"),
            "MPI_Aint" => format!("{name}_wide as MPI_Aint"),
            _ => format!("{name}_wide"),
        };
        let after = format!("unsafe {{ *{name} = {narrowed} }};");
        Ok(Some((format!("let mut {name}_wide = {initial};"), Some(after))))
    }

    fn is_wide_output(&self, parameter: &Parameter) -> bool {
        let varies = parameter.is_poly() && self.spec.c_type(parameter, Form::Large) != "fn";
        varies && parameter.direction != Direction::In && parameter.lengths.is_empty()
    }
}
