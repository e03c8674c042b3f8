"""How findings, their ladder and the checklist of a migration are set: rules beside those of the overlay, in the page's own colours."""

from __future__ import annotations

_LINE = "color-mix(in srgb, currentColor 16%, transparent)"
FINDINGS_RULES = """
<style>
.state { font-weight: 600; white-space: nowrap; }
.ladder .state { white-space: normal; }
.mark { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.1em; vertical-align: -0.05em; }
.st-key-verdicts { margin-bottom: -0.5rem; }
.st-key-verdicts a { min-height: 1.4rem; padding: 0 0.25rem; }
.st-key-verdicts a p { font-size: 0.85rem; }
.verdict { font-size: 1.12rem; line-height: 1.4; margin: 0 0 0.35rem 0; overflow-wrap: anywhere; }
.basis { font-size: 0.85rem; opacity: 0.8; margin: 0 0 0.9rem 0; overflow-wrap: anywhere; }
ol.ladder { list-style: none; margin: 0; padding: 0; counter-reset: rung; border-top: 1px solid LINE; }
ol.ladder > li {
  display: grid; grid-template-columns: 1.4rem minmax(15rem, 2fr) minmax(7rem, 10rem) 3fr; gap: 0 0.9rem; align-items: baseline;
  margin: 0; padding: 0.4rem 0.5rem; border-bottom: 1px solid LINE; counter-increment: rung; font-size: 0.92rem;
}
ol.ladder > li::before { content: counter(rung); opacity: 0.7; font-variant-numeric: tabular-nums; }
ol.ladder > li.first { background: color-mix(in srgb, currentColor 6%, transparent); }
.ladder b { display: block; }
.ladder b::first-letter { text-transform: uppercase; }
.ladder small { display: block; opacity: 0.8; line-height: 1.3; }
.ladder div { min-width: 0; overflow-wrap: anywhere; }
.ladder code { font-size: 0.85em; padding: 0; background: none; color: inherit; }
.ladder a { color: inherit; text-decoration: underline; text-underline-offset: 0.15em; }
.finding { scroll-margin-top: 4.5rem; }
.finding h3 { font-size: 1.1rem; margin: 0.1rem 0 0.3rem 0; padding: 0; }
.finding p { margin: 0 0 0.3rem 0; overflow-wrap: anywhere; }
.finding .facts { font-size: 0.85rem; margin: 0; }
.finding .what { font-weight: 500; }
.label { font-size: 0.85rem; font-weight: 600; margin: 0.3rem 0 0.15rem 0; }
.where { font-size: 0.88rem; margin: 0; overflow-wrap: anywhere; }
ul.apart, ul.numbers { margin: 0; padding-left: 1.1rem; font-size: 0.88rem; }
ul.apart li, ul.numbers li { margin: 0 0 0.25rem 0; padding: 0; overflow-wrap: anywhere; }
ul.numbers small { opacity: 0.8; }
.st-key-notes p, .st-key-passed p { font-size: 0.88rem; margin: 0 0 0.5rem 0; overflow-wrap: anywhere; }
.st-key-parities p { margin: 0 0 0.45rem 0; line-height: 1.4; overflow-wrap: anywhere; }
ul.checklist { list-style: none; margin: 0; padding: 0; border-top: 1px solid LINE; }
ul.checklist > li {
  display: grid; grid-template-columns: minmax(9rem, 2fr) 8.5rem minmax(9rem, 3fr) minmax(12rem, 4fr); gap: 0 0.9rem;
  margin: 0; padding: 0.45rem 0.3rem; border-bottom: 1px solid LINE; font-size: 0.88rem; align-items: baseline;
}
.checklist div { min-width: 0; overflow-wrap: anywhere; }
.checklist p { margin: 0 0 0.2rem 0; font-size: inherit; line-height: 1.35; }
.checklist b, .checklist div:first-child small { display: block; }
.checklist small { opacity: 0.8; }
.checklist summary { cursor: pointer; }
.checklist code, .where code { font-size: 0.9em; padding: 0; background: none; color: inherit; }
@media (max-width: 1000px) {
  ul.checklist > li { grid-template-columns: 1fr auto; }
  ul.checklist > li > div:nth-child(n + 3) { grid-column: 1 / span 2; margin-top: 0.15rem; }
  ol.ladder > li { grid-template-columns: 1.4rem 1fr auto; }
  ol.ladder > li > div:nth-child(3) { grid-column: 2 / span 2; }
}
</style>
""".replace("LINE", _LINE)
