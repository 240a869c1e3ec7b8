// The copy button takes commands, without prompts and output. ClipboardJS prefers this attribute to the block's text.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-clipboard-target]");
  const code = button && document.querySelector(button.dataset.clipboardTarget);
  if (!code?.querySelector(".gp")) return;
  const copy = code.cloneNode(true);
  copy.querySelectorAll(".gp, .go").forEach((part) => part.remove());
  button.dataset.clipboardText = copy.textContent.replace(/\n{2,}/g, "\n").trimStart();
}, true);

// A table or block that is wider than its box can be scrolled with the keys too.
window.addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});

// The theme names its version menu "Select version"; who speaks to the page says what stands on it.
new MutationObserver(() => {
  for (const menu of document.querySelectorAll(".md-version__current[aria-label]")) {
    if (!menu.ariaLabel.includes(menu.textContent.trim())) menu.ariaLabel += ` ${menu.textContent.trim()}`;
  }
}).observe(document.documentElement, { childList: true, subtree: true });
