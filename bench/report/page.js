"use strict";
// The entries of a legend switch its lines off and on.
document.querySelectorAll("figure").forEach((figure) => {
  figure.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      figure.querySelectorAll('.plot [data-key="' + button.dataset.key + '"]').forEach((line) => {
        line.classList.toggle("off", !shown);
      });
    });
  });
});
// Paper cannot be unfolded.
addEventListener("beforeprint", () => {
  document.querySelectorAll("details.more").forEach((d) => { d.open = true; });
});
