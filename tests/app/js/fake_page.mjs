// Just enough of a page for a Timeline to live in: elements that remember, a canvas that counts.

class Element {
  constructor() {
    Object.assign(this, { dataset: {}, style: {}, children: [], textContent: "", hidden: false });
    Object.assign(this, { clientWidth: 1186, offsetWidth: 100, offsetHeight: 80, isConnected: true });
    this.listeners = {};
  }
  addEventListener(kind, handler) {
    (this.listeners[kind] ??= []).push(handler);
  }
  fire(kind, event = {}) {
    const given = { preventDefault() { this.prevented = true; }, target: this, ...event };
    for (const handler of this.listeners[kind] ?? []) handler(given);
    return given;
  }
  replaceChildren(...children) {
    this.children = children;
  }
  append(...children) {
    this.children.push(...children);
  }
  setAttribute(name, value) {
    this[name] = value;
  }
  getBoundingClientRect() {
    return { left: 0, top: 0, width: this.clientWidth, height: 500 };
  }
  querySelector(selector) {
    this.parts ??= {};
    return (this.parts[selector] ??= new Element());
  }
  setPointerCapture() {}
  focus() {
    this.focused = true;
  }
  getContext() {
    return (this.context ??= new Proxy({ calls: {} }, {
      get: (target, name) =>
        name in target ? target[name] : (...args) => {
          (target.calls[name] ??= []).push(args);
          return name === "measureText" ? { width: 6 * args[0].length } : undefined;
        },
    }));
  }
}

/** Puts a fake page into the globals; `told` collects what Dash would hear. */
export function fakePage() {
  const told = {};
  const page = { root: new Element(), told, scheme: "light", address: [] };
  globalThis.document = {
    createElement: () => new Element(),
    documentElement: { getAttribute: () => page.scheme },
  };
  globalThis.window = {
    devicePixelRatio: 1,
    innerHeight: 900,
    location: { pathname: "/explore", search: "?run=x", hash: "" },
    history: { state: null, replaceState: (_, __, to) => page.address.push(to) },
    matchMedia: () => ({ matches: page.reducedMotion ?? false }),
    dash_clientside: { set_props: (id, { data }) => (told[id] = data) },
  };
  globalThis.getComputedStyle = () => ({ fontFamily: "sans-serif" });
  globalThis.ImageData = class {
    constructor(width, height) {
      this.data = new Uint8ClampedArray(4 * width * height);
    }
  };
  page.frames = [];
  globalThis.requestAnimationFrame = (call) => page.frames.push(call);
  globalThis.cancelAnimationFrame = () => {};
  page.frame = (now = 0) => page.frames.splice(0).forEach((call) => call(now));
  return page;
}
