"""The few rules of the look that Streamlit has no option for: a compact header, and text that is set as text."""

from __future__ import annotations

LOGO = """
<svg xmlns="http://www.w3.org/2000/svg" width="150" height="28" viewBox="0 0 150 28" role="img" aria-label="Ratiometer">
  <path d="M2 20 L8 20 L12 8 L17 24 L21 14 L27 14" fill="none" stroke="#3E8FC4" stroke-width="2.2" stroke-linejoin="round"/>
  <text x="35" y="20" font-family="'Source Sans 3','Helvetica Neue',Helvetica,Arial,sans-serif" font-size="18" font-weight="600"
    fill="#3E8FC4">Ratiometer</text>
</svg>
"""
STYLE = """
<style>
.stMainBlockContainer { padding: 4.25rem 2rem 3rem 2rem; }
[data-testid="stSidebarHeader"] { height: 3.25rem; margin-bottom: 0.5rem; }
[data-testid="stMultiSelectTagsContainer"] [data-tag] {
  background: color-mix(in srgb, currentColor 11%, transparent); color: inherit; font-size: 0.8rem; height: 1.5rem; max-width: 100%;
}
[data-testid="stMultiSelectTagsContainer"] [data-tag] > span { max-width: 9.5rem; }
.st-key-headlines p { margin: 0 0 0.2rem 0; line-height: 1.4; font-size: 0.95rem; }
.st-key-headlines p.odd { margin-left: 1rem; font-size: 0.85rem; opacity: 0.8; }
.st-key-crossings table, .st-key-problems table, .st-key-meanings table { font-variant-numeric: tabular-nums; font-size: 0.85rem; }
.st-key-crossings :is(td, th) { padding: 0.3rem 0.45rem; }
</style>
"""
