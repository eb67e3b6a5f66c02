//! Turns Markdown into HTML that cannot carry a script: HTML in the source is shown as text, and
//! links and pictures keep their target only if its scheme is harmless.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// What a link or picture may start with; relative ones are kept too.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// The HTML of a Markdown text, as a fragment without `<html>` and `<body>`.
pub fn to_safe_html(markdown: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES;
    let mut filter = Filter::default();
    let events = Parser::new_ext(markdown, options).filter_map(|event| filter.pass(event));
    let mut page = String::with_capacity(markdown.len() * 3 / 2);
    html::push_html(&mut page, events);
    page
}

/// Decides for each event whether it goes on, and as what.
#[derive(Default)]
struct Filter {
    /// For each link or picture that is open: whether it was kept. Its end must share its fate.
    kept: Vec<bool>,
}

impl Filter {
    fn pass<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        match event {
            // Text is escaped on its way out.
            Event::Html(source) | Event::InlineHtml(source) => Some(Event::Text(source)),
            Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Link { ref dest_url, .. } | Tag::Image { ref dest_url, .. }) => {
                let keep = is_harmless(dest_url);
                self.kept.push(keep);
                keep.then_some(event)
            }
            Event::End(TagEnd::Link | TagEnd::Image) => self.kept.pop().unwrap_or(false).then_some(event),
            other => Some(other),
        }
    }
}

/// Whether following a link can do no more than open a page or a letter.
fn is_harmless(url: &str) -> bool {
    // Browsers skip white space and control characters within a scheme, so they must not hide one.
    let url: String = url.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let before_path = url.split(['/', '?', '#']).next().unwrap_or_default();
    match before_path.split_once(':') {
        None => true,
        Some((scheme, _)) => SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)),
    }
}

#[cfg(test)]
mod tests {
    use super::to_safe_html;

    #[test]
    fn ordinary_markdown_becomes_ordinary_html() {
        assert_eq!(
            to_safe_html("# Title\n\nA *word*, `code & more`.\n\n- [x] done\n"),
            "<h1>Title</h1>\n<p>A <em>word</em>, <code>code &amp; more</code>.</p>\n<ul>\n\
             <li><input disabled=\"\" type=\"checkbox\" checked=\"\"/>\ndone</li>\n</ul>\n"
        );
    }

    #[test]
    fn html_in_the_source_is_shown_as_text() {
        for source in [
            "<script>alert(1)</script>",
            "before <img src=x onerror=alert(1)> after",
            "<div onclick=\"alert(1)\">\n\nhello\n\n</div>",
            "<!-- <script> -->",
            "| a |\n|---|\n| <svg onload=alert(1)> |",
        ] {
            let page = to_safe_html(source);
            for tag in ["<script", "<img", "<div", "<svg", "<!--"] {
                assert!(!page.contains(tag), "{source:?} became {page:?}");
            }
            assert!(page.contains("&lt;"), "{source:?} became {page:?}");
        }
    }

    #[test]
    fn harmless_links_are_kept() {
        for target in ["https://a.example/b?c=d:e", "HTTP://a.example", "mailto:a@b.example", "b/c:d", "#e", "//f"] {
            let page = to_safe_html(&format!("[text]({target})"));
            assert!(page.contains(&format!("<a href=\"{target}\">text</a>")), "{page}");
        }
        assert!(to_safe_html("<a@b.example>").contains("href=\"mailto:a@b.example\""));
    }

    #[test]
    fn of_other_links_and_pictures_only_the_text_is_left() {
        for source in [
            "[text](javascript:alert(1))",
            "[text](<java\tscript:alert(1)>)",
            "[text](javascript&colon;alert(1))",
            "[text](JaVaScRiPt:alert(1))",
            "[text](<\u{1}javascript:alert(1)>)",
            "![text](data:text/html;base64,AAAA)",
            "[text][1]\n\n[1]: vbscript:alert(1)",
        ] {
            assert_eq!(to_safe_html(source), "<p>text</p>\n", "{source:?}");
        }
        assert_eq!(to_safe_html("<javascript:alert(1)>"), "<p>javascript:alert(1)</p>\n");
    }

    #[test]
    fn a_bad_picture_in_a_good_link_takes_only_itself_away() {
        assert_eq!(
            to_safe_html("[![text](data:x)](https://a.example)"),
            "<p><a href=\"https://a.example\">text</a></p>\n"
        );
    }

    #[test]
    fn attributes_cannot_be_broken_out_of() {
        let page = to_safe_html("[text](https://a.example/\"onclick=\"alert(1) 'a\" b=\"c')");
        assert!(!page.contains("\"onclick"), "{page}");
    }
}
