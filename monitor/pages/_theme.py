"""Which theme the viewer sees: told by the browser when a script runs, and asked for again when the viewer changes it meanwhile.

Streamlit restyles its own elements at once but runs no script, so that a figure would keep the other theme's ground until the next click.
"""

from __future__ import annotations

import streamlit as st

from monitor.pages._colours import DARK, LIGHT, Theme

# Looks once a second whether the page's ground fits the theme that figures were drawn for; asks once per change, never in a loop.
WATCH = """
export default function ({ data, parentElement, setTriggerValue }) {
  const look = () => {
    const page = document.querySelector(".stApp");
    const ground = page && getComputedStyle(page).backgroundColor;
    if (!ground || ground === parentElement.told) return;
    const [red, green, blue] = ground.match(/[0-9.]+/g).map(Number);
    if ((red + green + blue < 384) === data.dark) return;
    parentElement.told = ground;
    setTriggerValue("switched", true);
  };
  parentElement.told = (data.dark === parentElement.dark) ? parentElement.told : null;
  parentElement.dark = data.dark;
  const timer = setInterval(look, 1000);
  return () => clearInterval(timer);
}
"""


def theme() -> Theme:
    """The viewer's theme; light until the browser has said."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def follow() -> None:
    """Have the script run again when the viewer changes the theme."""
    watch = st.components.v2.component("ratiometer_theme", js=WATCH)
    watch(key="theme_watch", data={"dark": theme().dark}, on_switched_change=lambda: None)
