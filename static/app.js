// Comfort only: every page works without this file.
(() => {
  "use strict";
  const live = (text) => { const node = document.getElementById("live"); if (node) node.textContent = text; };

  const wireCopy = (root) => root.querySelectorAll("[data-copy]").forEach((button) => {
    if (!navigator.clipboard || button.dataset.wired) return;
    button.dataset.wired = "1";
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      const word = button.querySelector("span");
      const before = word.textContent;
      word.textContent = "Copied";
      live("Copied");
      setTimeout(() => { word.textContent = before; }, 1600);
    });
  });

  const wireCharts = (root) => root.querySelectorAll("[data-chart]").forEach((plot) => {
    if (plot.dataset.wired) return;
    plot.dataset.wired = "1";
    const groups = [...plot.querySelectorAll("g[data-text]")];
    const tip = plot.querySelector(".tip");
    let at = -1;
    const show = (index, spoken) => {
      groups.forEach((group, i) => group.toggleAttribute("data-on", i === index));
      at = index;
      tip.hidden = index < 0;
      tip.textContent = index < 0 ? "" : groups[index].dataset.text;
      if (spoken && index >= 0) live(groups[index].dataset.text);
    };
    groups.forEach((group, i) => group.addEventListener("pointerenter", () => show(i, false)));
    plot.addEventListener("pointerleave", () => show(-1, false));
    plot.addEventListener("blur", () => show(-1, false));
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || !groups.length) return;
      event.preventDefault();
      show(Math.min(groups.length - 1, Math.max(0, at + step)), true);
    });
  });

  const wire = (root) => { wireCopy(root); wireCharts(root); };
  wire(document);
  document.addEventListener("htmx:afterSwap", (event) => wire(event.target));
  document.addEventListener("htmx:beforeRequest", (event) => {
    const trigger = event.target.getAttribute && event.target.getAttribute("hx-trigger");
    if (document.hidden && trigger && trigger.includes("every")) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    document.querySelectorAll("details.menu[open]").forEach((menu) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.querySelectorAll("details.menu[open]").forEach((menu) => {
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  });
  document.querySelectorAll("form[method=post]").forEach((form) => form.addEventListener("submit", () => {
    form.querySelectorAll("button[data-once]").forEach((button) => { setTimeout(() => { button.disabled = true; }); });
  }));
})();
