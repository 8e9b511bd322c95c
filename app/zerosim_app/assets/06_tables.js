// How tables show numbers: the cell keeps the number (to sort by), the reader sees the unit.
(function () {
  "use strict";
  // An op that moves nothing has no size; any other empty cell is something nobody knows.
  const none = (row) => (row && row.moves === false ? "" : "unknown");
  const scaled = (units) => (value, row) => {
    if (value === null || value === undefined) return none(row);
    const [size, unit] = units.find(([s]) => Math.abs(value) >= s) ?? units[units.length - 1];
    const digits = Math.abs(value / size) >= 1000 ? 0 : undefined;
    const number = value / size;
    return (digits === 0 ? number.toFixed(0) : String(Number(number.toPrecision(3)))) + " " + unit;
  };
  const plain = (write) => (value, row) =>
    value === null || value === undefined ? none(row) : write(value);
  const zs = {
    kind: plain((value) => value.replaceAll("_", "-")),
    ns: scaled([[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]),
    bytes: scaled([[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]),
    rate: scaled([[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]),
    count: plain((value) => value.toLocaleString("en-US")),
    percent: plain((value) => (100 * value).toFixed(1) + " %"),
    points: plain((value) => value.toFixed(1)),
    ratio: plain((value) => value.toFixed(3) + "×"),
  };
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  for (const [name, write] of Object.entries(zs)) functions["zs_" + name] = write;
})();
