// Draws a Plotly figure into a node that is kept between reruns, so that zoom, hidden runs and the reader's eye stay where they are.
export default function (component) {
  const { parentElement } = component;
  const node = parentElement.querySelector(".ratiometer-grid");
  node.ratiometerData = component.data; // an observer of an earlier rerun may still be there, and must not draw what it was made for
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", component.data.alt);
  const tall = () => node.ratiometerData.height + (node.ratiometerExtra || 0);
  node.style.height = `${tall()}px`;

  const draw = () => {
    const data = node.ratiometerData;
    const narrow = node.clientWidth > 0 && node.clientWidth < 720;
    if (!window.ratiometerPlotly || (node.ratiometerDrawn === data.figure && node.ratiometerNarrow === narrow)) return;
    node.ratiometerDrawn = data.figure;
    node.ratiometerNarrow = narrow;
    const { data: traces, layout } = JSON.parse(data.figure);
    // Beside a strip's title there is room for the count alone; what is counted is a hover away.
    for (const note of layout.annotations) if (narrow && note.name) note.text = note.name;
    fit(data, traces, layout);
  };
  // A legend of many lines takes its room from the strips; the figure grows by it instead.
  const fit = async (data, traces, layout, tries = 2) => {
    node.style.height = `${(layout.height = tall())}px`;
    await window.ratiometerPlotly.react(node, traces, layout, data.config);
    const legend = node._fullLayout.legend;
    const extra = Math.max(0, Math.ceil((legend && legend._height) || 0) - data.legendRoom);
    if (extra === (node.ratiometerExtra || 0) || tries === 0 || node.ratiometerDrawn !== data.figure) return widen();
    node.ratiometerExtra = extra;
    await fit(data, traces, layout, tries - 1);
  };
  // Plotly looks at the window alone; in a grid a figure gets wider and narrower by itself, even while it is drawn.
  const widen = () => {
    const drawn = node._fullLayout;
    if (drawn && node.clientWidth && Math.abs(node.clientWidth - drawn.width) > 1) window.ratiometerPlotly.Plots.resize(node);
  };
  const width = new ResizeObserver(() => { draw(); widen(); });
  draw();
  width.observe(node);
  window.addEventListener("ratiometer-plotly", draw, { once: true });
  return () => {
    width.disconnect();
    window.removeEventListener("ratiometer-plotly", draw);
  };
}
