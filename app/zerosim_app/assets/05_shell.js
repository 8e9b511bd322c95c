// The header: theme (auto, light, dark), the current page in the navigation, keyboard help on "?".
(function () {
  "use strict";
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const resolve = (choice) => (choice === "auto" ? (media.matches ? "dark" : "light") : choice);
  const known = (choice) => ["auto", "light", "dark"].includes(choice);
  let choice = null;

  const zs = {
    theme(fromSwitch, _stamp, stored) {
      const asked = dash_clientside.callback_context.triggered_id;
      if (asked === "theme-switch" && choice !== null) choice = fromSwitch;
      else if (choice === null) choice = known(stored) ? stored : "auto";
      const scheme = resolve(choice);
      const same = dash_clientside.no_update;
      return [
        scheme,
        scheme,
        fromSwitch === choice ? same : choice,
        stored === choice ? same : choice,
      ];
    },
    nav(pathname) {
      const here = "/" + String(pathname || "/").split("/")[1];
      return ["/", "/learn", "/simulate", "/explore", "/compare", "/runs", "/accuracy"].map((path) =>
        path === here ? "zs-nav zs-here" : "zs-nav",
      );
    },
    // The open tab is part of the address, but changing it makes no new page.
    keepTab(tab) {
      if (location.pathname !== "/explore") return dash_clientside.no_update;
      const query = new URLSearchParams(location.search);
      if (tab === "selection") query.delete("tab");
      else query.set("tab", tab);
      history.replaceState(history.state, "", location.pathname + "?" + query);
      return tab;
    },
    selectionShown(selected, tab) {
      return tab === "selection" ? selected : dash_clientside.no_update;
    },
    // A number as people say it beside its unit, and whether a field is at its default.
    fieldTold(value, unit, standard) {
      const text = value || "";
      const row = text === (standard || "") ? "zs-field" : "zs-field zs-changed";
      const number = unit ? Number(text.replaceAll(",", "")) : NaN;
      if (!(number >= 1e4)) return [unit || "", row];
      if (number >= 2 ** 62) return ["no limit", row];
      const [size, letter] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(
        ([size]) => number >= size,
      );
      return [`${Number((number / size).toPrecision(3))} ${letter} ${unit}`, row];
    },
    // Answers may come after another page was opened: its address is its own.
    keepScenario(words, view, shown, start) {
      if (location.pathname !== "/simulate") return dash_clientside.no_update;
      const query = new URLSearchParams();
      if (start[0] !== "lesson-zero3") query.set("preset", start[0]);
      if (words && words.length) query.set("set", words.join(" "));
      if (view !== "step") query.set("view", view);
      if (shown !== "steady") query.set("shown", shown);
      const text = query.toString();
      history.replaceState(history.state, "", location.pathname + (text ? "?" + text : ""));
      return view;
    },
    openScenario(preset, schedule, words, start) {
      if (preset === start[0] && schedule === start[1]) return dash_clientside.no_update;
      const query = new URLSearchParams({ preset });
      const kept = (words || []).filter((word) => !word.startsWith("schedule"));
      // Another preset is a fresh start; another schedule keeps model and machine.
      if (preset === start[0]) query.set("set", ["schedule=" + schedule, ...kept].join(" "));
      // What is looked at stays open.
      const now = new URLSearchParams(location.search);
      for (const name of ["view", "shown"]) if (now.has(name)) query.set(name, now.get(name));
      return "/simulate?" + query;
    },
    // Filters are part of the address, but changing them makes no new page.
    keepScores(view, ...filters) {
      if (location.pathname !== "/accuracy") return dash_clientside.no_update;
      const names = ["suite", "split", "source", "gpu", "by", "series"];
      const standard = { view: "steps", suite: "test", by: "source" };
      const query = new URLSearchParams();
      for (const [name, value] of [["view", view], ...names.map((n, i) => [n, filters[i]])])
        if (value && value !== standard[name]) query.set(name, value);
      const text = query.toString();
      history.replaceState(history.state, "", location.pathname + (text ? "?" + text : ""));
      return view;
    },
    openRun(chosen, now) {
      if (!chosen || chosen === now) return dash_clientside.no_update;
      return "/explore?" + new URLSearchParams({ run: chosen });
    },
    openPair(a, b, now) {
      if ((a || null) === now[0] && (b || null) === now[1]) return dash_clientside.no_update;
      const query = new URLSearchParams();
      if (a) query.set("a", a);
      if (b) query.set("b", b);
      return "/compare?" + query;
    },
    openTicked(_open, _compare, ticked) {
      const asked = dash_clientside.callback_context.triggered_id;
      const ids = (ticked || []).map((row) => row.id);
      if (asked === "runs-open" && ids.length === 1)
        return "/explore?" + new URLSearchParams({ run: ids[0] });
      if (asked === "runs-compare" && ids.length === 2)
        return "/compare?" + new URLSearchParams({ a: ids[0], b: ids[1] });
      return dash_clientside.no_update;
    },
    help(clicks, opened) {
      return !opened;
    },
  };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { zs });

  media.addEventListener("change", () => {
    if (choice !== "auto") return;
    dash_clientside.set_props("mantine", { forceColorScheme: resolve("auto") });
    dash_clientside.set_props("theme", { data: resolve("auto") });
  });

  const typing = (element) =>
    element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "?" || event.ctrlKey || event.metaKey || typing(event.target)) return;
    event.preventDefault();
    document.getElementById("help-open")?.click();
  });
})();
