"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const hidden = {};

  // Colours are variables of the page; Plotly wants their values.
  function resolved(value, style) {
    if (typeof value === "string") {
      return value.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    }
    if (Array.isArray(value)) return value.map((item) => resolved(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, style)]));
    }
    return value;
  }

  function dressed(id) {
    const style = getComputedStyle(document.documentElement);
    const { data, layout } = resolved(figures[id], style);
    const size = narrow.matches ? 11 : 13;
    layout.font = { family: getComputedStyle(document.body).fontFamily, size, color: style.getPropertyValue("--ink") };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.margin = narrow.matches ? { l: 52, r: 8, t: 8, b: 48 } : { l: 72, r: 16, t: 30, b: 56 };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--soft") };
    layout.hoverlabel = { align: "left", font: { size } };
    for (const axis of [layout.xaxis, layout.yaxis]) {
      Object.assign(axis, { gridcolor: style.getPropertyValue("--grid"), linecolor: style.getPropertyValue("--line") });
      // On a phone a finger on the figure scrolls the page; it does not drag the axes away.
      axis.fixedrange = narrow.matches;
    }
    layout.dragmode = narrow.matches ? false : "zoom";
    for (const trace of data) trace.visible = !hidden[id].has(trace.legendgroup);
    return { data, layout };
  }

  function draw(id) {
    const { data, layout } = dressed(id);
    const config = {
      responsive: true, displaylogo: false, displayModeBar: narrow.matches ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { filename: `attenio-${id}`, scale: 2 },
    };
    Plotly.react(document.getElementById(id), data, layout, config);
  }

  function sample(trace) {
    const markers = trace.mode.includes("markers") && !trace.mode.includes("lines");
    const color = (markers ? trace.marker.color : trace.line.color) || "currentColor";
    if (markers && trace.marker.symbol.startsWith("line-ns")) {
      return `<svg viewBox="0 0 24 12"><path d="M12 0V12" stroke="${color}" stroke-width="3"/></svg>`;
    }
    if (markers) {
      const fill = trace.marker.symbol.endsWith("-open") ? "none" : color;
      const shape = trace.marker.symbol.startsWith("square") ? 'rect x="8" y="2" width="8" height="8"' : 'circle cx="12" cy="6" r="4"';
      return `<svg viewBox="0 0 24 12"><${shape} fill="${fill}" stroke="${color}" stroke-width="2"/></svg>`;
    }
    const dash = { dash: "5 3", dot: "2 3", solid: "" }[trace.line.dash || "solid"] || "";
    return `<svg viewBox="0 0 24 12"><path d="M0 6H24" stroke="${color}" stroke-width="${Math.min(trace.line.width, 4)}"` +
      ` stroke-dasharray="${dash}"/></svg>`;
  }

  function legend(id) {
    const list = document.createElement("ul");
    list.className = "legend";
    const groups = new Map();
    for (const trace of figures[id].data) {
      if (trace.legendgroup) groups.set(trace.legendgroup, trace);
    }
    for (const [group, trace] of groups) {
      const button = document.createElement("button");
      button.type = "button";
      button.innerHTML = sample(trace);
      button.append(trace.meta.legend);
      button.setAttribute("aria-pressed", String(!hidden[id].has(group)));
      button.addEventListener("click", () => {
        if (!hidden[id].delete(group)) hidden[id].add(group);
        button.setAttribute("aria-pressed", String(!hidden[id].has(group)));
        draw(id);
      });
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    document.getElementById(id).after(list);
  }

  for (const id of Object.keys(figures)) {
    hidden[id] = new Set(figures[id].data.filter((t) => t.visible === "legendonly").map((t) => t.legendgroup));
    draw(id);
    legend(id);
  }
  const redraw = () => Object.keys(figures).forEach(draw);
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
})();
