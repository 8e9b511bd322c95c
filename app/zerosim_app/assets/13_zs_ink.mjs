// Colours as the pixel buffer needs them (ABGR in a u32), and which ink reads on which. Pure: no DOM.

const BLEND_STEPS = 16;

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const pack = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** `#rrggbb` as an opaque little-endian pixel. */
export function pixelOf(hex) {
  return pack(channels(hex));
}

/** `share` of colour `a` over colour `b`, as `#rrggbb`. */
export function mix(a, b, share) {
  const [from, to] = [channels(a), channels(b)];
  const mixed = from.map((value, k) => Math.round(value * share + to[k] * (1 - share)));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** WCAG 2 contrast ratio of two colours, 1 to 21. */
export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function luminance(hex) {
  const [r, g, b] = channels(hex).map((value) => {
    const c = value / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** White or near-black, whichever reads better on `hex`. */
export function textOn(hex) {
  return contrast("#ffffff", hex) >= contrast("#111111", hex) ? "#ffffff" : "#111111";
}

/** All colours of one theme, made once from timeline.json. */
export function inksOf(about, theme) {
  const pick = (swatch) => swatch[theme];
  const background = pick(about.theme.background);
  const ink = pick(about.theme.ink);
  const roles = about.roles.map(pick);
  const bed = mix(ink, background, theme === "dark" ? 0.065 : 0.04);
  const blend = new Uint32Array(roles.length * BLEND_STEPS);
  roles.forEach((role, k) => {
    for (let s = 0; s < BLEND_STEPS; s++)
      blend[k * BLEND_STEPS + s] = pixelOf(mix(role, bed, s / BLEND_STEPS));
  });
  return {
    theme,
    background,
    ink,
    muted: pick(about.theme.muted),
    grid: pick(about.theme.grid),
    band: mix(ink, background, theme === "dark" ? 0.1 : 0.06),
    runs: about.theme.runs.map(pick),
    roles,
    onRole: roles.map(textOn),
    bed,
    bedPixel: pixelOf(bed),
    rolePixel: Uint32Array.from(roles, pixelOf),
    palePixel: Uint32Array.from(roles, (role) => pixelOf(mix(role, bed, 0.18))),
    hatchPixel: Uint32Array.from(roles, (role) => pixelOf(mix(role, bed, 0.62))),
    blend,
    blendSteps: BLEND_STEPS,
  };
}
