// Looks at the page that it is put into, and leaves what it found as JSON in the title.
const found = { flaws: [], texts: 0, figures: 0, dark: matchMedia("(prefers-color-scheme: dark)").matches, paper: "", width: innerWidth, switched: false };
const flaw = (text) => { if (found.flaws.length < 30) found.flaws.push(text); };
addEventListener("error", (e) => flaw("error: " + e.message), true);
addEventListener("securitypolicyviolation", (e) => flaw("the policy forbids " + e.violatedDirective + " " + e.blockedURI));
for (const level of ["error", "warn"]) console[level] = (...all) => flaw("console: " + all.join(" "));

const within = (inner, outer, slack) => inner.left >= outer.left - slack && inner.right <= outer.right + slack && inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
const overlap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;

function look() {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  if (document.documentElement.scrollWidth > innerWidth) flaw("the page is " + document.documentElement.scrollWidth + " wide in a window of " + innerWidth);
  document.querySelectorAll(".plot svg").forEach((svg) => {
    found.figures++;
    const box = svg.getBoundingClientRect();
    const id = svg.closest("figure").id;
    if (box.width < 200 || box.height < 50) flaw(id + " is " + box.width + " by " + box.height);
    const texts = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
    found.texts += texts.length;
    texts.forEach(([text, at], i) => {
      if (!within(at, box, 1)) flaw(id + ": " + text + " is outside of its drawing");
      texts.slice(i + 1).forEach(([other, there]) => { if (overlap(at, there)) flaw(id + ": " + text + " is over " + other); });
    });
    svg.querySelectorAll(".stroke, .band, .fill, .shape").forEach((e) => {
      if (!within(e.getBoundingClientRect(), box, 1)) flaw(id + ": a line or bar is outside of its drawing");
    });
  });
  document.querySelectorAll("p, li, h1, h2, h3, figcaption, dd").forEach((e) => {
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== "inline") flaw("text runs over: " + e.textContent.slice(0, 60));
  });
  const button = document.querySelector(".legend button");
  if (button) {
    const lines = () => button.closest("figure").querySelectorAll(".plot .off").length;
    button.click();
    const off = lines();
    button.click();
    found.switched = off > 0 && lines() === 0;
  }
  found.paper = getComputedStyle(document.body).backgroundColor;
  performance.getEntriesByType("resource").forEach((r) => flaw("it loads " + r.name));
}
addEventListener("load", () => {
  try { look(); } catch (e) { flaw("the probe: " + e); }
  setTimeout(() => { document.title = JSON.stringify(found); }, 50);
});
