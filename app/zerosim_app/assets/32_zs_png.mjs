// Saves what is in sight as a PNG: the layers laid over each other, nothing leaves the browser.

/** All layers of a timeline on one canvas, in device pixels. */
export function composed(tl) {
  const { over } = tl.layers;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [over.canvas.width, over.canvas.height];
  const context = canvas.getContext("2d");
  context.fillStyle = tl.inks.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const { canvas: layer } of Object.values(tl.layers)) {
    const [x, y] = [layer.style.left, layer.style.top].map((css) => parseFloat(css) * tl.dpr);
    if (layer.width && layer.height) context.drawImage(layer, Math.round(x), Math.round(y));
  }
  return canvas;
}

/** Offers the picture as a download. */
export function savePng(tl) {
  composed(tl).toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${tl.runs.map((run) => run.about.id).join("-vs-").replace(/[^\w.-]+/g, "_")}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }, "image/png");
}
