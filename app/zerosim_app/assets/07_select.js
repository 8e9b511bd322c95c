// An option of a select with what it is below its name.
window.dashMantineFunctions = Object.assign(window.dashMantineFunctions || {}, {
  zsOption({ option, checked }) {
    const made = window.React.createElement;
    return made(
      "div",
      { className: checked ? "zs-option zs-chosen" : "zs-option" },
      made("div", { className: "zs-option-name" }, option.label),
      made("div", { className: "zs-note" }, option.says),
    );
  },
});
