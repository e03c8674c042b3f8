"""The few rules of the look that Streamlit has no option for: a compact header, and text that is set as text."""

from __future__ import annotations

from monitor.pages._alerts_style import ALERTS_RULES
from monitor.pages._findings_style import FINDINGS_RULES
from monitor.pages._tables import (
    DIVERGENCE_COLUMNS,
    EPISODE_COLUMNS,
    HISTORY_COLUMNS,
    INTERVAL_COLUMNS,
    MEANING_COLUMNS,
    PROBLEM_COLUMNS,
    UNCHECKED_COLUMNS,
    WHAT_IF_COLUMNS,
)

LOGO = """
<svg xmlns="http://www.w3.org/2000/svg" width="150" height="28" viewBox="0 0 150 28" role="img" aria-label="Ratiometer">
  <path d="M2 20 L8 20 L12 8 L17 24 L21 14 L27 14" fill="none" stroke="#3E8FC4" stroke-width="2.2" stroke-linejoin="round"/>
  <text x="35" y="20" font-family="'Source Sans 3','Helvetica Neue',Helvetica,Arial,sans-serif" font-size="18" font-weight="600"
    fill="#3E8FC4">Ratiometer</text>
</svg>
"""
_RULES = """
<style>
.stMainBlockContainer { padding: 4.25rem 2rem 3rem 2rem; }
[data-testid="stSidebarHeader"] { height: 3.25rem; margin-bottom: 0.5rem; }
[data-testid="stMultiSelectTagsContainer"] [data-tag] {
  background: color-mix(in srgb, currentColor 11%, transparent); color: inherit; font-size: 0.8rem; height: 1.5rem; max-width: 100%;
}
[data-testid="stMultiSelectTagsContainer"] [data-tag] > span { max-width: 9.5rem; }
.st-key-headlines { margin-bottom: -0.75rem; }
.st-key-headlines p { margin: 0 0 0.2rem 0; line-height: 1.4; font-size: 0.95rem; overflow-wrap: anywhere; }
.st-key-headlines .odd { margin: 0 0 0.2rem 1rem; font-size: 0.85rem; opacity: 0.8; line-height: 1.35; }
.st-key-headlines summary.odd { cursor: pointer; }
.st-key-overlay_library { position: absolute; max-width: 1px; overflow: hidden; }
TABLES table { font-variant-numeric: tabular-nums; font-size: 0.85rem; }
TABLES :is(td, th) { padding: 0.3rem 0.45rem; white-space: normal; overflow-wrap: break-word; vertical-align: top; }
TABLES :is(td, th) * { white-space: normal !important; overflow-wrap: inherit !important; max-width: none !important; }
TABLES td:first-child, .st-key-problems td:is(:nth-child(3), :nth-child(4)) { overflow-wrap: anywhere; }
.st-key-crossings td:first-child, .st-key-meanings td:first-child { min-width: 6rem; }
.st-key-parity_numbers td:first-child { min-width: 5.5rem; overflow-wrap: break-word; }
.st-key-problems td:is(:first-child, :nth-child(3)) { min-width: 4.5rem; }
.st-key-problems td:nth-child(4) { min-width: 8rem; }
@media (max-width: 1000px) {
  [data-testid="stTopNavLink"] > span:first-child:not([label]) { display: none; } /* seven names fit, seven pictures beside them do not */
  TABLES table { font-size: 0.78rem; }
  TABLES :is(td, th) { padding: 0.2rem; }
  .st-key-crossings table { font-size: 0.72rem; }
  .st-key-crossings td:first-child { min-width: 4.2rem; }
  CARDS thead { display: none; }
  CARDS :is(table, tbody, tr, td) { display: block; width: auto; }
  CARDS tr { padding-bottom: 0.6rem; }
  CARDS td { border: 0; padding: 0.05rem 0.25rem; }
  CARDS td:not(:first-child) * { display: inline; }
  CARDS td:first-child { font-weight: 600; }
  .st-key-corrections td:not(:first-child) { display: inline-block; margin-right: 0.7rem; }
NAMES
}
</style>
"""
_TABLES = ":is(.st-key-crossings, .st-key-parity_numbers, CARDS)"
# Their columns do not fit beside the sidebar of a narrow window: each row becomes a block, its column's name before each cell.
_COLUMNS = {
    "problems": PROBLEM_COLUMNS,
    "meanings": MEANING_COLUMNS,
    "unchecked": UNCHECKED_COLUMNS,
    "divergences": DIVERGENCE_COLUMNS,
    "episodes": EPISODE_COLUMNS,
    "history": HISTORY_COLUMNS,
    "corrections": WHAT_IF_COLUMNS,
    "intervals": INTERVAL_COLUMNS,
}
_CARDS = f":is({', '.join(f'.st-key-{key}' for key in _COLUMNS)})"
_NAMES = "\n".join(
    f'  .st-key-{key} td:nth-child({place})::before {{ content: "{name}: "; opacity: 0.75; }}'
    for key, columns in _COLUMNS.items()
    for place, name in enumerate(columns, 1)
    if place > 1
)
STYLE = _RULES.replace("TABLES", _TABLES).replace("CARDS", _CARDS).replace("NAMES", _NAMES) + FINDINGS_RULES + ALERTS_RULES
