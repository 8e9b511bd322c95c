// Steps through a lesson: every state is already here, so a step is a change of attributes.
(function () {
  "use strict";
  const PLAY_MS = 1600;
  let lesson = null; // what the server sent
  let now = 0;
  let timer = null;

  const root = () => document.getElementById("lesson");
  const clamp = (step) => Math.max(0, Math.min(step, lesson.states.length - 1));
  const text = (id, words) => {
    const element = document.getElementById(id);
    if (element && element.textContent !== words) element.textContent = words;
  };
  const each = (selector, visit) => document.querySelectorAll(selector).forEach(visit);

  function show(step, remember) {
    if (!lesson || !root()) return;
    now = clamp(step);
    const state = lesson.states[now];
    text("lesson-sentence", state.sentence);
    text("lesson-meanwhile", state.meanwhile);
    text("lesson-count", now + " of " + (lesson.states.length - 1));
    const hot = new Set(state.hot);
    each(".zs-cell", (cell) => {
      const index = Number(cell.dataset.cell);
      const fill = state.cells[index];
      cell.dataset.fill = fill;
      cell.dataset.hot = String(hot.has(index));
      cell.setAttribute("aria-label", cell.dataset.subject + ": " + lesson.words[fill]);
    });
    each(".zs-membar", (bar) =>
      state.shares.forEach((share, k) => (bar.children[k].style.width = share + "%")),
    );
    each(".zs-kind-bytes", (label, k) => (label.textContent = state.bytes[k]));
    each(".zs-total", (label) => (label.textContent = state.total));
    each(".zs-op, .zs-bar", (op) =>
      op.setAttribute("aria-current", Number(op.dataset.step) === now ? "step" : "false"),
    );
    each(".zs-chip", (chip) =>
      chip.setAttribute("aria-pressed", String(chip.dataset.phase === state.phase)),
    );
    root().dataset.step = String(now);
    reveal();
    if (remember) history.replaceState(history.state, "", now ? "?step=" + now : location.pathname);
    if (now === lesson.states.length - 1) pause();
  }

  // Keep the current op of a long strip in sight, without moving the page.
  function reveal() {
    const strip = document.querySelector(".zs-strip");
    const op = strip && strip.querySelector('[aria-current="step"]');
    if (!op || strip.scrollWidth <= strip.clientWidth) return;
    strip.scrollLeft = op.offsetLeft - strip.offsetLeft - strip.clientWidth / 2;
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    label("Play", "Play the lesson");
  }
  function play() {
    if (now === lesson.states.length - 1) show(0, true);
    timer = setInterval(() => (root() ? show(now + 1, true) : pause()), PLAY_MS);
    label("Pause", "Pause the lesson");
  }
  function label(words, spoken) {
    const button = document.querySelector('[data-does="play"]');
    if (!button) return;
    button.textContent = words;
    button.setAttribute("aria-label", spoken);
  }
  const does = {
    previous: () => (pause(), show(now - 1, true)),
    next: () => (pause(), show(now + 1, true)),
    first: () => (pause(), show(0, true)),
    last: () => (pause(), show(lesson.states.length - 1, true)),
    play: () => (timer ? pause() : play()),
  };
  const KEYS = {
    ArrowLeft: "previous",
    ArrowRight: "next",
    Home: "first",
    End: "last",
    " ": "play",
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-step], [data-does]");
    if (!button || !lesson || !root() || button === root()) return;
    if (button.dataset.does) does[button.dataset.does]();
    else (pause(), show(Number(button.dataset.step), true));
  });
  // Keys work anywhere on the page, except where they already mean something.
  function ours(event) {
    if (!lesson || !root() || !KEYS[event.key]) return false;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (document.querySelector('[role="dialog"]')) return false;
    const at = event.target instanceof Element ? event.target : document.body;
    if (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return false;
    const lessonButton = at.closest(".zs-strip, .zs-schedule");
    return !(event.key === " " && at.closest("button, a, summary") && !lessonButton);
  }
  document.addEventListener("keydown", (event) => {
    if (!ours(event)) return;
    event.preventDefault();
    does[KEYS[event.key]]();
  });
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && ours(event)) event.preventDefault();
  });

  const zsLearn = {
    mount(states, search) {
      if (!states) return dash_clientside.no_update;
      lesson = states;
      clearInterval(timer);
      timer = null;
      const asked = parseInt(new URLSearchParams(location.search || search || "").get("step"), 10);
      show(Number.isFinite(asked) ? asked : 0, false);
      return lesson.lesson;
    },
  };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { zsLearn });
})();
