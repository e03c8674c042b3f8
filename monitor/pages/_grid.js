// Draws a Plotly figure into a node that is kept between reruns, so that zoom, hidden runs and the reader's eye stay where they are.
export default function (component) {
  const { data, parentElement } = component;
  const node = parentElement.querySelector(".ratiometer-grid");
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", data.alt);
  node.style.height = `${data.height}px`;

  const draw = () => {
    if (node.ratiometerDrawn === data.figure) return;
    node.ratiometerDrawn = data.figure;
    const { data: traces, layout } = JSON.parse(data.figure);
    window.ratiometerPlotly.react(node, traces, layout, data.config);
  };
  if (window.ratiometerPlotly) draw();
  else window.addEventListener("ratiometer-plotly", draw, { once: true });
  return () => window.removeEventListener("ratiometer-plotly", draw);
}
