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
    stay(layout);
    fit(data, traces, layout);
  };
  // Plotly keeps a zoom only while the range that it was made in is given again, and that of a run that grows is another at every step. So
  // where the reader has zoomed, the old range is given until they zoom out; then they see all there is.
  const stay = (layout) => {
    const before = node.ratiometerRanges || {};
    const ranges = {};
    for (const [name, axis] of Object.entries(layout)) {
      if (!/^[xy]axis/.test(name) || !axis.range) continue;
      const revision = `${layout.uirevision} ${axis.uirevision}`;
      const was = before[name];
      const shown = node._fullLayout && node._fullLayout[name] && node._fullLayout[name].range;
      const zoomed = was && was.revision === revision && shown && !same(shown, was.given);
      ranges[name] = { revision, latest: axis.range, given: zoomed ? was.given : axis.range };
      axis.range = [...ranges[name].given];
    }
    node.ratiometerRanges = ranges;
  };
  const same = (one, other) => one.every((end, n) => Math.abs(end - other[n]) < 1e-9 * (Math.abs(other[1] - other[0]) || 1));
  const out = () => {
    const held = Object.entries(node.ratiometerRanges || {}).filter(([, range]) => !same(range.given, range.latest));
    if (!held.length || !held.some(([name, range]) => same(node._fullLayout[name].range, range.given))) return;
    node.ratiometerDrawn = null;
    draw();
  };
  // A legend of many lines takes its room from the strips; the figure grows by it instead.
  const fit = async (data, traces, layout, tries = 2) => {
    node.style.height = `${(layout.height = tall())}px`;
    await window.ratiometerPlotly.react(node, traces, layout, data.config);
    if (!node.ratiometerHears) { node.ratiometerHears = true; node.on("plotly_relayout", () => node.ratiometerOut()); }
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
  // What watches the node outlives a rerun and is made once; it calls what the latest rerun left behind.
  Object.assign(node, { ratiometerOut: out, ratiometerDraw: draw, ratiometerWiden: widen });
  const turn = (node.ratiometerTurn = (node.ratiometerTurn || 0) + 1);
  if (!node.ratiometerWidth) {
    node.ratiometerWidth = new ResizeObserver(() => { node.ratiometerDraw(); node.ratiometerWiden(); });
    node.ratiometerArrived = () => node.ratiometerDraw();
    node.ratiometerWidth.observe(node);
    window.addEventListener("ratiometer-plotly", node.ratiometerArrived, { once: true });
  }
  draw();
  return () => {
    if (node.ratiometerTurn !== turn) return; // a later rerun has it
    node.ratiometerWidth.disconnect();
    node.ratiometerWidth = null;
    window.removeEventListener("ratiometer-plotly", node.ratiometerArrived);
  };
}
