//! A drawing: a list of shapes, written down as SVG.
//!
//! Colours are named by their meaning (`Ink`), so that a page can show the same drawing on a light and on a
//! dark ground.

use std::fmt::Write;

use super::font;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    /// The labels of axes.
    Quiet,
    Axis,
    Grid,
    /// A library, by its index in the palette.
    Series(usize),
}

/// Colours that people with any kind of colour vision tell apart (after Okabe and Ito), for light and for
/// dark ground. The first and strongest is the subject's. The last three are for carriers: quiet, and of
/// different lightness.
pub(super) const PALETTE: [(&str, &str); 10] = [
    ("#d1480a", "#ff7a3d"),
    ("#0072b2", "#56a9e0"),
    ("#009e73", "#2fc79b"),
    ("#b0559a", "#dd8cc4"),
    ("#b58900", "#e6b422"),
    ("#2e9cca", "#7fd0f0"),
    ("#5d4a99", "#a797e0"),
    ("#2f353b", "#d3d8dd"),
    ("#8a6a3b", "#c8a46b"),
    ("#8b949e", "#8b949e"),
];
pub(super) const PEER_COLOURS: std::ops::Range<usize> = 1..7;
pub(super) const CARRIER_COLOURS: std::ops::Range<usize> = 7..10;

const LIGHT: [&str; 4] = ["#1b1f24", "#525a63", "#8b949e", "#e2e5e9"];
const DARK: [&str; 4] = ["#e6e9ed", "#a9b2bc", "#7d8790", "#333940"];

impl Ink {
    pub(super) fn light(self) -> &'static str {
        self.pick(LIGHT, |pair| pair.0)
    }

    fn dark(self) -> &'static str {
        self.pick(DARK, |pair| pair.1)
    }

    fn pick(
        self,
        plain: [&'static str; 4],
        series: impl Fn((&'static str, &'static str)) -> &'static str,
    ) -> &'static str {
        match self {
            Ink::Text => plain[0],
            Ink::Quiet => plain[1],
            Ink::Axis => plain[2],
            Ink::Grid => plain[3],
            Ink::Series(index) => series(PALETTE[index % PALETTE.len()]),
        }
    }

    fn class(self) -> String {
        match self {
            Ink::Text => "t".to_owned(),
            Ink::Quiet => "q".to_owned(),
            Ink::Axis => "a".to_owned(),
            Ink::Grid => "g".to_owned(),
            Ink::Series(index) => format!("c{index}"),
        }
    }
}

/// The style rules of a page that holds drawings: `--NAME` variables in each colour scheme, and rules for the
/// drawings' classes.
pub(crate) struct Style;

impl Style {
    fn all() -> Vec<Ink> {
        let plain = [Ink::Text, Ink::Quiet, Ink::Axis, Ink::Grid].into_iter();
        plain.chain((0..PALETTE.len()).map(Ink::Series)).collect()
    }

    /// The variables of a colour scheme: `--chart-c0: #d1480a; …`
    pub(crate) fn variables(dark: bool) -> String {
        let colour = |ink: Ink| if dark { ink.dark() } else { ink.light() };
        Style::all().into_iter().map(|ink| format!("--chart-{}:{};", ink.class(), colour(ink))).collect()
    }

    /// The rules of the classes: `.chart .f-c0{fill:var(--chart-c0)}…`
    pub(crate) fn rules() -> String {
        let rule = |ink: Ink| {
            let class = ink.class();
            format!(".chart .f-{class}{{fill:var(--chart-{class})}}.chart .s-{class}{{stroke:var(--chart-{class})}}")
        };
        Style::all().into_iter().map(rule).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) x: f64,
    /// The place of the text's base line.
    pub(super) y: f64,
    pub(super) text: String,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
    pub(super) ink: Ink,
    /// Says whether the text is turned, to be read from below to above.
    pub(super) turned: bool,
}

impl Text {
    /// The edges of the text: left, top, right, bottom.
    #[cfg(test)]
    pub(super) fn bounds(&self) -> [f64; 4] {
        let width = font::width(&self.text, self.size, self.bold);
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (up, down) = (self.size * 0.78, self.size * 0.22);
        if self.turned {
            [self.x - up, self.y - width + before, self.x + down, self.y + before]
        } else {
            [self.x - before, self.y - up, self.x - before + width, self.y + down]
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        ink: Ink,
        width: f64,
        dashes: &'static [f64],
    },
    Area {
        points: Vec<(f64, f64)>,
        ink: Ink,
        opacity: f64,
    },
    /// A marker, filled, or an outline in the ground's colour.
    Marker {
        points: Vec<(f64, f64)>,
        ink: Ink,
        hollow: bool,
    },
    Text(Text),
}

pub(super) struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, shapes: Vec::new() }
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64, dashes: &'static [f64]) {
        self.shapes.push(Shape::Line { points: points.to_vec(), ink, width, dashes });
    }

    pub(super) fn area(&mut self, points: &[(f64, f64)], ink: Ink, opacity: f64) {
        self.shapes.push(Shape::Area { points: points.to_vec(), ink, opacity });
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) -> &mut Text {
        let text =
            Text { x, y, text: text.to_owned(), size: 12.0, bold: false, anchor, ink: Ink::Quiet, turned: false };
        self.shapes.push(Shape::Text(text));
        match self.shapes.last_mut() {
            Some(Shape::Text(text)) => text,
            _ => unreachable!("a text was just pushed"),
        }
    }

    #[cfg(test)]
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The drawing as a file of its own, with colours as they are, on white.
    pub(super) fn file(&self, title: &str) -> String {
        let mut svg = self.open(title, " xmlns=\"http://www.w3.org/2000/svg\"", true);
        let _ = writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
        self.write(&mut svg, |attribute, ink| format!("{attribute}=\"{}\"", ink.light()), "#ffffff");
        svg + "</svg>\n"
    }

    /// The drawing for a page: colours by class, on the page's ground. `fill` and `stroke` are in the page's
    /// rules.
    pub(super) fn inline(&self, title: &str) -> String {
        let mut svg = self.open(title, " class=\"chart\"", false);
        self.write(
            &mut svg,
            |attribute, ink| format!("class=\"{}-{}\"", &attribute[..1], ink.class()),
            "var(--ground)",
        );
        svg + "</svg>\n"
    }

    fn open(&self, title: &str, more: &str, sized: bool) -> String {
        let (width, height) = (self.width, self.height);
        let size = if sized { format!(" width=\"{width}\" height=\"{height}\"") } else { String::new() };
        format!(
            "<svg{more}{size} viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{}\">\n<title>{}</title>\n",
            font::FAMILY,
            escape(title)
        )
    }

    fn write(&self, svg: &mut String, colour: impl Fn(&str, Ink) -> String, ground: &str) {
        for shape in &self.shapes {
            let _ = match shape {
                Shape::Line { points, ink, width, dashes } => {
                    let dashes = match dashes {
                        [] => String::new(),
                        _ => format!(
                            " stroke-dasharray=\"{}\"",
                            dashes.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
                        ),
                    };
                    let colour = colour("stroke", *ink);
                    writeln!(
                        svg,
                        "<path d=\"{}\" {colour} fill=\"none\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}/>",
                        path(points, false)
                    )
                }
                Shape::Area { points, ink, opacity } => {
                    writeln!(
                        svg,
                        "<path d=\"{}\" {} fill-opacity=\"{opacity}\"/>",
                        path(points, true),
                        colour("fill", *ink)
                    )
                }
                Shape::Marker { points, ink, hollow: false } => {
                    writeln!(svg, "<path d=\"{}\" {}/>", path(points, true), colour("fill", *ink))
                }
                Shape::Marker { points, ink, hollow: true } => {
                    let colour = colour("stroke", *ink);
                    let path = path(points, true);
                    writeln!(svg, "<path d=\"{path}\" {colour} style=\"fill:{ground}\" stroke-width=\"1.5\"/>")
                }
                Shape::Text(text) => writeln!(svg, "{}", written(text, &colour("fill", text.ink))),
            };
        }
    }
}

fn path(points: &[(f64, f64)], closed: bool) -> String {
    let mut text = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(text, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    text + if closed { "Z" } else { "" }
}

fn written(text: &Text, colour: &str) -> String {
    let Text { x, y, size, .. } = text;
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = if text.bold { " font-weight=\"bold\"" } else { "" };
    let position = if text.turned {
        format!("transform=\"translate({x:.1} {y:.1}) rotate(-90)\"")
    } else {
        format!("x=\"{x:.1}\" y=\"{y:.1}\"")
    };
    format!("<text {position} font-size=\"{size}\"{anchor}{weight} {colour}>{}</text>", escape(&text.text))
}

/// Escapes text for the content or an attribute of XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters, which XML has no way to write, become U+FFFD.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
