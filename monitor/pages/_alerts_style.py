"""How the table of runs, the alerts and the line about live runs are set: rules beside those of the overlay, in the page's own colours."""

from __future__ import annotations

_LINE = "color-mix(in srgb, currentColor 16%, transparent)"
ALERTS_RULES = """
<style>
.run { display: grid; grid-template-columns: minmax(8rem, 2.2fr) 6.5rem minmax(9.5rem, 1.6fr) 9rem minmax(8rem, 1.7fr) minmax(8rem, 1.8fr);
  gap: 0 0.9rem; align-items: center; font-size: 0.88rem; line-height: 1.35; }
.run > div { min-width: 0; overflow-wrap: anywhere; }
.run.head { font-size: 0.8rem; opacity: 0.8; padding: 0 6.6rem 0.3rem 0; }
.run small { display: block; opacity: 0.8; font-size: 0.78rem; }
.run .low { display: block; font-variant-numeric: tabular-nums; }
.run .low small { display: inline; }
.quiet { opacity: 0.75; }
.live { font-weight: 600; }
.live::before { content: "●"; margin-right: 0.2em; }
.course { display: block; position: relative; height: 2rem; width: 100%; border-bottom: 1px solid LINE; }
.course span { position: absolute; inset: 0; opacity: 0.75; }
.course i { position: absolute; left: 0; right: 0; border-top: 1px dotted; opacity: 0.7; }
[class*="st-key-run_row_"] { border-top: 1px solid LINE; padding: 0.35rem 0; }
@media (min-width: 641px) { [class*="st-key-run_row_"] { flex-wrap: nowrap; } }
@media (max-width: 640px) { [class*="st-key-run_row_"] > [data-testid="stElementContainer"]:first-child { flex-basis: 100%; } }
[class*="st-key-run_row_"] > [data-testid="stElementContainer"]:first-child { min-width: 0; }
[class*="st-key-run_row_"] a p { font-size: 0.85rem; }
.ratiometer-live { font-size: 0.82rem; opacity: 0.85; min-height: 1.2rem; }
.ratiometer-live button {
  font: inherit; color: inherit; background: none; border: 1px solid currentColor; border-radius: 0.25rem;
  padding: 0.1rem 0.6rem; cursor: pointer;
}
.st-key-living { margin-bottom: -1rem; }
LIVING [data-stale="true"] { opacity: 1 !important; transition: none !important; }
.rule { display: grid; grid-template-columns: 7.5rem minmax(12rem, 3fr) minmax(10rem, 3fr); gap: 0 0.9rem;
  font-size: 0.88rem; line-height: 1.4; border-top: 1px solid LINE; padding: 0.4rem 0; align-items: baseline; }
.rule > div { min-width: 0; overflow-wrap: anywhere; }
.rule small { display: block; opacity: 0.8; }
.rule code, .sink code { font-size: 0.9em; padding: 0; background: none; color: inherit; }
.standing p, .sink p { margin: 0; font-size: 0.9rem; line-height: 1.4; overflow-wrap: anywhere; }
.standing small, .sink small { opacity: 0.8; }
:is([class*="st-key-state_"], [class*="st-key-sink_row_"]) { border-top: 1px solid LINE; padding: 0.35rem 0; }
@media (max-width: 1000px) {
  .run.head { display: none; }
  .run { grid-template-columns: 1fr 1fr; gap: 0.25rem 0.9rem; }
  .run > div:first-child { grid-column: 1 / span 2; }
  .rule { grid-template-columns: 6.5rem 1fr; }
  .rule > div:nth-child(3) { grid-column: 2; }
}
</style>
""".replace("LIVING", ":is(.st-key-grown, .st-key-living)").replace("LINE", _LINE)
