// Says which runs grow and how old their data are, and asks for another drawing when there is something new that is not drawn yet.
export default function ({ data, parentElement, setTriggerValue }) {
  const node = parentElement.querySelector(".ratiometer-live");
  const state = (node.ratiometerState ||= { asked: "" });
  state.data = data;
  const told = () => {
    const { runs, offered, seen, drawn, now } = state.data;
    const older = (Date.now() - state.at) / 1000;
    const span = (s) => (s < 120 ? `${Math.max(0, Math.round(s))} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`);
    const parts = runs.map(({ label, step, written }) => `${label} step ${step}, ${span(now - written + older)} ago`);
    const text = parts.length ? `Live: ${parts.join(" · ")}` : "";
    const line = node.querySelector("span");
    if (line.textContent !== text) line.textContent = text;
    const button = node.querySelector("button");
    button.hidden = !(offered && seen !== drawn);
    node.hidden = !text && button.hidden;
  };
  if (state.now !== data.now) { state.now = data.now; state.at = Date.now(); }
  node.querySelector("button").onclick = () => setTriggerValue("again", data.seen);
  told();
  if (!data.offered && data.seen !== data.drawn && state.asked !== data.seen) {
    state.asked = data.seen;
    setTriggerValue("grown", data.seen);
  }
  clearInterval(state.timer);
  const timer = (state.timer = setInterval(told, 1000));
  return () => clearInterval(timer);
}
